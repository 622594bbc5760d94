"""Bytes to a JSON value: of JSON or YAML text, with nothing repaired and everything bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Expected
from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.core.text import printable
from pytest_jsbench.values import expecting, without_comparers

#: bytes of one schema; the largest of JSONSchemaBench has 938,058
LARGEST_SCHEMA = 10_000_000
#: bytes of a document that holds many, such as an API's description
LARGEST_DOCUMENT = 100_000_000
JSON_SUFFIXES = (".json",)
YAML_SUFFIXES = (".yaml", ".yml")
DOCUMENT_SUFFIXES = (*JSON_SUFFIXES, *YAML_SUFFIXES)


def as_case(
    key: CaseKey, read: Callable[[], object], *, where: str, expected: Expected | None = None
) -> Case | BrokenCase:
    """The case with the schema that `read` gives; broken, with the place, where that raises or is no schema."""
    try:
        return with_comparers(Case(key=key, schema=as_schema(read()), expected=expected))
    except Unreadable as error:
        return broken(key, where, error)


def with_comparers(case: Case) -> Case:
    """The case with the comparers that its schema names beside it; Unreadable where one says wrongly how to compare."""
    try:
        if case.expected is None:
            schema = without_comparers(case.schema)
            return case if schema is case.schema else replace(case, schema=schema)
        schema, expected = expecting(case.schema, case.expected.value)
    except ValueError as error:
        raise Unreadable(str(error), reason="bad_comparer") from None
    return replace(case, schema=schema, expected=expected)


def as_schema(value: object) -> bool | dict[str, Any]:
    """The value, which is a JSON Schema by its type; Unreadable where it is not."""
    if isinstance(value, bool | dict):
        return value
    message = f"a JSON {json_type(value)} is not a JSON Schema; expected an object, true or false"
    raise Unreadable(message, reason="not_a_schema")


def broken(key: CaseKey, where: str, error: Unreadable) -> BrokenCase:
    """The case that could not be read, with its place."""
    return BrokenCase(key=key, problem=printable(f"{where}: {error.problem}", limit=600), reason=error.reason)


def follow(value: Any, steps: Iterable[str | int]) -> Any:
    """What stands that many steps down in a JSON value; LookupError where there is nothing."""
    for step in steps:
        fits = isinstance(value, dict) or (isinstance(value, list) and isinstance(step, int))
        if not fits:
            raise LookupError(step)
        value = value[step]
    return value
