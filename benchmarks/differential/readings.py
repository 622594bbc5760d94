"""
Other ways to read a pair, or to ask it.

A reading changes what a pair means, to what a validator makes of it: if our judge, asked so, says what the validator
says, then that reading is the whole difference. A restatement changes how a pair is written and nothing that it means:
if the validator, asked so, says what our judge says, then the writing is the whole difference.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.differential.questions import PatternQuestion, Question, SchemaQuestion
from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_2019_09, DRAFT_2020_12
from pytest_jsbench.schemas.walking import rebuild

#: a surrogate pair, as escapes
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
#: names that every object of JavaScript inherits, and the one that JavaScript takes for false
_SPECIAL = ("toString", "constructor", "__proto__", "hasOwnProperty", "valueOf", "length", "")


def _changed(question: SchemaQuestion, schema: Any, instance: Any) -> SchemaQuestion:
    return dataclasses.replace(question, schema=schema, texts=(json.dumps(instance),))


def _instance(question: SchemaQuestion) -> Any:
    return json.loads(question.texts[0])


def _values(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a JSON value in which each scalar went through `change`."""
    if isinstance(value, dict):
        return {name: _values(held, change) for name, held in value.items()}
    if isinstance(value, list):
        return [_values(held, change) for held in value]
    return change(value)


