"""From a source's name to its dataset."""

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
from pytest_jsbench.core.extensions import installed, is_reference, load, origin
from pytest_jsbench.core.text import described, kind_of, printable
from pytest_jsbench.datasets.base import CaseSource, LeftOut, ListedCase, Listing, Read, Selection
from pytest_jsbench.datasets.folders import files_below, is_users

_HUB_NAME = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>\w[\w./-]*))?")
BUILTIN = "builtin"
#: the built-in schemas: `<task>/<id>.json`
_SCHEMAS = files("pytest_jsbench.datasets").joinpath("schemas")
TASKS = ("simple", "medium", "hard", "very_hard")
_KINDS = (
    "builtin, a schema file, a folder or a glob of them (*.json, *.yaml), rows (*.jsonl, *.parquet), "
    "an OpenAPI document, tool definitions, package.module:name, a folder in the hub's layout, "
    "or a hub name such as epfl-dlab/JSONSchemaBench, with @REVISION after it or without"
)


def open_dataset(selection: Selection) -> Listing:
    """The dataset of a selection; DatasetError says what else was found, and every kind that is accepted."""
    dataset = _open(selection)
    if selection.registry is None:
        return dataset
    from pytest_jsbench.datasets.documents import DocumentFolder, complete

    folder = DocumentFolder.whole(Path(selection.registry))

    def read(key: CaseKey) -> Case | BrokenCase:
        """Read the case with what its schema refers to in the folder, by the URI that each file there gives itself."""
        case = dataset.case(key)
        return case if isinstance(case, BrokenCase) else replace(case, schema=complete(case.schema, folder.retrieve))

    entries = {key: replace(entry, where=str(key), read=read, text=None) for key, entry in dataset.entries.items()}
    return Listing(entries=entries, notes=dataset.notes)


def _open_several(selection: Selection) -> Listing:
    """Open each source, and return the cases of all; a task that two sources have is named for its source."""
    listings = {
        source: _open(replace(selection, source=source, sources=(), tasks=None)) for source in selection.sources
    }
    having = Counter(task for listing in listings.values() for task in {key.task for key in listing.keys()})
    labels = _labels(list(listings))
    entries: list[ListedCase | LeftOut] = []
    for source, listing in listings.items():
        entries += map(LeftOut, listing.notes)
        for key, entry in listing.entries.items():
            task = key.task if having[key.task] == 1 else _task_of(labels[source], key.task)
            entries.append(replace(entry, task=task, name=key.id, read=partial(_read_as, entry.read, key)))
    return Listing.of(selection, entries)


def _labels(sources: Sequence[str]) -> dict[str, str]:
    """Return the shortest end of each path that no other source has, dotted: the same on every machine."""
    labels: dict[str, str] = {}
    for source in sources:
        parts = Path(source).parts
        ends = [others.parts for others in map(Path, sources) if others.parts != parts]
        size = next((n for n in range(1, len(parts)) if all(end[-n:] != parts[-n:] for end in ends)), len(parts))
        labels[source] = ".".join(part.strip("/\\") for part in parts[-size:]).strip(".")
    return labels


def _task_of(label: str, task: str) -> str:
    return label if label == task or label.endswith(f".{task}") else f"{label}.{task}"


def _read_as(read: Read, own: CaseKey, key: CaseKey) -> Case | BrokenCase:
    """Read a case by the key that it has in its own source."""
    case = read(own)
    return case if case.key == key else replace(case, key=key)


def _open(selection: Selection) -> Listing:
    if selection.sources:
        return _open_several(selection)
    source = selection.source
    if source == BUILTIN:
        _refuse_split(selection)
        return open_builtin(selection)
    path = Path(source).expanduser()
    if path.is_dir():
        return _open_folder(selection, path)
    if path.is_file():
        return _open_files(selection, [path], root=path.parent)
    if (point := _installed().get(source)) is not None:
        return _open_point(selection, point)
    if is_reference(source):
        _refuse_split(selection)
        from pytest_jsbench.datasets.sources.objects import open_object

        return open_object(selection)
    if glob.has_magic(source):
        return _open_glob(selection, path)
    if (named := _hub_name(source)) is not None:
        from pytest_jsbench.datasets.sources.hub import open_hub

        return open_hub(selection, revision=named["revision"])
    raise DatasetError(_unknown(source, path), found=source, expected=_KINDS, option="dataset")


def open_builtin(selection: Selection) -> Listing:
    """The selection's part of the built-in schemas."""

    def read(key: CaseKey) -> Case:
        return Case(key=key, schema=load_builtin(key)["schema"])

    entries = (
        ListedCase(task=task, name=name.removesuffix(".json"), where=name, read=read)
        for task in TASKS
        for name in sorted(file.name for file in _SCHEMAS.joinpath(task).iterdir())
        if name.endswith(".json")
    )
    return Listing.of(selection, entries)


def load_builtin(key: CaseKey) -> Mapping[str, Any]:
    """A built-in case whole: `schema`, its `valid` instances, and its `invalid` ones with what they must get."""
    data: Mapping[str, Any] = json.loads(_SCHEMAS.joinpath(key.task, f"{key.id}.json").read_text("utf-8"))
    return data


