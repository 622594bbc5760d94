"""Open a dataset by the name of its source."""

from __future__ import annotations

import difflib
import glob
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint
from importlib.resources import files
from pathlib import Path
from typing import Any

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, DatasetError, JSBenchError
from pytest_jsbench.core.extensions import find_entry_points, is_reference, load, origin
from pytest_jsbench.core.text import describe_error, kind_of, printable
from pytest_jsbench.datasets.base import CaseSource, ListedCase, Listing, Read, Selection, SkippedPart
from pytest_jsbench.datasets.folders import files_below, is_user_file
from pytest_jsbench.datasets.source_names import REQUESTS, SERVER, category_of_bfcl, split_document

_HUB_NAME = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>\w[\w./-]*))?")
BUILTIN = "builtin"
BUILTIN_QUICK = "builtin-quick"
#: Names of the bundled datasets.
BUNDLED = (BUILTIN, BUILTIN_QUICK)
#: Built-in schemas: `<task>/<id>.json`.
_SCHEMAS = files("pytest_jsbench.datasets").joinpath("schemas")
TASKS = ("simple", "medium", "hard", "very_hard")
#: Cases of `builtin-quick`, chosen among the cases that the bundled model answers with the fewest tokens: each task has
#: cases that pass and cases that fail (in very_hard, all fail), with different keywords. One answer is truncated.
QUICK: Mapping[str, frozenset[str]] = {
    "simple": frozenset({"dns_aaaa_record", "page_link", "star_rating", "ticket_priority"}),
    "medium": frozenset({"git_branch_name", "web_server_config"}),
    "hard": frozenset({"dns_zone_entry", "oauth_client_registration"}),
    "very_hard": frozenset({"event_stream_batch", "extensible_document_tree"}),
}
_KINDS = (
    "builtin, builtin-quick, a schema file, a directory or a glob of them (*.json, *.yaml), rows (*.jsonl, *.parquet), "
    "an OpenAPI document, tool definitions, package.module:name, optionally with @serialization, mcp:COMMAND or "
    "mcp:URL, a document of cases, optionally with @ and the source of its tools, rows of requests with @requests, "
    "a directory in the layout of the Hugging Face Hub, or a Hub name such as epfl-dlab/JSONSchemaBench, optionally "
    "with @REVISION"
)


def open_dataset(selection: Selection) -> Listing:
    """Open the dataset of a selection; raise DatasetError with the accepted kinds of sources if that fails."""
    dataset = _open(selection)
    if selection.registry is None:
        return dataset
    from pytest_jsbench.datasets.documents import DocumentFolder, complete

    folder = DocumentFolder.whole(Path(selection.registry))

    def read(key: CaseKey) -> Case | BrokenCase:
        """Read the case, and copy the schemas that it refers to by `$id` from the directory."""
        case = dataset.case(key)
        return case if isinstance(case, BrokenCase) else replace(case, schema=complete(case.schema, folder.retrieve))

    entries = {key: replace(entry, where=str(key), read=read, text=None) for key, entry in dataset.entries.items()}
    return Listing(entries=entries, notes=dataset.notes)


def _open_several(selection: Selection) -> Listing:
    """
    Open each source and return all cases; if several sources have a task of the same name, prefix
    it with the source.
    """
    listings = {
        source: _open(replace(selection, source=source, sources=(), tasks=None)) for source in selection.sources
    }
    sources_with = Counter(task for listing in listings.values() for task in {key.task for key in listing.keys()})
    labels = _label_sources(list(listings))
    entries: list[ListedCase | SkippedPart] = []
    for source, listing in listings.items():
        entries += map(SkippedPart, listing.notes)
        for key, entry in listing.entries.items():
            task = key.task if sources_with[key.task] == 1 else _prefix_task(labels[source], key.task)
            entries.append(replace(entry, task=task, name=key.id, read=partial(_read_as, entry.read, key)))
    return Listing.from_entries(selection, entries)


def _label_sources(sources: Sequence[str]) -> dict[str, str]:
    """Return a label for each source that is the same on every machine: the shortest unique end of its path."""
    labels: dict[str, str] = {}
    for source in sources:
        parts = Path(source).parts
        ends = [others.parts for others in map(Path, sources) if others.parts != parts]
        size = next((n for n in range(1, len(parts)) if all(end[-n:] != parts[-n:] for end in ends)), len(parts))
        labels[source] = ".".join(part.strip("/\\") for part in parts[-size:]).strip(".")
    return labels


def _prefix_task(label: str, task: str) -> str:
    if label == task or label.endswith(f".{task}"):
        return label
    return f"{label}.{task}"