def _as_double(value: Any, *, infinity: Any = None) -> Any:
    """A number as JavaScript has it, whole ones without a fraction."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        double = float(value)
    except OverflowError:
        return infinity
    return int(double) if double.is_integer() else double


def _as_doubles(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    before = question.schema, _instance(question)
    # JSON.parse makes an infinity of what is too large, which is a number to one, and to another none at all
    for infinity in ("Infinity", 0.5, int(sys.float_info.max)):
        schema, instance = (_values(one, functools.partial(_as_double, infinity=infinity)) for one in before)
        # exactly those whose numbers do not all survive
        if (schema, instance) != before:
            yield _changed(question, schema, instance)


def _whole_floats_are_integers(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    if question.dialect is DRAFT_4:
        yield _changed(question, _values(question.schema, _as_double), _values(_instance(question), _as_double))


def _multiples_either_way(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """Any answer at all where a `multipleOf` is asked."""
    others: tuple[dict[str, Any], ...] = ({}, {"not": {"type": "number"}})
    for other in others:
        schema = rebuild(question.schema, functools.partial(_without_multiples, other))
        if schema != question.schema:
            yield _changed(question, schema, _instance(question))


def _without_multiples(other: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema.get("multipleOf"), int | float):
        return schema
    kept = {name: held for name, held in schema.items() if name != "multipleOf"}
    return {**kept, "allOf": [*kept.get("allOf", []), other]}


def _siblings_of_references_count(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    if question.dialect not in {DRAFT_2019_09, DRAFT_2020_12}:
        yield _changed(question, rebuild(question.schema, _reference_apart), _instance(question))


def _reference_apart(schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema.get("$ref"), str) or len(schema) == 1:
        return schema
    kept = {name: held for name, held in schema.items() if name != "$ref"}
    return {**kept, "allOf": [*kept.get("allOf", []), {"$ref": schema["$ref"]}]}


def _nullable(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    yield _changed(question, rebuild(question.schema, _with_null), _instance(question))


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    declared = schema.get("type")
    if schema.get("nullable") is not True or declared is None:
        return schema
    types = declared if isinstance(declared, list) else [declared]
    return {**schema, "type": [*dict.fromkeys((*types, "null"))]}


def _other_names(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """The same pair with other names for fields."""
    text = before = json.dumps([question.schema, _instance(question)])
    for name in _SPECIAL:
        text = text.replace(f'"{name}"', f'"{name[::-1] or "empty"}"')
    if text != before:
        yield _changed(question, *json.loads(text))


def _plain_references(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """`$ref` for what leads nowhere else at run time: to a place by its pointer, or to a root that is not marked."""
    schema = question.schema
    if isinstance(schema, dict) and "$recursiveAnchor" not in json.dumps(schema):
        changed = rebuild(schema, _plain_reference)
        if changed != schema:
            plain = _changed(question, changed, _instance(question))
            yield plain
            yield from _other_names(plain)


def _plain_reference(schema: dict[str, Any]) -> dict[str, Any]:
    dynamic = [name for name in ("$dynamicRef", "$recursiveRef") if _is_static(schema.get(name))]
    kept = {name: held for name, held in schema.items() if name not in dynamic}
    references = [{"$ref": schema[name]} for name in dynamic]
    return {**kept, "allOf": [*kept.get("allOf", []), *references]} if references else schema


def _is_static(reference: Any) -> bool:
    return isinstance(reference, str) and (reference == "#" or reference.startswith("#/"))


def _within_one_unit(question: PatternQuestion) -> Iterator[PatternQuestion]:
    """Letters of the basic plane, in the same order, for what takes two code units of UTF-16."""
    pattern = _PAIR.sub(lambda found: json.loads(f'"{found[0]}"'), question.pattern)
    beyond = sorted({one for one in pattern + question.texts[0] if ord(one) > 0xFFFF})
    table = {ord(one): chr(0x4E00 + number) for number, one in enumerate(beyond)}
    yield dataclasses.replace(question, pattern=pattern.translate(table), texts=(question.texts[0].translate(table),))


def _enums_of_distinct_values(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """Each value of an `enum` once, also where only their doubles are the same, and none of no values at all."""
    # draft 4 says MUST where its successors say SHOULD
    exact, doubles = (lambda value: value), functools.partial(_as_double, infinity="Infinity")
    once = rebuild(question.schema, functools.partial(_enum_once, exact))
    if question.dialect is not DRAFT_4 or once == question.schema:
        schema = rebuild(question.schema, functools.partial(_enum_once, doubles))
        if schema != question.schema:
            yield _changed(question, schema, _instance(question))


def _enum_once(number: Callable[[Any], Any], schema: dict[str, Any]) -> dict[str, Any]:
    values = schema.get("enum")
    if not isinstance(values, list):
        return schema
    if not values:
        return {**{name: held for name, held in schema.items() if name != "enum"}, "not": {}}
    once: dict[str, Any] = {}
    for value in values:
        once.setdefault(json.dumps(_values(_values(value, _whole), number), sort_keys=True), value)
    return {**schema, "enum": list(once.values())}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _unevaluated_either_way(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """Each `unevaluated…` left out, all of them left out, or nothing left for them."""
    text = json.dumps(question.schema)
    for keyword in ("unevaluatedItems", "unevaluatedProperties"):
        parts = text.split(f'"{keyword}":')
        for number in range(1, len(parts)):
            marked = f'"{keyword}":'.join(parts[:number]) + '"unknown":' + f'"{keyword}":'.join(parts[number:])
            yield _changed(question, json.loads(marked), _instance(question))
        if len(parts) > 1:
            yield _changed(question, json.loads('"unknown":'.join(parts)), _instance(question))
            yield _changed(question, rebuild(question.schema, functools.partial(_forbid, keyword)), _instance(question))


def _forbid(keyword: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, keyword: False} if keyword in schema else schema


def _without_formats(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    if question.formats:
        yield dataclasses.replace(question, formats=False)


Reading = Callable[[SchemaQuestion], Iterator[SchemaQuestion]]

_SINGLE: Mapping[str, Reading] = {
    "numbers are doubles": _as_doubles,
    "whole floats are integers in draft 4": _whole_floats_are_integers,
    "multipleOf either way": _multiples_either_way,
    "siblings of $ref count": _siblings_of_references_count,
    "nullable adds null": _nullable,
    "formats are ignored": _without_formats,
    "unevaluated either way": _unevaluated_either_way,
}


def _two_at_once(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    for first, second in itertools.permutations(_SINGLE.values(), 2):
        for half in first(question):
            yield from second(half)


READINGS: Mapping[str, Reading] = {**_SINGLE, "two of these": _two_at_once}
RESTATEMENTS: Mapping[str, Callable[[Any], Iterator[Question]]] = {
    "other names of fields": _other_names,
    "plain references": _plain_references,
    "enums of distinct values": _enums_of_distinct_values,
    "characters of one code unit": _within_one_unit,
}