def is_published(source: str) -> bool:
    """Tell whether others have published it (builtin, the hub's layout, an installed package), and not the user."""
    path = Path(source).expanduser()
    if path.is_dir():
        return _has_tables(path)
    own = path.is_file() or (is_reference(source) and source not in _installed()) or glob.has_magic(source)
    return not own


def revision_of(source: str) -> str | None:
    """The revision of the hub's data that the source asks for; None where it names none, or is not the hub's."""
    named = None if Path(source).expanduser().exists() or source in _installed() else _hub_name(source)
    return None if named is None else named["revision"]


def _hub_name(source: str) -> re.Match[str] | None:
    """The parts of a name of the hub; None where it is none, or rather a file of a folder that is here."""
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

    # a link to a file that is not there is one: that is said of its case, and not passed over
    there = (path for path in files_below(folder) if path.is_file() or not path.exists())
    paths = [path for path in there if path.suffix.lower() in SUFFIXES]
    if not paths:
        message = f"no schemas in {folder}: expected *.json files, *.yaml, *.jsonl, or *.parquet in the hub's layout"
        raise DatasetError(message)
    return _open_files(selection, paths, root=folder)


def _open_glob(selection: Selection, pattern: Path) -> Listing:
    parts = pattern.parts
    fixed = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    root = Path(*parts[:fixed])
    paths = [path for name in glob.glob(str(pattern), recursive=True) if (path := Path(name)).is_file()]  # noqa: PTH207  Path.glob follows other rules for `**`
    if not any(part.startswith(".") or part == "node_modules" for part in parts[fixed:]):
        paths = [path for path in paths if is_users(path, root=root)]
    if not paths:
        message = f"no file matches '{printable(selection.source)}': expected a pattern such as 'schemas/**/*.json'"
        raise DatasetError(message)
    return _open_files(selection, paths, root=root)


def _open_files(selection: Selection, paths: list[Path], *, root: Path) -> Listing:
    from pytest_jsbench.datasets.sources.folder import open_files

    _refuse_split(selection)
    return open_files(selection, paths, root=root)


def _refuse_split(selection: Selection) -> None:
    """A split that was asked for where there are none; whoever wants all of them gets all there is."""
    if selection.split not in {Selection().split, "all"}:
        source, split = printable(selection.source), printable(selection.split)
        message = f"dataset '{source}' has no splits; leave --jsbench-split={split} out, it is for the hub's layout"
        raise DatasetError(message, found=selection.split, expected=Selection().split, option="split")


def _installed() -> dict[str, EntryPoint]:
    return installed("dataset", error=DatasetError)


def _open_point(selection: Selection, point: EntryPoint) -> Listing:
    """The dataset that an installed package opens under that name."""
    opened = load(point, kind="dataset", error=DatasetError)
    if not callable(opened):
        raise DatasetError(
            f"dataset '{point.name}': {origin(point)} is {kind_of(opened)}; expected a callable that takes a selection"
        )
    with _naming(f"dataset '{point.name}' cannot be opened by {origin(point)}"):
        dataset: CaseSource = opened(selection)
    if missing := [part for part in ("keys", "case") if not callable(getattr(dataset, part, None))]:
        raise DatasetError(
            f"dataset '{point.name}': {origin(point)} gave {kind_of(dataset)} without {' and '.join(missing)}"
        )
    if isinstance(dataset, Listing):
        return dataset
    with _naming(f"dataset '{point.name}' of {origin(point)} cannot list its cases"):
        keys: list[Any] = list(dataset.keys())
    if odd := [key for key in keys if not isinstance(key, CaseKey)]:
        raise DatasetError(f"dataset '{point.name}': {origin(point)} lists {kind_of(odd[0])}; expected a CaseKey")

    def read(key: CaseKey) -> Case | BrokenCase:
        """Read the case; DatasetError names the package that cannot give it."""
        with _naming(f"dataset '{point.name}' of {origin(point)} cannot read {key}"):
            case: object = dataset.case(key)
        if isinstance(case, Case | BrokenCase):
            return case
        raise DatasetError(f"dataset '{point.name}': {origin(point)} gave {kind_of(case)} for {key}; expected a Case")

    entries = {key: ListedCase(task=key.task, name=key.id, where=str(key), read=read) for key in keys}
    return Listing(entries=entries)


@contextmanager
def _naming(subject: str) -> Iterator[None]:
    """Raise what third-party code raises as a DatasetError about the subject."""
    try:
        yield
    except JSBenchError:
        raise
    except THIRD_PARTY_ERRORS as error:
        raise DatasetError(f"{subject}: {described(error)}") from error


def _unknown(source: str, path: Path) -> str:
    """Say of a source that it is nothing, with the name nearest to it, where one is near."""
    here = path.parent
    beside = {str(here / entry.name): entry for entry in here.iterdir()} if here.is_dir() else {}
    names = {BUILTIN, *_installed(), *beside}
    close = difflib.get_close_matches(str(path), sorted(names), n=1)
    guess = f"did you mean '{close[0]}'? " if close else ""
    return f"no dataset '{printable(source)}': {guess}expected {_KINDS}"
