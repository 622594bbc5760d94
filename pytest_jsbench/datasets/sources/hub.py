"""
JSONSchemaBench's layout: one config per task, splits, rows of `json_schema` and `unique_id`; by name or on disk.

A folder that is laid out just as it is published is read by pyarrow alone, in a process that ends when all is read:
pyarrow keeps 60 MB and more for itself. Names of the hub, and folders in any other layout, are left to the `datasets`
library, which takes a second and 100 MB to import, and copies what it reads; first a folder is seen to name no file
outside of it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal

from pytest_jsbench.core.cases import Case, CaseKey, safe_name
from pytest_jsbench.core.errors import DatasetError, nearest
from pytest_jsbench.core.files import FileReader, Unreadable, here, inside
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.core.text import described, printable
from pytest_jsbench.datasets.base import ListedCase, Listing, Selection, choose_tasks
from pytest_jsbench.datasets.row_file import RowFile
from pytest_jsbench.datasets.sources import parquet
from pytest_jsbench.datasets.sources.parquet import Unpacked
from pytest_jsbench.datasets.sources.rows import Table, case_at, case_of

_SCHEMA, _ID = "json_schema", "unique_id"
_SPLITS_ALL = "all"
#: the name of all tasks together, which is no task
_WHOLE = "default"
#: seconds in which a hub that is there says so
_PATIENCE = 5.0
#: bytes of a dataset card
_LARGEST_CARD = 1_000_000
#: bytes of the names of a file's rows, or of their places
_LONGEST = 256 << 20
#: where the library looks for a description of the files
_CARDS = ("README.md", ".huggingface.yaml")
_NAMING = frozenset({"data_files", "data_dir", "path"})


def _listing(selection: Selection, configs: Sequence[str], find: Callable[[str], Iterable[ListedCase]]) -> Listing:
    """
    The selection's part of the rows that are found by config.

    A hub repository may name its whole as one more config, `default`, and the tasks are its parts.
    """
    parts = [name for name in configs if name != _WHOLE] or configs
    whole = selection.tasks is not None and _WHOLE in selection.tasks and _WHOLE in configs
    tasks = choose_tasks(selection.source, parts, None if whole else selection.tasks)
    entries = (entry for task in tasks for entry in islice(find(task), selection.limit))
    return Listing.of(replace(selection, tasks=None), entries)


def choose_splits(selection: Selection, task: str, known: Sequence[str]) -> Sequence[str]:
    """The splits to take of a task; DatasetError where it has none of that name."""
    if selection.split == _SPLITS_ALL:
        return known
    if selection.split not in known:
        expected = nearest(selection.split, [*known, _SPLITS_ALL])
        message = f"dataset '{selection.source}' has no split '{selection.split}' in {task}: {expected}"
        raise DatasetError(message, found=selection.split, expected=tuple(known), where=selection.source)
    return [selection.split]


def open_hub(selection: Selection, *, revision: str | None = None) -> Listing:
    """
    The selection's part of a hub dataset, through the `datasets` library, its cache and its offline mode.

    The source is a folder; or a name, which ends in `@` and the revision where there is one.
    """
    source = selection.source
    if importlib.util.find_spec("datasets") is None:
        message = f"dataset '{source}' needs the package datasets: pip install 'pytest-jsbench[datasets]'"
        if not Path(source).expanduser().exists():
            message += " (no file or folder here has this name, so it is one of the hub)"
        raise DatasetError(message)
    import datasets  # heavy: 2 s

    repository = source.removesuffix(f"@{revision}") if revision else source
    with _quiet(), _cached_where_unreachable(repository, revision):
        try:
            configs: list[str] = datasets.get_dataset_config_names(repository, revision=revision)
        except Exception as error:
            raise _unreachable(source, error) from error
        return _listing(selection, configs, partial(_find_in_library, selection, repository, revision))


def _find_in_library(selection: Selection, repository: str, revision: str | None, task: str) -> Iterator[ListedCase]:
    import datasets

    source = selection.source
    try:
        loaded = datasets.load_dataset(repository, task, revision=revision)
    except Exception as error:
        raise _unreachable(source, error) from error
    for split in choose_splits(selection, task, list(loaded)):
        table = loaded[split]
        columns = tuple(table.column_names)
        if missing := {_SCHEMA, _ID} - set(columns):
            message = (
                f"dataset '{source}' has no column {', '.join(sorted(missing))} in {task}; "
                f"expected {_SCHEMA} and {_ID}, as JSONSchemaBench has"
            )
            raise DatasetError(message, found=columns, expected=(_SCHEMA, _ID), where=source)
        plain = set(columns) == {_SCHEMA, _ID}
        for number, name in enumerate(table[_ID]):
            yield ListedCase(
                task=task,
                name=str(name),
                where=f"{source} {safe_name(task)} row {number}",
                read=partial(case_at, table, number),
                text=partial(_text_at, table, number) if plain else None,
            )


def _text_at(table: Table, number: int) -> object:
    return table[number][_SCHEMA]


def _unreachable(source: str, error: Exception) -> DatasetError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return DatasetError(
        f"cannot load dataset '{source}': {reason}; "
        "a local copy works too: --jsbench-dataset=PATH/TO/FOLDER in the hub's layout"
    )


@contextlib.contextmanager
def _cached_where_unreachable(repository: str, revision: str | None) -> Iterator[None]:
    """
    As with HF_HUB_OFFLINE=1 where no connection to the hub can be made.

    What is cached is then used at once, and what is not is an error at once, where the library would try again and
    again for half a minute.
    """
    import datasets
    import huggingface_hub.constants as hub

    if Path(repository).exists() or (fault := _no_connection(repository, revision)) is None:
        yield
        return
    before = datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = hub.HF_HUB_OFFLINE = True
    try:
        yield
    except DatasetError as error:
        raise DatasetError(f"cannot reach {hub.ENDPOINT} ({fault}), and {error}") from error
    finally:
        datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE = before


def _no_connection(repository: str, revision: str | None) -> str | None:
    """Why no connection to the hub, or the mirror that HF_ENDPOINT names, can be made; None when all is well."""
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        huggingface_hub.HfApi().dataset_info(repository, revision=revision, timeout=_PATIENCE)
    except (HfHubHTTPError, OfflineModeIsEnabled):
        return None  # an answer; the library says what it means
    except Exception as error:  # noqa: BLE001  of whichever HTTP library the hub's client uses
        return described(error, limit=120)
    return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's progress bars and log lines, which would stand in the middle of pytest's output."""
    import datasets

    bars = datasets.utils.logging.is_progress_bar_enabled()
    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    datasets.disable_progress_bars()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if bars:
            datasets.enable_progress_bars()


