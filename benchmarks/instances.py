"""Answers that conform to the public benchmark's schemas: labelled ones, or small generated ones."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.json_values import digest
from pytest_jsbench.schemas.dialects import DRAFT_2020_12
from pytest_jsbench.schemas.references import References
from tests.support.public_data import DATA, labelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.verdicts import Judge

_MAX_DEPTH = 12
_MAX_VALUES = 2000
_FORMATS = {
    "date-time": "2024-01-01T00:00:00Z",
    "date": "2024-01-01",
    "time": "00:00:00Z",
    "uri": "https://example.com",
    "uri-reference": "/a",
    "email": "a@example.com",
    "hostname": "example.com",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
_STRINGS = ("a", "A", "1", "aa", "a-b", "a.b.c", "1.0.0", "0.5.8", "1-0-0", "/a", "https://example.com", "#000000", "")


def find_answers(judge: Judge) -> Callable[[Schema], str | None]:
    """Return a function that finds an answer to a schema that passes the judge, or None."""
    known: dict[str, list[str]] = {}
    if (DATA / "labelled").is_dir():
        for _, schema, text, valid in labelled():
            if valid:
                known.setdefault(digest(schema), []).append(text)

    def answer(schema: Schema) -> str | None:
        candidates = itertools.chain(known.get(digest(schema), ()), map(json.dumps, _candidates(schema)))
        return next((one for one in candidates if judge.judge(schema, one).passed), None)

    return answer


def _candidates(schema: Schema) -> Iterator[Any]:
    if not isinstance(schema, dict):
        yield 1
        return
    references = References(schema, DRAFT_2020_12)
    for branch in range(3):
        for optional in (False, True):
            yield _Maker(references, branch, optional=optional).make(schema)


class _Maker:
    """Generator of an instance with a schema's required fields, or with all named fields."""

    def __init__(self, references: References, branch: int, *, optional: bool) -> None:
        self._references = references
        self._branch = branch
        self._optional = optional
        self._left = _MAX_VALUES

    def make(self, schema: Any, depth: int = 0) -> Any:
        self._left -= 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._left < 0:
            return "a"
        schema = self._flatten(schema)
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return schema["enum"][min(self._branch, len(schema["enum"]) - 1)]
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((name for name in kind if name != "null"), "null")
        if kind is None:
            kind = "array" if "items" in schema else "string" if "pattern" in schema else "object"
        return self._make_type(kind, schema, depth)

    def _flatten(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema merged with its references, its `allOf` and one of its alternatives."""
        parts = [schema]
        for _ in range(_MAX_DEPTH):
            part = parts[-1]
            more = list(part.get("allOf", ()))
            if "$ref" in part:
                more.append(self._references.resolve(part, part["$ref"]))
            alternatives = filter(None, (part.get("anyOf"), part.get("oneOf")))
            more += [options[min(self._branch, len(options) - 1)] for options in alternatives]
            found = [one for one in more if isinstance(one, dict)]
            if not found:
                break
            parts += found
        flat: dict[str, Any] = {}
        for part in parts:
            for name, value in part.items():
                if name == "required" and isinstance(flat.get(name), list) and isinstance(value, list):
                    flat[name] = [*flat[name], *value]
                elif name == "properties" and isinstance(flat.get(name), dict):
                    flat[name] = {**value, **flat[name]}
                else:
                    flat.setdefault(name, value)
        return flat

    def _make_type(self, kind: str, schema: dict[str, Any], depth: int) -> Any:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            first = schema.get("items", {})
            each = first[0] if isinstance(first, list) and first else first
            count = max(schema.get("minItems", 0), int(self._optional and depth < 3))
            return [self.make(each, depth + 1) for _ in range(min(count, 20))]
        if kind in {"integer", "number"}:
            least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            number = least if isinstance(least, int | float) and not isinstance(least, bool) else 0
            return int(number) + ("exclusiveMinimum" in schema) + (number != int(number))
        return {"boolean": True, "null": None}[kind] if kind in {"boolean", "null"} else self._string(schema)

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        names = list(required) if isinstance(required, list) else []
        if (self._optional and depth < 3) or (not names and depth == 0):
            names += [name for name in properties if name not in names]
        return {name: self.make(properties.get(name), depth + 1) for name in names}

    def _string(self, schema: dict[str, Any]) -> str:
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        least: int = min(schema.get("minLength", 0), 1000)
        for text in _STRINGS:
            long = text.ljust(least, text[-1:] or "a")
            try:
                if re.search(schema.get("pattern", ""), long):
                    return long
            except re.error:
                break
        return "a" * max(least, 1)
