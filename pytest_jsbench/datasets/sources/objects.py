"""
Python objects: what a program holds, or what `package.module:name` names.

Pydantic models, dataclasses, TypedDicts, schemas and mappings of them; for a program also cases and rows one after
another, and tables of `datasets` or pandas.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, time
from functools import partial
from types import ModuleType
from typing import Any, get_origin

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.errors import ContractError, DatasetError, ImportFailed, MissingRequirement
from pytest_jsbench.core.extensions import import_object
from pytest_jsbench.core.files import Unreadable, parse_json
from pytest_jsbench.core.text import kind_of
from pytest_jsbench.datasets.base import LeftOut, ListedCase, Listing, Selection, schema_case
from pytest_jsbench.datasets.sources import rows, tools
from pytest_jsbench.datasets.sources.hub import choose_splits
from pytest_jsbench.schemas import python_types
from pytest_jsbench.schemas.keywords import KEYWORDS

#: the task of what names none of its own
TASK = "cases"
_TABLE = "the table"
#: what tells a schema from a mapping of names to schemas, where all its values are objects
_KEYWORDS = frozenset(
    {"$defs", "additionalProperties", "allOf", "anyOf", "definitions", "items", "not", "oneOf", "properties"}
)
_SCHEMAS = "a Pydantic model, a dataclass, a TypedDict, a JSON Schema, or a mapping or list of them"
_CASES = (
    "the name of a source, a table of datasets or pandas, a Pydantic model, a dataclass, a TypedDict, "
    "or an iterable of cases, rows or schemas"
)


def open_object(selection: Selection) -> Listing:
    """The schemas of an object, or of all models of a module for `package.module:*`."""
    source = selection.source
    try:
        value = import_object(source, purpose=f"dataset '{source}'")
    except ImportFailed as error:
        raise DatasetError(str(error)) from error
    module, _, name = source.partition(":")
    return Listing.of(selection, _schemas_of(source, value, task=module, name=name))


def open_in_memory(selection: Selection, held: object) -> Listing:
    """The cases of what a program holds; an iterable is gone through once, now."""
    return Listing.of(selection, _find(selection, held))


def _find(selection: Selection, held: Any) -> Iterable[ListedCase | LeftOut]:
    source = selection.source
    if isinstance(held, Mapping) and held and all(map(_is_table, held.values())):  # by split
        splits = choose_splits(selection, TASK, list(held))
        return (entry for split in splits for entry in _rows_of_table(source, held[split]))
    if _is_table(held):
        return _rows_of_table(source, held)
    if isinstance(held, Mapping | ModuleType) or _is_type(held):
        return _schemas_of(source, held, task=TASK, name=getattr(held, "__name__", "schema"))
    if hasattr(held, "iterrows"):  # a DataFrame of pandas, of which a loop would give the columns
        rows.schema_column(list(held.columns), _TABLE)
        return _each_of(source, (row.dropna().to_dict() for _, row in held.iterrows()))
    if isinstance(held, Iterable) and not isinstance(held, bytes):
        return _each_of(source, held)
    message = f"{kind_of(held)} holds no cases; expected {_CASES}"
    raise DatasetError(message, found=type(held).__name__, expected=_CASES)


def _each_of(source: str, held: Iterable[object]) -> Iterator[ListedCase | LeftOut]:
    if isinstance(held, list | tuple) and not any(map(rows.is_row, held)):
        defined = _defined(held, task=TASK, name="schema", where=source)
        if defined is not None:
            yield from defined
            return
    for number, part in enumerate(held):
        if isinstance(part, Case | BrokenCase):
            yield ListedCase(task=part.key.task, name=part.key.id, where=source, read=partial(_as_called, part))
        elif _is_type(part):
            yield from _schemas_of(source, part, task=TASK, name=getattr(part, "__name__", f"row-{number}"))
        elif not rows.is_row(part) and (
            defined := _defined(part, task=TASK, name=f"row-{number}", where=f"row {number}")
        ):
            yield from defined
        else:
            # as text, so that what the program does with the row afterwards changes no case
            row = partial(_parsed, _json_of(part))
            yield rows.listed(row, part, task=TASK, name=f"row-{number}", where=f"row {number}")


def _as_called(case: Case | BrokenCase, key: CaseKey) -> Case | BrokenCase:
    return case if case.key == key else replace(case, key=key)


def _json_of(value: object) -> str | Unreadable:
    """The value as JSON text, or why it is none."""
    try:
        return json.dumps(value, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        return Unreadable(f"cannot be written as JSON: {error}")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if hasattr(value, "tolist"):  # a number or an array of numpy
        return value.tolist()
    raise TypeError(f"found {type(value).__name__}, expected only JSON values")


def _parsed(text: str | Unreadable) -> object:
    if isinstance(text, Unreadable):
        raise text
    return parse_json(text)


def _is_table(held: object) -> bool:
    """Tell whether it is a `datasets.Dataset`, which need not be imported to know one."""
    return all(hasattr(held, part) for part in ("column_names", "features", "select_columns"))


def _rows_of_table(source: str, table: Any) -> Iterator[ListedCase | LeftOut]:
    if table.features is not None:  # a stream may not know them
        _check_features(table)
    if not hasattr(table, "__len__"):  # a stream, which nobody can ask for its rows by number
        yield from _each_of(source, table)
        return
    yield from rows.of_table(table, task=TASK, place=source)


def _check_features(table: Any) -> None:
    held = rows.schema_column(table.column_names, _TABLE)
    kind = getattr(table.features[held], "dtype", None)
    is_json = type(table.features[held]).__name__ == "Json"
    if not is_json and kind not in {
        "string",
        "large_string",
    }:  # a column of objects gives each row the members of all others
        message = f"the table's column {held} is {kind or 'no text'}; expected text, each a JSON Schema"
        raise DatasetError(message, found=kind, expected="string", where=held)


def _schemas_of(source: str, value: object, *, task: str, name: str) -> list[ListedCase | LeftOut]:
    """The schemas of an object, in one task; DatasetError where there are none, or something else is among them."""
    if (defined := _defined(value, task=task, name=name, where=source)) is not None:
        return defined
    named = list(_named(value, name))
    if not named:
        raise DatasetError(f"dataset '{source}' is empty: expected {_SCHEMAS}")
    cases: list[ListedCase | LeftOut] = []
    for part, held in named:
        if (defined := _defined(held, task=task, name=part, where=source)) is not None:
            cases += defined
            continue
        _check(source, part, held)
        cases.append(ListedCase(task=task, name=part, where=source, read=partial(_read_schema, held)))
    return cases


def _defined(value: object, *, task: str, name: str, where: str) -> list[ListedCase | LeftOut] | None:
    """Return the cases of tools and response formats, as of the same JSON in a file; None if the value is neither."""
    plain = _dumped(value)
    if not isinstance(plain, Mapping | list) or tools.read_definitions(plain) is None:
        return None
    text = _json_of(plain)
    document = None if isinstance(text, Unreadable) else parse_json(text)
    found = tools.read_definitions(document)
    if found is None:
        return None
    return [*tools.listed(found, document, task=task, name=name, where=where), *found.notes(where)]


def _dumped(value: Any) -> object:
    """Return a definition that is an object of an SDK (`mcp.types.Tool`, a list of them) as its JSON value."""
    if isinstance(value, list | tuple):
        return [_dumped(part) for part in value]
    if isinstance(value, Mapping) and isinstance(value.get("tools"), list | tuple):
        return {**value, "tools": _dumped(value["tools"])}
    dump = getattr(value, "model_dump", None)
    if isinstance(value, type) or not callable(dump):
        return value
    try:
        return dump(mode="json", by_alias=True)
    except (TypeError, ValueError):
        return value


def _named(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The parts of the object, each with what to call it."""
    match value:
        case ModuleType():
            yield from _models_of(value)
        case Mapping() if not _is_schema(value):
            yield from ((str(key), held) for key, held in value.items())
        case list() | tuple():
            yield from ((getattr(held, "__name__", f"{name}-{index}"), held) for index, held in enumerate(value))
        case _:
            yield name, value


