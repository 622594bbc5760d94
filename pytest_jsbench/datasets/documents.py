"""Bytes to a JSON value: of JSON or YAML text, with nothing repaired and everything bounded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any

from pytest_jsbench.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.text import printable

#: bytes of one schema; the largest of JSONSchemaBench has 938,058
LARGEST_SCHEMA = 10_000_000
#: bytes of a document that holds many, such as an API's description
LARGEST_DOCUMENT = 100_000_000
JSON_SUFFIXES = (".json",)
YAML_SUFFIXES = (".yaml", ".yml")


class Unreadable(Exception):
    """Why a document, or a place in it, gives no schema; ends as the problem of a BrokenCase."""

    def __init__(self, problem: str, *, reason: str = "not_json") -> None:
        super().__init__(problem)
        self.problem = problem
        self.reason = reason


def parse_document(data: bytes, *, path: PurePath) -> object:
    """The JSON value that a file holds, by the suffix of its name; Unreadable says what else was found, and where."""
    if path.suffix.lower() not in YAML_SUFFIXES:
        return parse_json(data, largest=LARGEST_DOCUMENT)
    from pytest_jsbench.datasets.yamltext import parse_yaml

    return parse_yaml(decode(data))


def parse_json(data: bytes | str, *, largest: int = LARGEST_SCHEMA) -> object:
    """The JSON value of a text, in which no object has a key twice."""
    check_size(len(data), largest)
    text = decode(data) if isinstance(data, bytes) else data
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except RecursionError:
        raise Unreadable("nested too deeply to be read as JSON", reason="too_deep") from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno} " if "\n" in text.strip() else ""
        message = f"not JSON: {error.msg.removesuffix(' at')} at {line}column {error.colno}"
        raise Unreadable(message) from None
    except ValueError as error:
        message = f"not JSON: {error}"
        raise Unreadable(message) from None


def decode(data: bytes) -> str:
    """The text of UTF-8 bytes, with or without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        line = f"line {number} is " if b"\n" in data.strip() else ""
        message = f"cannot be read: {line}not UTF-8"
        raise Unreadable(message) from None


def check_size(size: int, largest: int) -> None:
    """Unreadable where that many bytes are too many."""
    if size > largest:
        message = f"cannot be read: {size:,} bytes; expected at most {largest:,}"
        raise Unreadable(message, reason="too_large")


def as_case(key: CaseKey, read: Callable[[], object], *, where: str) -> Case | BrokenCase:
    """The case whose schema `read` gives; broken, with the place, where that raises or is no schema."""
    try:
        return Case(key=key, schema=as_schema(read()))
    except Unreadable as error:
        return broken(key, where, error)


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


def json_type(value: object) -> str:
    """What JSON calls the value."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"


def _refuse_constant(name: str) -> None:
    message = f"{name} is not JSON"
    raise ValueError(message)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        message = f"an object has the key {printable(twice, 60)!r} twice"
        raise ValueError(message)
    return found
