"""What a program holds: cases, rows, schemas and types one after another, or a table of `datasets` or pandas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any, get_origin

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import Unreadable, parse_json
from pytest_jsbench.datasets.base import CaseSource, Found, Listing, Selection
from pytest_jsbench.datasets.documents.json_text import broken
from pytest_jsbench.datasets.sources import rows
from pytest_jsbench.datasets.sources.hub import Table, choose_splits
from pytest_jsbench.datasets.sources.python_objects import find_objects

#: the task of what names none of its own
TASK = "cases"
_EXPECTED = (
    "the name of a source, a table of datasets or pandas, a Pydantic model, a dataclass, a TypedDict, "
    "or an iterable of cases, rows or schemas"
)


def open_in_memory(selection: Selection, held: object) -> CaseSource:
    """The cases of what a program holds; an iterable is gone through once, now."""
    return Listing.of(selection, _find(selection, held))


def _find(selection: Selection, held: object) -> Iterable[Found]:
    source = selection.source
    if isinstance(held, Mapping) and held and all(map(_is_table, held.values())):  # by split
        splits = choose_splits(selection, TASK, list(held))
        return (found for split in splits for found in _find_in_table(source, held[split]))
    if _is_table(held):
        return _find_in_table(source, held)
    if isinstance(held, Mapping | ModuleType | type) or get_origin(held) is not None:
        return find_objects(source, held, task=TASK, name=getattr(held, "__name__", "schema"))
    if hasattr(held, "iterrows"):
        return _find_in_frame(source, held)
    if isinstance(held, Iterable) and not isinstance(held, bytes):
        return _find_each(source, held)
    message = f"a {type(held).__name__} holds no cases; expected {_EXPECTED}"
    raise DatasetError(message, found=type(held).__name__, expected=_EXPECTED)


def _find_in_frame(source: str, frame: Any) -> list[Found]:
    """The rows of a DataFrame of pandas, of which a loop would give the columns."""
    _schema_column(list(frame.columns))
    return _find_each(source, (row.dropna().to_dict() for _, row in frame.iterrows()))


def _find_each(source: str, held: Iterable[object]) -> list[Found]:
    return [found for number, one in enumerate(held) for found in _find_one(source, one, number)]


def _find_one(source: str, one: object, number: int) -> Iterator[Found]:
    if isinstance(one, Case | BrokenCase):
        yield Found(task=one.key.task, name=one.key.id, read=partial(_as_called, one))
    elif isinstance(one, type) or get_origin(one) is not None:
        yield from find_objects(source, one, task=TASK, name=getattr(one, "__name__", f"row-{number}"))
    else:
        # as text, so that what the program does with the row afterwards changes no case
        text = _as_json(one)
        name = rows.name_of(one) or f"row-{number}"
        yield Found(task=rows.task_of(one) or TASK, name=name, read=partial(_read_row, f"row {number}", text))


def _as_called(case: Case | BrokenCase, key: CaseKey) -> Case | BrokenCase:
    return case if case.key == key else replace(case, key=key)


def _as_json(row: object) -> str | Unreadable:
    try:
        return json.dumps(row, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        return Unreadable(f"cannot be written as JSON: {error}")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):  # a number or an array of numpy
        return value.tolist()
    message = f"found {type(value).__name__}, expected only JSON values"
    raise TypeError(message)


def _read_row(where: str, text: str | Unreadable, key: CaseKey) -> Case | BrokenCase:
    if isinstance(text, Unreadable):
        return broken(key, where, text)
    try:
        return rows.case_of(key, parse_json(text), where=where)
    except Unreadable as error:
        return broken(key, where, error)


def _is_table(held: object) -> bool:
    """Whether it is a `datasets.Dataset`, which need not be imported to know one."""
    return all(hasattr(held, part) for part in ("column_names", "features", "select_columns"))


def _find_in_table(source: str, table: Any) -> Iterator[Found]:
    _check_columns(table)
    if not hasattr(table, "__len__"):  # a stream, which nobody can ask for its rows by number
        yield from _find_each(source, table)
        return
    wanted = [name for name in (*rows.ID_NAMES, "task") if name in table.column_names]
    names: Iterable[Mapping[str, Any]] = table.select_columns(wanted) if wanted else [{}] * len(table)
    for number, row in enumerate(names):
        task, name = rows.task_of(row) or TASK, rows.name_of(row) or f"row-{number}"
        yield Found(task=task, name=name, read=partial(_read_in_table, source, table, number))


def _check_columns(table: Any) -> None:
    if table.features is None:  # a stream may not know them
        return
    held = _schema_column(table.column_names)
    kind = getattr(table.features[held], "dtype", None)
    if kind not in {"string", "large_string"}:  # a column of objects gives each row the members of all others
        message = f"the table's column {held} is {kind or 'no text'}; expected text, each a JSON Schema"
        raise DatasetError(message, found=kind, expected="string", where=held)


def _schema_column(columns: Sequence[object]) -> str:
    held = next((name for name in rows.SCHEMA_NAMES if name in columns), None)
    if held is None:
        named = ", ".join(map(str, columns))
        message = f"the table has no column {' or '.join(rows.SCHEMA_NAMES)}; its columns are {named}"
        raise DatasetError(message, found=tuple(columns), expected=rows.SCHEMA_NAMES)
    return held


def _read_in_table(source: str, table: Table, number: int, key: CaseKey) -> Case | BrokenCase:
    return rows.case_of(key, table[number], where=f"{source} row {number}")