def _models_of(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield each model that the module defines once, under the first public name that the module gives it."""
    seen: set[int] = set()
    for name, held in vars(module).items():
        # Pydantic adds the generics that a module uses to its names, as `Page[User]`
        is_public = name.isidentifier() and not name.startswith("_")
        if is_public and python_types.is_model(held) and held.__module__ == module.__name__ and id(held) not in seen:
            seen.add(id(held))
            yield name, held


def _is_schema(value: Mapping[Any, Any]) -> bool:
    """Tell whether a mapping is a schema itself, and not one of names to schemas or models."""
    if not _KEYWORDS.isdisjoint(value):
        return True
    if all(_is_json_schema(held) or _is_type(held) for held in value.values()):
        return False
    # something else among schemas, under names that are no keywords, is a mistake to be named; a schema would take all
    return not (
        KEYWORDS.isdisjoint(value) and any(isinstance(held, Mapping) or _is_type(held) for held in value.values())
    )


def _is_json_schema(value: object) -> bool:
    return isinstance(value, bool | Mapping)


def _is_type(value: object) -> bool:
    return isinstance(value, type) or get_origin(value) is not None


def _check(source: str, name: str, value: object) -> None:
    if _is_json_schema(value):
        return
    if not _is_type(value):
        raise DatasetError(f"dataset '{source}': {name} is {kind_of(value)}; expected {_SCHEMAS}")
    try:
        python_types.require_pydantic(f"dataset '{source}'")
    except MissingRequirement as error:
        raise DatasetError(str(error)) from error


def _read_schema(value: Any, key: CaseKey) -> Case:
    """The case of a schema as one who reads it as JSON would see it, or of a type's."""
    if not _is_json_schema(value):
        try:
            value = python_types.schema_of(value)
        except ContractError as error:
            raise Unreadable(str(error), reason="not_a_schema") from None
    return schema_case(key, value if isinstance(value, bool) else _parsed(_json_of(value)))
