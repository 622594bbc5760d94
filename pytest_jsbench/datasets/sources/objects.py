"""
Read schemas and cases from Python objects, which a program passes or `package.module:name` names.

The objects are Pydantic models, dataclasses, TypedDicts, schemas, and mappings of names to these. A program may also
pass iterables of cases and rows, and tables of `datasets` or pandas.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, time
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_origin

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.errors import ContractError, DatasetError, ImportFailed, MissingRequirement
from pytest_jsbench.core.extensions import import_object
from pytest_jsbench.core.files import Unreadable, parse_json
from pytest_jsbench.core.text import kind_of, printable
from pytest_jsbench.datasets.base import ListedCase, Listing, Selection, SkippedPart, schema_case
from pytest_jsbench.datasets.columns import schema_column
from pytest_jsbench.datasets.sources import rows, tools
from pytest_jsbench.datasets.sources.hub import choose_splits
from pytest_jsbench.schemas import python_types
from pytest_jsbench.schemas.keywords import KEYWORDS
from pytest_jsbench.schemas.modes import MODES, read_mode

if TYPE_CHECKING:
    from pytest_jsbench.schemas.modes import Mode

#: Name of the task for cases that specify no task.
TASK = "cases"
_TABLE = "the table"
#: Keywords that mark a mapping as a schema, even if all its values are schemas, too.
_KEYWORDS = frozenset(
    {"$defs", "additionalProperties", "allOf", "anyOf", "definitions", "items", "not", "oneOf", "properties"}
)
_SCHEMAS = "a Pydantic model, a dataclass, a TypedDict, a JSON Schema, or a mapping or list of them"
_CASES = (
    "the name of a source, a pandas or Hugging Face table, a Pydantic model, a dataclass, a TypedDict, "
    "or an iterable of cases, rows or schemas"
)


def open_object(selection: Selection) -> Listing:
    """Open the schemas of an object, or of all models of a module for `package.module:*`, optionally with `@MODE`."""
    source = selection.source
    reference, mode = _split_mode(source)
    try:
        value = import_object(reference, purpose=f"dataset '{source}'")
    except ImportFailed as error:
        raise DatasetError(str(error)) from error
    module, _, name = reference.partition(":")
    return Listing.from_entries(selection, _schemas_of(source, value, task=module, name=name, mode=mode))


def _split_mode(source: str) -> tuple[str, Mode | None]:
    """Split `package.module:name@MODE` into the reference and the mode; the mode is None without an `@`."""
    reference, at, mode = source.partition("@")
    if not at:
        return reference, None
    try:
        return reference, read_mode(mode)
    except ValueError as error:
        message = f"dataset '{printable(source)}': unknown mode '{printable(mode)}'; expected {error} after the @"
        raise DatasetError(message, found=mode, expected=MODES, option="dataset") from None


def open_in_memory(selection: Selection, value: object) -> Listing:
    """Open the cases of a program's objects; an iterable is consumed once, immediately."""
    return Listing.from_entries(selection, _find_cases(selection, value))


def _find_cases(selection: Selection, value: Any) -> Iterable[ListedCase | SkippedPart]:
    source = selection.source
    if isinstance(value, Mapping) and value and all(map(_is_table, value.values())):  # a mapping of splits to tables
        splits = choose_splits(selection, TASK, list(value))
        return (entry for split in splits for entry in _rows_of_table(source, value[split]))
    if _is_table(value):
        return _rows_of_table(source, value)
    if isinstance(value, Mapping | ModuleType) or _is_described(value):
        return _schemas_of(source, value, task=TASK, name=getattr(value, "__name__", "schema"))
    if hasattr(value, "iterrows"):  # a pandas DataFrame; iterating over it would yield its columns
        schema_column(list(value.columns), _TABLE)
        return _cases_of_iterable(source, (row.dropna().to_dict() for _, row in value.iterrows()))
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return _cases_of_iterable(source, value)
    message = f"{kind_of(value)} is not a dataset; expected {_CASES}"
    raise DatasetError(message, found=type(value).__name__, expected=_CASES)