def check_folder(folder: Path) -> None:
    """DatasetError where a file of the folder is a link out of it, or its card names one that is not inside."""
    for path in folder.rglob("*"):
        if path.is_symlink() and not inside(folder, path):
            raise DatasetError(f"{printable(str(path))}: leads out of {folder}")
    for name in _CARDS:
        for value in _named(_front_matter(folder, name)):
            if not _is_inside(value):
                message = f"{folder / name} names the file '{printable(value, 100)}'; expected a relative path inside"
                raise DatasetError(message)


def read_card(folder: Path, name: str = _CARDS[0]) -> str:
    """The text of a folder's card; Unreadable where there is none."""
    return FileReader(root=folder, largest=_LARGEST_CARD).read_text(folder / name)


def _front_matter(folder: Path, name: str) -> object:
    if not (folder / name).exists():
        return None
    from pytest_jsbench.datasets.documents.yaml_text import parse_yaml

    try:
        text = read_card(folder, name).replace("\r\n", "\n")
        if name.endswith(".md"):
            text = text.partition("---\n")[2].partition("\n---")[0] if text.startswith("---") else ""
        return parse_yaml(text) if text.strip() else None
    except Unreadable as error:
        # the library would read it by rules of its own
        named = error if str(folder) in str(error) else Unreadable(error.problem, path=folder / name)
        raise DatasetError(str(named)) from None


def _named(value: object, *, naming: bool = False) -> Iterator[str]:
    """The texts that stand for files, wherever in the card."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _named(inner, naming=naming or key in _NAMING)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner, naming=naming)
    elif naming and isinstance(value, str):
        yield value


def _is_inside(value: str) -> bool:
    windows = PureWindowsPath(value)
    rooted = windows.drive or windows.root or PurePosixPath(value).is_absolute() or value.startswith("~")
    return not (rooted or ".." in windows.parts or ":" in value)


#: task to split to files
_Layout = Mapping[str, Mapping[str, Sequence[Path]]]


def open_folder(selection: Selection, folder: Path) -> Listing | None:
    """The selection's part of a folder as it is published; None where it is laid out otherwise."""
    layout = find_layout(folder)
    if layout is None:
        return None
    tables = _Tables(folder)
    files = [str(path) for by_split in layout.values() for paths in by_split.values() for path in paths]
    if any(set(columns) != {_SCHEMA, _ID} for columns in tables.ask("columns_of", files)):
        return None
    return _listing(selection, [*layout, _WHOLE], lambda task: _find_in_folder(selection, tables, task, layout[task]))


