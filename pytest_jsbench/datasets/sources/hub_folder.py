"""
JSONSchemaBench on disk, as it is published: a folder per task, a Parquet file per split.

It is read by pyarrow alone: the `datasets` library takes a second and 100 MB to import, and copies what it reads. A
folder that is laid out in any other way is left to that library (`hub`), once it is seen to name no file outside of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, safe_name
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable, inside
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.base import Row, Selection, free_key
from pytest_jsbench.datasets.documents.json_text import broken
from pytest_jsbench.datasets.row_file import RowFile, RowPlace
from pytest_jsbench.datasets.sources.hub import WHOLE, choose_parts, choose_splits
from pytest_jsbench.datasets.sources.parquet import open_table, reading
from pytest_jsbench.datasets.sources.rows import case_of

#: bytes of a dataset card
LARGEST_CARD = 1_000_000
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


def find_layout(folder: Path) -> Layout | None:
    """Which files are which, by the folder's card; None where it is laid out otherwise or has other columns."""
    reader = FileReader(root=folder)
    try:
        card = read_card(folder)
        import pyarrow  # noqa: F401  what to do without it is the library's to say
    except (Unreadable, ImportError):
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
    return layout if whole and all(_columns(reader, path) == {_SCHEMA, _ID} for path in files) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFolder:
    """Cases that are rows of Parquet files."""

    source: str
    reader: FileReader
    rows: Mapping[CaseKey, tuple[Path, int]]
    unpacked: UnpackedRows

    @classmethod
    def open(cls, selection: Selection, layout: Layout) -> ParquetFolder:
        """The selection's part of these files."""
        reader = FileReader(root=Path(selection.source).expanduser())
        rows: _Rows = {}
        for task in choose_parts(selection, [*layout, WHOLE]):
            rows |= _task_rows(reader, selection, task, layout[task])
        return cls(source=selection.source, reader=reader, rows=rows, unpacked=UnpackedRows())

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return tuple(self.rows)

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """One of them; broken where its row holds no JSON Schema."""
        path, number = self.rows[key]
        row = self.unpacked.row(key, path, self._rows_of)
        if row is not None:
            return case_of(key, {_SCHEMA: row.text}, where=row.where)
        where = self._where(key, number)
        try:
            text = _read(self.reader, path, _SCHEMA)[number].as_py()
        except UnicodeDecodeError:
            return broken(key, where, Unreadable("cannot be read: not UTF-8"))
        return case_of(key, {_SCHEMA: text}, where=where)

    def all_rows(self) -> Iterator[tuple[CaseKey, Row]]:
        """Each case as text, some at a time, of which none are kept."""
        for path in dict.fromkeys(path for path, _ in self.rows.values()):
            yield from self._rows_of(path)

    def _rows_of(self, path: Path) -> Iterator[tuple[CaseKey, Row]]:
        """The cases of a file that are nothing but text."""
        keys = {number: key for key, (file, number) in self.rows.items() if file == path}
        for number, text in enumerate(_texts(self.reader, path)):
            if number in keys and text is not None:
                yield keys[number], Row(text=text, where=self._where(keys[number], number))

    def _where(self, key: CaseKey, number: int) -> str:
        return f"{self.source} {key.task} row {number}"


class UnpackedRows:
    """
    The rows of Parquet files, in a file of their own from when the first of each is asked for.

    A dataset makes one and keeps it. The threads of all calls in flight ask for rows; each file is unpacked once, by
    the first that comes, and what it unpacks is let go of.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unpacked: set[Path] = set()
        self._places: dict[CaseKey, RowPlace] = {}
        self._file: RowFile | None = None

    def row(self, key: CaseKey, path: Path, rows_of: Callable[[Path], Iterable[tuple[CaseKey, Row]]]) -> Row | None:
        """The row of a case in this file; None where it is no text."""
        with self._lock:
            self._file = file = self._file or RowFile.unnamed()
            if path not in self._unpacked:
                self._places.update((found, file.append(row)) for found, row in rows_of(path))
                self._unpacked.add(path)
        place = self._places.get(key)
        return None if place is None else file.read(place)


def _task_rows(reader: FileReader, selection: Selection, task: str, files: Mapping[str, Sequence[Path]]) -> _Rows:
    rows: _Rows = {}
    tried: dict[CaseKey, int] = {}
    for split in choose_splits(selection, task, list(files)):
        for path in files[split]:
            for number, name in enumerate(_names(reader, path)):
                if selection.limit is not None and len(rows) >= selection.limit:
                    return rows
                rows[free_key(rows, safe_name(task), str(name), tried)] = (path, number)
    return rows


def _names(reader: FileReader, path: Path) -> Iterator[object]:
    yield from (name.as_py() for name in _read(reader, path, _ID))


def _columns(reader: FileReader, path: Path) -> set[str]:
    with reading(path), open_table(reader, path) as file:
        return set(file.schema_arrow.names)


def _read(reader: FileReader, path: Path, column: str) -> Any:
    with reading(path), open_table(reader, path) as file:
        return file.read(columns=[column], use_threads=False)[column]


def _text(value: Any) -> str | None:
    """What a row holds; None for what is no text."""
    try:
        text: str | None = value.as_py()
    except UnicodeDecodeError:
        return None
    return text


def _texts(reader: FileReader, path: Path) -> Iterator[str | None]:
    import pyarrow

    with reading(path), open_table(reader, path) as file:
        for batch in file.iter_batches(batch_size=64, columns=[_SCHEMA], use_threads=False):
            yield from map(_text, batch.column(0))
    pyarrow.default_memory_pool().release_unused()  # it would keep what the largest file took