def _read_as(read: Read, own: CaseKey, key: CaseKey) -> Case | BrokenCase:
    """Read a case by its key in the source, and return it with its key in the suite."""
    case = read(own)
    return case if case.key == key else replace(case, key=key)


def _open(selection: Selection) -> Listing:
    if selection.sources:
        return _open_several(selection)
    source = selection.source
    if source in BUNDLED:
        _reject_split(selection)
        return open_builtin(selection)
    if source.startswith(SERVER):
        _reject_split(selection)
        from pytest_jsbench.datasets.sources.mcp_servers import open_server

        return open_server(selection)
    path = Path(source).expanduser()
    if path.is_dir():
        return _open_folder(selection, path)
    if path.is_file():
        return _open_files(selection, [path], root=path.parent)
    if "@" in source and (parts := split_document(source)) is not None:
        _reject_split(selection)
        if parts[1] == REQUESTS:
            from pytest_jsbench.datasets.sources.chat_requests import open_requests

            return open_requests(selection, Path(parts[0]).expanduser())
        from pytest_jsbench.datasets.sources.tool_sources import open_document

        return open_document(selection, Path(parts[0]).expanduser(), parts[1])
    if (point := _installed_datasets().get(source)) is not None:
        return _open_entry_point(selection, point)
    if _is_python(source):
        _reject_split(selection)
        from pytest_jsbench.datasets.sources.objects import open_object

        return open_object(selection)
    if glob.has_magic(source):
        return _open_glob(selection, path)
    if (named := _hub_name(source)) is not None:
        from pytest_jsbench.datasets.sources.hub import open_hub

        return open_hub(selection, revision=named["revision"])
    raise DatasetError(_unknown_source_message(source, path), found=source, expected=_KINDS, option="dataset")


def open_builtin(selection: Selection) -> Listing:
    """Return the selected cases of `builtin` or `builtin-quick`."""

    def read(key: CaseKey) -> Case:
        return Case(key=key, schema=load_builtin(key)["schema"])

    entries = (
        ListedCase(task=task, name=name.removesuffix(".json"), where=name, read=read)
        for task in TASKS
        for name in sorted(file.name for file in _SCHEMAS.joinpath(task).iterdir())
        if name.endswith(".json") and (selection.source != BUILTIN_QUICK or name.removesuffix(".json") in QUICK[task])
    )
    return Listing.from_entries(selection, entries)


def load_builtin(key: CaseKey) -> Mapping[str, Any]:
    """
    Return all data of a built-in case: `schema`, `valid` instances, and `invalid` instances with their
    expected verdicts.
    """
    data: Mapping[str, Any] = json.loads(_SCHEMAS.joinpath(key.task, f"{key.id}.json").read_text("utf-8"))
    return data


def is_published(source: str) -> bool:
    """
    Return whether the dataset is published, and not the user's own: built in, in the hub's layout, a suite of tool
    calls, or from an installed package.
    """
    path = Path(source).expanduser()
    parts = split_document(source)
    # the name may be a pattern, such as BFCL_v4_live_*.json
    if category_of_bfcl(Path(path.name.replace("*", "_"))) or (parts is not None and parts[1] == REQUESTS):
        return True
    if path.is_dir():
        return _has_tables(path) or any(map(category_of_bfcl, path.iterdir()))
    if source.startswith(SERVER) or path.is_file() or parts is not None or glob.has_magic(source):
        return False
    return not _is_python(source) or source in _installed_datasets()


def _is_python(source: str) -> bool:
    """Return whether the source has the form `package.module:name`, with or without `@MODE`."""
    return is_reference(source.partition("@")[0])


def revision_of(source: str) -> str | None:
    """Return the revision in the source's hub name; None if it has no revision or is not a hub name."""
    named = None if Path(source).expanduser().exists() or source in _installed_datasets() else _hub_name(source)
    return None if named is None else named["revision"]


def _hub_name(source: str) -> re.Match[str] | None:
    """Return the parts of a hub name; None if the source is not a hub name or is in a local directory."""
    named = _HUB_NAME.fullmatch(source)
    return None if named is None or Path(named["name"]).parent.is_dir() else named


def _has_tables(folder: Path) -> bool:
    return any(path.suffix == ".parquet" for path in files_below(folder))