def find_layout(folder: Path) -> _Layout | None:
    """Sort the files by the folder's card; None where it is laid out otherwise."""
    try:
        card = read_card(folder)
    except Unreadable:
        return None
    if importlib.util.find_spec("pyarrow") is None:  # what to do without it is the library's to say
        return None
    layout: dict[str, dict[str, list[Path]]] = {}
    task = split = ""
    for line in card.splitlines():
        name, _, value = line.strip().removeprefix("-").strip().partition(": ")
        if name == "config_name":
            task = value
        elif name == "split":
            split = value
        elif name != "path" or task == _WHOLE:
            continue
        elif not task or value != f"{task}/{split}-*":
            return None
        else:
            layout.setdefault(task, {})[split] = sorted((folder / task).glob(f"{split}-*.parquet"))
    splits = [paths for by_split in layout.values() for paths in by_split.values()]
    files = sorted(path for paths in splits for path in paths)
    whole = bool(splits) and all(splits) and files == sorted(folder.rglob("*.parquet"))
    return layout if whole else None


def _find_in_folder(
    selection: Selection, tables: _Tables, task: str, files: Mapping[str, Sequence[Path]]
) -> Iterator[ListedCase]:
    for split in choose_splits(selection, task, list(files)):
        for path in files[split]:
            tables.files.append(path)
            for number, name in enumerate(tables.ask("names_of", str(path), _ID)):
                yield ListedCase(
                    task=task,
                    name=name,
                    where=f"{selection.source} {safe_name(task)} row {number}",
                    read=partial(_read_unpacked, tables, path, number),
                    text=partial(tables.text, path, number),
                )


def _read_unpacked(tables: _Tables, path: Path, number: int, key: CaseKey) -> Case:
    text = tables.text(path, number)
    if text is False:
        raise Unreadable("cannot be read: not UTF-8")
    return case_of(key, {_SCHEMA: text})


class _Tables:
    """
    The Parquet files of a folder, read in a child process, and their rows, unpacked in a file of their own.

    A dataset makes one and keeps it; any thread may ask. The child starts with the first question, and again with one
    after it has ended. The threads of all calls in flight ask for rows. The first that comes has a thread begin which
    unpacks one file after the other, and then lets the child go; a file that is asked for sooner is unpacked at once.
    """

    def __init__(self, folder: Path) -> None:
        #: those whose rows are cases
        self.files: list[Path] = []
        self._folder = folder
        #: where its name and those of its files start from; a child that starts later may start elsewhere
        self._start = here()
        self._calls = GuardedCalls(memory=parquet.MEMORY, longest=_LONGEST)
        self._lock = threading.Lock()
        self._rows: RowFile | None = None
        #: by file, where its rows are, or why they are not
        self._places: dict[Path, Sequence[Unpacked] | DatasetError] = {}

    def ask(self, function: str, *arguments: object) -> Any:
        """Call a function of `parquet` for these files; DatasetError in one line where it returns nothing."""
        return parquet.ask(self._calls, function, self._folder, str(self._folder), str(self._start), *arguments)

    def text(self, path: Path, number: int) -> str | Literal[False] | None:
        """Read a row of the file: a text, None where there is none, False where it cannot be read."""
        with self._lock:
            if (rows := self._rows) is None:
                self._rows = rows = RowFile.shared()
                others = threading.Thread(target=self._unpack_all, args=(rows,), name="jsbench-parquet", daemon=True)
                with contextlib.suppress(RuntimeError):  # no more threads: each is unpacked when it is asked for
                    others.start()
            places = self._unpack(path, rows)
        if isinstance(places, DatasetError):
            raise DatasetError(*places.args)
        place = places[number]
        return rows.read(place).text if place else place

    def _unpack_all(self, rows: RowFile) -> None:
        for path in self.files:
            with self._lock:
                self._unpack(path, rows)
        self._calls.close()
        rows.unname()

    def _unpack(self, path: Path, rows: RowFile) -> Sequence[Unpacked] | DatasetError:
        if path not in self._places:
            try:
                self._places[path] = self.ask("unpack", str(path), _SCHEMA, str(rows.path))
            except DatasetError as error:
                self._places[path] = error
        return self._places[path]