def _cases_of_iterable(source: str, values: Iterable[object]) -> Iterator[ListedCase | SkippedPart]:
    if isinstance(values, list | tuple) and not any(map(rows.is_row, values)):
        definitions = _defined_cases(values, task=TASK, name="schema", where=source)
        if definitions is not None:
            yield from definitions
            return
    for number, part in enumerate(values):
        place = f"row {number}"
        name = f"row-{number}"
        if isinstance(part, Case | BrokenCase):
            yield ListedCase(task=part.key.task, name=part.key.id, where=source, read=partial(_with_key, part))
        elif _is_type(part):
            yield from _schemas_of(source, part, task=TASK, name=getattr(part, "__name__", name))
        else:
            yield from _cases_of_row(part, name=name, where=place)


def _cases_of_row(row: object, *, name: str, where: str) -> Iterator[ListedCase | SkippedPart]:
    definitions = None if rows.is_row(row) else _defined_cases(row, task=TASK, name=name, where=where)
    if definitions:
        yield from definitions
        return
    # keep the row as text, so that later changes in the program do not change the case
    read = partial(_parse, _json_of(row))
    yield rows.list_row(read, row, task=TASK, name=name, where=where)


def _with_key(case: Case | BrokenCase, key: CaseKey) -> Case | BrokenCase:
    return case if case.key == key else replace(case, key=key)


def _json_of(value: object) -> str | Unreadable:
    """Return the value as JSON text, or the error if it cannot be written as JSON."""
    try:
        return json.dumps(value, default=_to_plain)
    except (TypeError, ValueError, RecursionError) as error:
        return Unreadable(f"cannot be written as JSON: {error}")


def _to_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if hasattr(value, "tolist"):  # a NumPy number or array
        return value.tolist()
    raise TypeError(f"found {type(value).__name__}, expected only JSON values")


def _parse(text: str | Unreadable) -> object:
    if isinstance(text, Unreadable):
        raise text
    return parse_json(text)


def _is_table(value: object) -> bool:
    """Return whether the value is a `datasets.Dataset`, without importing `datasets`."""
    return all(hasattr(value, part) for part in ("column_names", "features", "select_columns"))


def _rows_of_table(source: str, table: Any) -> Iterator[ListedCase | SkippedPart]:
    if table.features is not None:  # streams may not have features
        _check_features(table)
    if not hasattr(table, "__len__"):  # a stream, whose rows cannot be read by number
        yield from _cases_of_iterable(source, table)
        return
    yield from rows.table_cases(table, task=TASK, place=source)


def _check_features(table: Any) -> None:
    column = schema_column(table.column_names, _TABLE)
    kind = getattr(table.features[column], "dtype", None)
    is_json = type(table.features[column]).__name__ == "Json"
    # in a column of objects, `datasets` adds the members of all rows to each row
    if not is_json and kind not in {"string", "large_string"}:
        message = f"the table's column {column} is {kind or 'not text'}; expected JSON Schemas as text"
        raise DatasetError(message, found=kind, expected="string", where=column)


def _schemas_of(
    source: str, value: object, *, task: str, name: str, mode: Mode | None = None
) -> list[ListedCase | SkippedPart]:
    """Return the cases of an object's schemas in one task; raise DatasetError if the object is empty or invalid."""
    definitions = None if mode is not None else _defined_cases(value, task=task, name=name, where=source)
    if definitions is not None:
        return definitions
    parts = list(_named_parts(value, name))
    if not parts:
        raise DatasetError(f"dataset '{source}' is empty: expected {_SCHEMAS}")
    if mode is not None and not any(_is_type(part) for _, part in parts):
        raise DatasetError(f"dataset '{source}' has no Python types; remove @{mode}, which is for types")
    cases: list[ListedCase | SkippedPart] = []
    for part_name, part in parts:
        definitions = _defined_cases(part, task=task, name=part_name, where=source)
        if definitions is not None:
            cases += definitions
            continue
        _check(source, part_name, part)
        read = partial(_read_schema, part, mode or MODES[0])
        cases.append(ListedCase(task=task, name=part_name, where=source, read=read))
    return cases


