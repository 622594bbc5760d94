"""Python objects: Pydantic models, dataclasses, TypedDicts and mappings of schemas, by `package.module:name`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any, get_origin

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.errors import ContractError, DatasetError, ImportFailed, MissingRequirement
from pytest_jsbench.core.extensions import import_object
from pytest_jsbench.core.files import Unreadable, parse_json
from pytest_jsbench.datasets.base import Found, Listing, Selection
from pytest_jsbench.datasets.documents.json_text import as_case
from pytest_jsbench.schemas import python_types
from pytest_jsbench.schemas.keywords import KEYWORDS

#: what tells a schema from a mapping of names to schemas, where all its values are objects
_KEYWORDS = frozenset(
    {"$defs", "additionalProperties", "allOf", "anyOf", "definitions", "items", "not", "oneOf", "properties"}
)
_EXPECTED = "a Pydantic model, a dataclass, a TypedDict, a JSON Schema, or a mapping or list of them"


def open_object(selection: Selection) -> Listing:
    """The schemas of an object, or of all models of a module for `package.module:*`."""
    source = selection.source
    try:
        value = import_object(source, purpose=f"dataset '{source}'")
    except ImportFailed as error:
        raise DatasetError(str(error)) from error
    module, _, name = source.partition(":")
    return Listing.of(selection, find_objects(source, value, task=module, name=name))


def find_objects(source: str, value: object, *, task: str, name: str) -> list[Found]:
    """The schemas of an object, in one task; DatasetError where there are none, or something else is among them."""
    named = list(_named(value, name))
    if not named:
        message = f"dataset '{source}' is empty: expected {_EXPECTED}"
        raise DatasetError(message)
    for part, held in named:
        _check(source, part, held)
    return [Found(task=task, name=part, read=partial(_read, source, held)) for part, held in named]


def _named(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The parts of the object, each with what to call it."""
    match value:
        case ModuleType():
            models = (pair for pair in vars(value).items() if _is_model_of(value, *pair))
            yield from models
        case Mapping() if not _is_schema(value):
            yield from ((str(key), held) for key, held in value.items())
        case list() | tuple():
            yield from ((getattr(held, "__name__", f"{name}-{index}"), held) for index, held in enumerate(value))
        case _:
            yield name, value


def _is_model_of(module: ModuleType, name: str, value: Any) -> bool:
    return python_types.is_model(value) and not name.startswith("_") and value.__module__ == module.__name__


def _is_schema(value: Mapping[Any, Any]) -> bool:
    """Whether a mapping is a schema itself, and not one of names to schemas or models."""
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
        message = f"dataset '{source}': {name} is a {type(value).__name__}; expected {_EXPECTED}"
        raise DatasetError(message)
    try:
        python_types.require_pydantic(f"dataset '{source}'")
    except MissingRequirement as error:
        raise DatasetError(str(error)) from error


def _read(source: str, value: Any, key: CaseKey) -> Case | BrokenCase:
    return as_case(key, lambda: value if isinstance(value, bool) else _schema(value), where=source)


def _schema(value: Any) -> object:
    """The JSON Schema, as one who reads it as JSON would see it."""
    if not isinstance(value, Mapping):
        value = _schema_of_type(value)
    try:
        return parse_json(json.dumps(value, default=_plain_mapping))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"cannot be written as JSON: {error}"
        raise Unreadable(message) from None


def _plain_mapping(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    message = f"found {type(value).__name__}, expected only JSON values"
    raise TypeError(message)


def _schema_of_type(kind: Any) -> object:
    try:
        return python_types.schema_of(kind)
    except ContractError as error:
        raise Unreadable(str(error), reason="not_a_schema") from None
