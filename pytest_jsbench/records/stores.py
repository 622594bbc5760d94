"""Copy records of runs to this machine from an object store, or from any other place that fsspec supports."""

from __future__ import annotations

import glob
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, JSBenchError, MergeError, MissingRequirement
from pytest_jsbench.core.files import make_private_folder, private
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.text import describe_error, printable
from pytest_jsbench.records.journal import LARGEST

#: Maximum number of records files at one URL.
MOST_FILES = 10_000
#: Valid names of a run's directory and of a records file; other files are ignored.
_FOLDER = re.compile(r"(?!\.)[\w.+-]{1,200}", re.ASCII)
_RECORDS = re.compile(r"records(\.[\w-]{1,100})?\.jsonl", re.ASCII)
_CHUNK = 1 << 20


@contextmanager
def fetch_runs(places: Sequence[str]) -> Iterator[tuple[list[Path], dict[str, str]]]:
    """
    Copy the runs at URLs to a temporary directory; yield the local path for each place, and the URL of each copy.

    A URL with `*` refers to all matching directories that contain records. Errors inside the context name the URL and
    not the copy.
    """
    paths = list[Path]()
    originals = dict[str, str]()
    with tempfile.TemporaryDirectory(prefix="jsbench-") as folder:
        for place in places:
            if "://" not in place:
                paths.append(Path(place))
                continue
            shown = redact_url(place)
            if (local := _local_paths(place)) is not None:
                paths += local
                continue
            try:
                for copy in _fetch(place, Path(folder) / str(len(paths))):
                    paths.append(copy)
                    originals[str(copy)] = shown
            except JSBenchError as error:
                raise type(error)(f"{shown} {error}", where=shown) from error
            except THIRD_PARTY_ERRORS as error:  # each store raises its own errors
                reason = _without_secrets(describe_error(error), place)
                raise MergeError(f"{shown} cannot be read: {reason}", where=shown) from None
        try:
            yield paths, originals
        except JSBenchError as error:
            error.args = (restore_urls(str(error), originals),)
            raise


def redact_url(url: str) -> str:
    """Return a URL for messages, without user, password, query and fragment, since these can be secret."""
    # each part of a chain such as `simplecache::s3://bucket` can contain a password
    parts = [_redact_part(part) for part in url.split("::")]
    return printable("::".join(parts), 300)


def _redact_part(url: str) -> str:
    scheme, separator, rest = re.split(r"[?#]", url, maxsplit=1)[0].partition("://")
    # a password may contain a slash, although it should be quoted in a URL
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _without_secrets(text: str, url: str) -> str:
    """Return the message of a store without those parts of the URL that can be secret."""
    secret = {*re.findall(r"//(.*)@", url), *re.findall(r"[?#](.*)", url)}
    secret |= {word for part in secret for word in re.split(r"[:&=;]", part) if len(word) > 3}
    for part in sorted(secret, key=len, reverse=True):
        for form in (part, quote(part), quote(part, safe=""), unquote(part)):
            text = text.replace(form, "[redacted]")
    return one_line(re.sub(r"(?<=://)[^\s/@]*@", "", text))


def _local_paths(url: str) -> list[Path] | None:
    """Return the local paths that match a `file://` URL; None for any other URL."""
    scheme, _, place = url.partition("://")
    if scheme.lower() not in {"file", "local"}:
        return None
    host, slash, path = place.partition("/")
    if host not in {"", "localhost"} or not slash:
        raise MergeError(f"{redact_url(url)}: expected file:///PATH", where=redact_url(url), expected="file:///PATH")
    # the path is used without unquoting, as in fsspec
    start = Path(f"/{path}")
    if "*" not in path:
        return [start]
    found = [Path(name) for name in sorted(glob.glob(str(start)))]  # noqa: PTH207  the pattern begins at the root
    if not found:
        raise MergeError(f"{redact_url(url)} has no records.jsonl; expected the directory of a run, or of runs")
    return found


def restore_urls(text: str, originals: Mapping[str, str]) -> str:
    """Return the text with the path of each copy replaced by its URL."""
    for path, url in originals.items():
        text = re.sub(rf"{re.escape(path)}(?!\d)", lambda _, url=url: url, text)  # type: ignore[misc]
    return text


def _fetch(url: str, into: Path) -> list[Path]:
    """Copy the records of each directory that matches the URL to a separate directory; return the new directories."""
    try:
        import fsspec
    except ImportError:
        message = "needs fsspec: pip install 'pytest-jsbench[stores]', and the store's own package, such as s3fs"
        raise MissingRequirement(message, expected="fsspec") from None
    store, start = fsspec.core.url_to_fs(url)
    folders = sorted(store.glob(start)) if "*" in start else [start]
    copies = [into.with_name(f"{into.name}-{number}") for number in range(len(folders))]
    fetched = [copy for copy, folder in zip(copies, folders, strict=True) if _copy(store, folder, copy)]
    if not fetched:
        raise MergeError("has no records.jsonl; expected the directory of a run, or of runs")
    return fetched


def _copy(store: Any, folder: str, into: Path) -> bool:
    """Copy the records files in a run's directory or in a directory of runs; return whether there are any."""
    named = {name: _parts(name, folder) for name in store.find(folder, maxdepth=2)}
    names = {name: parts for name, parts in named.items() if parts}
    if len(names) > MOST_FILES:
        message = f"has {len(names):,} records files; expected at most {MOST_FILES:,}"
        raise MergeError(message, found=len(names), expected=MOST_FILES)
    for name, parts in names.items():
        target = into.joinpath(*parts)
        make_private_folder(target.parent)
        size = 0
        with store.open(name, "rb") as source, private(target).open("wb") as copy:
            while chunk := source.read(_CHUNK):
                size += len(chunk)
                if size > LARGEST:
                    raise MergeError(f"has more than {LARGEST:,} bytes in {parts[-1]}", expected=LARGEST)
                copy.write(chunk)
    return bool(names)


def _parts(name: str, folder: str) -> list[str]:
    """Return the parts of a records file's relative path; empty for other or more deeply nested files."""
    *folders, file = name.removeprefix(folder).strip("/").split("/")
    is_records_file = len(folders) < 2 and _RECORDS.fullmatch(file) and all(map(_FOLDER.fullmatch, folders))
    return [*folders, file] if is_records_file else []
