"""Runs in an object store, or in any other place that fsspec reaches: their records, copied to this machine."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_jsbench.core.errors import JSBenchError, MergeError, MissingRequirement
from pytest_jsbench.core.files import make_private_folder, private
from pytest_jsbench.core.text import described, printable
from pytest_jsbench.records.journal import LARGEST

#: records files below one URL
MOST_FILES = 10_000
#: of a run's folder, and of a file with its records; what is called otherwise is left where it is
_FOLDER = re.compile(r"(?!\.)[\w.+-]{1,200}", re.ASCII)
_RECORDS = re.compile(r"records(\.[\w-]{1,100})?\.jsonl", re.ASCII)
_CHUNK = 1 << 20


@contextmanager
def at_hand(places: Sequence[str]) -> Iterator[tuple[list[Path], dict[str, str]]]:
    """
    Copy what is at URLs into a folder that goes at the end; give the path of each place, and what the copies are of.

    A URL with `*` names each folder that matches and has records. An error inside names the URL, not the copy.
    """
    paths, originals = list[Path](), dict[str, str]()
    with tempfile.TemporaryDirectory(prefix="jsbench-") as folder:
        for place in places:
            if "://" not in place:
                paths.append(Path(place))
                continue
            shown = printable(re.sub(r"//[^/@]*@", "//", place), 300)
            try:
                for copy in _fetch(place, Path(folder) / str(len(paths))):
                    paths.append(copy)
                    originals[str(copy)] = shown
            except JSBenchError as error:
                raise type(error)(f"{shown} {error}", where=shown) from error
            except Exception as error:  # each store raises errors of its own
                raise MergeError(f"{shown} cannot be read: {described(error)}", where=shown) from error
        try:
            yield paths, originals
        except JSBenchError as error:
            error.args = (originally(str(error), originals),)
            raise


def originally(text: str, originals: Mapping[str, str]) -> str:
    """The text with the URL in place of each copy's path."""
    for path, url in originals.items():
        text = re.sub(rf"{re.escape(path)}(?!\d)", lambda _, url=url: url, text)  # type: ignore[misc]
    return text


def _fetch(url: str, into: Path) -> list[Path]:
    """Copy the records of each folder that the URL names into a folder of its own."""
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
        raise MergeError("has no records.jsonl; expected the folder of a run, or of runs")
    return fetched


def _copy(store: Any, folder: str, into: Path) -> bool:
    """Copy the records files of a run's folder, or of a folder of runs; whether there are any."""
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
    """The way to a records file in the folder; none where it is another file, or one of a run within a run."""
    *folders, file = name.removeprefix(folder).strip("/").split("/")
    right = len(folders) < 2 and _RECORDS.fullmatch(file) and all(map(_FOLDER.fullmatch, folders))
    return [*folders, file] if right else []