def _defined_cases(value: object, *, task: str, name: str, where: str) -> list[ListedCase | SkippedPart] | None:
    """Return the cases of tools and response formats, as for a file with the same JSON; None for other values."""
    plain = _dump_models(value)
    if not isinstance(plain, Mapping | list) or tools.read_definitions(plain) is None:
        return None
    text = _json_of(plain)
    document = None if isinstance(text, Unreadable) else parse_json(text)
    definitions = tools.read_definitions(document)
    if definitions is None:
        return None
    return [*tools.list_cases(definitions, document, task=task, name=name, where=where), *definitions.notes(where)]


def _dump_models(value: Any) -> object:
    """Convert a function, an SDK object with a definition such as `mcp.types.Tool`, or a list of them to JSON."""
    if inspect.isfunction(value):
        return _define_tool(value, value.__name__)
    if isinstance(value, list | tuple):
        return [_dump_models(part) for part in value]
    if isinstance(value, Mapping) and isinstance(value.get("tools"), list | tuple):
        return {**value, "tools": _dump_models(value["tools"])}
    dump = getattr(value, "model_dump", None)
    if isinstance(value, type) or not callable(dump):
        return value
    try:
        return dump(mode="json", by_alias=True)
    except (TypeError, ValueError):
        return value


def define_tools(value: object, *, name: str) -> object:
    """
    Return definitions of the tools in an object: functions, types, definitions, or a mapping or list of these.

    Of a module, these are its public functions; if it has none, its models. Raise DatasetError if an argument has no
    JSON Schema.
    """
    if isinstance(value, Mapping) and tools.read_definitions(value) is not None:
        return _parse(_json_of(_dump_models(value)))
    parts = list(_public_functions(value)) if isinstance(value, ModuleType) else []
    definitions = [_define_tool(part, part_name) for part_name, part in parts or _named_parts(value, name)]
    return _parse(_json_of(definitions))


def _define_tool(part: object, name: str) -> object:
    if not _is_described(part):
        return _dump_models(part)
    try:
        return python_types.tool_of(part, name)
    except (ContractError, MissingRequirement) as error:
        raise DatasetError(str(error), found=name) from error


def _public_functions(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield each function that the module itself defines, under its public name."""
    for name, part in vars(module).items():
        if not name.startswith("_") and inspect.isfunction(part) and part.__module__ == module.__name__:
            yield name, part


def _named_parts(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield each part of the object with its name."""
    match value:
        case ModuleType():
            yield from _public_models(value)
        case Mapping() if not _is_schema(value):
            yield from ((str(key), part) for key, part in value.items())
        case list() | tuple():
            yield from ((getattr(part, "__name__", f"{name}-{index}"), part) for index, part in enumerate(value))
        case _:
            yield name, value


def _public_models(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield each model that is defined in the module, but only once, under its first public name."""
    seen: set[int] = set()
    for name, part in vars(module).items():
        # Pydantic adds generics that a module uses to the module's names, such as `Page[User]`
        is_public = name.isidentifier() and not name.startswith("_")
        if is_public and python_types.is_model(part) and part.__module__ == module.__name__ and id(part) not in seen:
            seen.add(id(part))
            yield name, part


def _is_schema(value: Mapping[Any, Any]) -> bool:
    """Return whether a mapping is a schema, rather than a mapping of names to schemas or models."""
    if not _KEYWORDS.isdisjoint(value):
        return True
    if all(_is_json_schema(part) or _is_described(part) for part in value.values()):
        return False
    # a mapping without keywords is not a schema if some values are schemas; the other values are reported as errors
    return not (
        KEYWORDS.isdisjoint(value) and any(isinstance(part, Mapping) or _is_described(part) for part in value.values())
    )


def _is_json_schema(value: object) -> bool:
    return isinstance(value, bool | Mapping)


def _is_described(value: object) -> bool:
    """Return whether Pydantic makes a schema of the value."""
    return _is_type(value) or inspect.isfunction(value)


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


def _read_schema(value: Any, mode: Mode, key: CaseKey) -> Case:
    """Return the case for a JSON Schema, or for the JSON Schema of a Python type in this mode."""
    if not _is_json_schema(value):
        try:
            value = python_types.schema_of(value, mode)
        except ContractError as error:
            raise Unreadable(str(error), reason="not_a_schema") from None
    return schema_case(key, value if isinstance(value, bool) else _parse(_json_of(value)))