def _open_folder(selection: Selection, folder: Path) -> Listing:
    if _has_tables(folder):
        from pytest_jsbench.datasets.sources.hub import check_folder, open_folder, open_hub

        if (published := open_folder(selection, folder)) is not None:
            return published
        check_folder(folder)
        return open_hub(selection)
    from pytest_jsbench.datasets.sources.folder import SUFFIXES

    # include links to missing files, so that their cases report them instead of being skipped silently
    candidates = (path for path in files_below(folder) if path.is_file() or not path.exists())
    paths = [path for path in candidates if path.suffix.lower() in SUFFIXES]
    if not paths:
        message = (
            f"no schemas in {folder}: expected *.json, *.yaml or *.jsonl files, or *.parquet files in the layout of "
            "the Hugging Face Hub"
        )
        raise DatasetError(message)
    return _open_files(selection, paths, root=folder)


def _open_glob(selection: Selection, pattern: Path) -> Listing:
    parts = pattern.parts
    fixed = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    root = Path(*parts[:fixed])
    paths = [path for name in glob.glob(str(pattern), recursive=True) if (path := Path(name)).is_file()]  # noqa: PTH207  Path.glob follows other rules for `**`
    if not any(part.startswith(".") or part == "node_modules" for part in parts[fixed:]):
        paths = [path for path in paths if is_user_file(path, root=root)]
    if not paths:
        message = f"no file matches '{printable(selection.source)}': expected a pattern such as 'schemas/**/*.json'"
        raise DatasetError(message)
    return _open_files(selection, paths, root=root)


def _open_files(selection: Selection, paths: list[Path], *, root: Path) -> Listing:
    from pytest_jsbench.datasets.sources.folder import open_files

    _reject_split(selection)
    return open_files(selection, paths, root=root)


def _reject_split(selection: Selection) -> None:
    """Raise DatasetError if a split is set for a source without splits; "all" is accepted for every source."""
    if selection.split not in {Selection().split, "all"}:
        source = printable(selection.source)
        split = printable(selection.split)
        message = (
            f"dataset '{source}' has no splits; remove --jsbench-split={split}, which is for datasets in the layout "
            "of the Hugging Face Hub"
        )
        raise DatasetError(message, found=selection.split, expected=Selection().split, option="split")


def _installed_datasets() -> dict[str, EntryPoint]:
    return find_entry_points("dataset", error=DatasetError)


def _open_entry_point(selection: Selection, point: EntryPoint) -> Listing:
    """Open the dataset that an installed package registers under this name."""
    opened = load(point, kind="dataset", error=DatasetError)
    if not callable(opened):
        kind = kind_of(opened)
        message = f"dataset '{point.name}': {origin(point)} is {kind}; expected a callable that accepts a Selection"
        raise DatasetError(message)
    with _dataset_errors_about(f"dataset '{point.name}' cannot be opened by {origin(point)}"):
        dataset: CaseSource = opened(selection)
    if missing := [part for part in ("keys", "case") if not callable(getattr(dataset, part, None))]:
        raise DatasetError(
            f"dataset '{point.name}': {origin(point)} returned {kind_of(dataset)} without {' and '.join(missing)}"
        )
    if isinstance(dataset, Listing):
        return dataset
    with _dataset_errors_about(f"dataset '{point.name}' of {origin(point)} cannot list its cases"):
        keys: list[Any] = list(dataset.keys())
    if odd := [key for key in keys if not isinstance(key, CaseKey)]:
        raise DatasetError(f"dataset '{point.name}': {origin(point)} lists {kind_of(odd[0])}; expected a CaseKey")

    def read(key: CaseKey) -> Case | BrokenCase:
        """Read the case; raise DatasetError with the package's name if that fails."""
        with _dataset_errors_about(f"dataset '{point.name}' of {origin(point)} cannot read {key}"):
            case: object = dataset.case(key)
        if isinstance(case, Case | BrokenCase):
            return case
        kind = kind_of(case)
        raise DatasetError(f"dataset '{point.name}': {origin(point)} returned {kind} for {key}; expected a Case")

    entries = {key: ListedCase(task=key.task, name=key.id, where=str(key), read=read) for key in keys}
    return Listing(entries=entries)


@contextmanager
def _dataset_errors_about(subject: str) -> Iterator[None]:
    """Convert errors of third-party code to a DatasetError about the subject."""
    try:
        yield
    except JSBenchError:
        raise
    except THIRD_PARTY_ERRORS as error:
        raise DatasetError(f"{subject}: {describe_error(error)}") from error


def _unknown_source_message(source: str, path: Path) -> str:
    """Return the message for an unknown source, with the most similar name if there is one."""
    directory = path.parent
    siblings = {str(directory / entry.name) for entry in directory.iterdir()} if directory.is_dir() else set()
    names = {*BUNDLED, *_installed_datasets(), *siblings}
    close = difflib.get_close_matches(str(path), sorted(names), n=1)
    guess = f"did you mean '{close[0]}'? " if close else ""
    return f"no dataset '{printable(source)}': {guess}expected {_KINDS}"
