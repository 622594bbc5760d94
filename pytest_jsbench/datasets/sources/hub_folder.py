"""
JSONSchemaBench on disk, as it is published: a folder per task, a Parquet file per split.

It is read by pyarrow alone, in a process that ends when all is read: pyarrow keeps 60 MB and more for itself. The
`datasets` library takes a second and 100 MB to import, and copies what it reads. A folder that is laid out in any other
way is left to that library (`hub`), once it is seen to name no file outside of it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, safe_name
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable, here, inside
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.base import Row, Selection, free_key
from pytest_jsbench.datasets.documents.json_text import broken
from pytest_jsbench.datasets.row_file import RowFile
from pytest_jsbench.datasets.sources import parquet
from pytest_jsbench.datasets.sources.hub import WHOLE, choose_parts, choose_splits
from pytest_jsbench.datasets.sources.parquet import Unpacked
from pytest_jsbench.datasets.sources.rows import case_of

#: bytes of a dataset card
LARGEST_CARD = 1_000_000
#: bytes of the names of a file's rows, or of their places
_LONGEST = 256 << 20
#: where the library looks for a description of the files
_CARDS = ("README.md", ".huggingface.yaml")
_NAMING = frozenset({"data_files", "data_dir", "path"})


def check_folder(folder: Path) -> None:
    """DatasetError where a file of the folder is a link out of it, or its card names one that is not inside."""
    for path in folder.rglob("*"):
        if path.is_symlink() and not inside(folder, path):
            message = f"{printable(str(path))}: leads out of {folder}"
            raise DatasetError(message)
    for name in _CARDS:
        for value in _named(_front_matter(folder, name)):
            if not _is_inside(value):
                message = f"{folder / name} names the file '{printable(value, 100)}'; expected a relative path inside"
                raise DatasetError(message)


def read_card(folder: Path, name: str = _CARDS[0]) -> str:
    """The text of a folder's card; Unreadable where there is none."""
    return FileReader(root=folder, largest=LARGEST_CARD).read_text(folder / name)


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


_SCHEMA, _ID = "json_schema", "unique_id"

#: task to split to files
Layout = Mapping[str, Mapping[str, Sequence[Path]]]
_Rows = dict[CaseKey, tuple[Path, int]]


def open_folder(selection: Selection, folder: Path) -> ParquetFolder | None:
    """The selection's part of a folder as it is published; None where it is laid out otherwise."""
    layout = find_layout(folder)
    if layout is None:
        return None
    tables = Tables(folder)
    files = [path for by_split in layout.values() for paths in by_split.values() for path in paths]
    as_published = all(set(columns) == {_SCHEMA, _ID} for columns in tables.ask("columns_of", list(map(str, files))))
    return ParquetFolder.open(selection, layout, tables) if as_published else None


def find_layout(folder: Path) -> Layout | None:
    """Which files are which, by the folder's card; None where it is laid out otherwise."""
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
        elif name != "path" or task == WHOLE:
            continue
        elif not task or value != f"{task}/{split}-*":
            return None
        else:
            layout.setdefault(task, {})[split] = sorted((folder / task).glob(f"{split}-*.parquet"))
    splits = [paths for by_split in layout.values() for paths in by_split.values()]
    files = sorted(path for paths in splits for path in paths)
    whole = bool(splits) and all(splits) and files == sorted(folder.rglob("*.parquet"))
    return layout if whole else None


class Tables:
    """
    The Parquet files of a folder, read in a child process.

    A dataset makes one; any thread may ask. The child starts with the first question, and again with one after `close`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: where its name and those of its files start from; a child that starts later may start elsewhere
        self._start = here()
        self._calls = GuardedCalls(memory=parquet.MEMORY, longest=_LONGEST)
        self.close = self._calls.close

    def ask(self, function: str, *arguments: object) -> Any:
        """What the function of `parquet` returns for these files; DatasetError in one line where it does not."""
        return parquet.ask(self._calls, function, self._folder, str(self._folder), str(self._start), *arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFolder:
    """Cases that are rows of Parquet files."""

    source: str
    rows: Mapping[CaseKey, tuple[Path, int]]
    unpacked: UnpackedRows

    @classmethod
    def open(cls, selection: Selection, layout: Layout, tables: Tables) -> ParquetFolder:
        """The selection's part of these files."""
        rows: _Rows = {}
        for task in choose_parts(selection, [*layout, WHOLE]):
            rows |= _task_rows(tables, selection, task, layout[task])
        files = dict.fromkeys(path for path, _ in rows.values())
        return cls(source=selection.source, rows=rows, unpacked=UnpackedRows(tables, tuple(files)))

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return tuple(self.rows)

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """One of them; broken where its row holds no JSON Schema."""
        path, number = self.rows[key]
        text, where = self.unpacked.text(path, number), self._where(key, number)
        if text is False:
            return broken(key, where, Unreadable("cannot be read: not UTF-8"))
        return case_of(key, {_SCHEMA: text}, where=where)

    def all_rows(self) -> Iterator[tuple[CaseKey, Row]]:
        """Each case that is nothing but text, one at a time."""
        for key, (path, number) in self.rows.items():
            if isinstance(text := self.unpacked.text(path, number), str):
                yield key, Row(text=text, where=self._where(key, number))

    def _where(self, key: CaseKey, number: int) -> str:
        return f"{self.source} {key.task} row {number}"


class UnpackedRows:
    """
    The rows of Parquet files, in a file of their own.

    A dataset makes one and keeps it. The threads of all calls in flight ask for rows. The first that comes has a thread
    begin which unpacks one file after the other, and then lets the child go; a file that is asked for sooner is
    unpacked at once.
    """

    def __init__(self, tables: Tables, files: Sequence[Path]) -> None:
        self._tables = tables
        self._files = files
        self._lock = threading.Lock()
        self._rows: RowFile | None = None
        #: by file, where its rows are, or why they are not
        self._places: dict[Path, Sequence[Unpacked] | DatasetError] = {}

    def text(self, path: Path, number: int) -> str | Literal[False] | None:
        """What a row of the file holds: a text, None where there is none, False where it cannot be read."""
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
        for path in self._files:
            with self._lock:
                self._unpack(path, rows)
        self._tables.close()
        rows.unname()

    def _unpack(self, path: Path, rows: RowFile) -> Sequence[Unpacked] | DatasetError:
        if path not in self._places:
            try:
                self._places[path] = self._tables.ask("unpack", str(path), _SCHEMA, str(rows.path))
            except DatasetError as error:
                self._places[path] = error
        return self._places[path]


def _task_rows(tables: Tables, selection: Selection, task: str, files: Mapping[str, Sequence[Path]]) -> _Rows:
    rows: _Rows = {}
    tried: dict[CaseKey, int] = {}
    for split in choose_splits(selection, task, list(files)):
        for path in files[split]:
            for number, name in enumerate(tables.ask("names_of", str(path), _ID)):
                if selection.limit is not None and len(rows) >= selection.limit:
                    return rows
                rows[free_key(rows, safe_name(task), name, tried)] = (path, number)
    return rows
