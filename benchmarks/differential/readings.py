"""
Alternative readings of a pair, and equivalent ways to write it.

A reading changes the meaning of a pair to a validator's interpretation: if the judge then agrees with the validator,
the reading explains the whole difference. A restatement changes how a pair is written, but not its meaning: if the
validator then agrees with the judge, the notation explains the whole difference.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from benchmarks.differential.questions import PatternQuestion, Question, SchemaQuestion
from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_2019_09, DRAFT_2020_12
from pytest_jsbench.schemas.keywords import DATA, rebuild

#:  A surrogate pair, or half of one, as escapes.
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
#:  Names that every JavaScript object inherits, and the empty name, which is falsy in JavaScript.
_SPECIAL = ("toString", "constructor", "__proto__", "hasOwnProperty", "valueOf", "length", "")


def _replace_pair(question: SchemaQuestion, schema: Any, instance: Any) -> SchemaQuestion:
    return dataclasses.replace(question, schema=schema, texts=(json.dumps(instance),))


def _instance(question: SchemaQuestion) -> Any:
    return json.loads(question.texts[0])


def _rebuild_if_changed(
    question: SchemaQuestion, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> Iterator[SchemaQuestion]:
    """Yield the question with each of its subschemas changed, if the schema differs then."""
    schema = rebuild(question.schema, change)
    if schema != question.schema:
        yield _replace_pair(question, schema, _instance(question))


def _map_scalars(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of a JSON value with `change` applied to each scalar."""
    if isinstance(value, dict):
        return {name: _map_scalars(inner, change) for name, inner in value.items()}
    if isinstance(value, list):
        return [_map_scalars(inner, change) for inner in value]
    return change(value)


def _as_double(value: Any, *, infinity: Any = None) -> Any:
    """Convert a number to the nearest double, and whole doubles to integers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        double = float(value)
    except OverflowError:
        return infinity
    return int(double) if double.is_integer() else double


def _as_doubles(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    before = question.schema, _instance(question)
    #  JSON.parse turns too large numbers into infinity, which some validators accept as a number and others do not
    for infinity in ("Infinity", 0.5, int(sys.float_info.max)):
        schema, instance = (_map_scalars(one, functools.partial(_as_double, infinity=infinity)) for one in before)
        #  skip questions whose numbers are all exact doubles
        if (schema, instance) != before:
            yield _replace_pair(question, schema, instance)


def _whole_floats_are_integers(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    if question.dialect is DRAFT_4:
        yield _replace_pair(
            question, _map_scalars(question.schema, _as_double), _map_scalars(_instance(question), _as_double)
        )


def _multiples_either_way(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """Yield the question with each result of each `multipleOf`, independently for each factor."""
    factors: set[float] = set()

    def note(schema: dict[str, Any]) -> dict[str, Any]:
        factors.update([schema["multipleOf"]] if _has_factor(schema) else ())
        return schema

    rebuild(question.schema, note)
    each_its_own = itertools.product((None, *_OUTCOMES), repeat=min(len(factors), _MAX_FACTORS))
    for chosen in (*([one] * len(factors) for one in _OUTCOMES), *each_its_own):
        answers = dict(zip(sorted(factors), chosen, strict=False))
        yield from _rebuild_if_changed(question, functools.partial(_with_multiples, answers))


#:  A schema that accepts everything, and one that accepts no number.
_OUTCOMES: tuple[dict[str, Any], ...] = ({}, {"not": {"type": "number"}})
_MAX_FACTORS = 3


def _has_factor(schema: dict[str, Any]) -> bool:
    return isinstance(schema.get("multipleOf"), int | float)


def _with_multiples(answers: Mapping[float, dict[str, Any] | None], schema: dict[str, Any]) -> dict[str, Any]:
    answer = answers.get(schema["multipleOf"]) if _has_factor(schema) else None
    return schema if answer is None else _move_to_all_of(schema, ("multipleOf",), answer)


def _move_to_all_of(schema: dict[str, Any], keywords: Collection[str], other: dict[str, Any]) -> dict[str, Any]:
    """Move some keywords of the schema to another subschema in `allOf`."""
    kept = {name: inner for name, inner in schema.items() if name not in keywords}
    return {**kept, "allOf": [*kept.get("allOf", []), other]}


def _siblings_of_references_count(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    if question.dialect not in {DRAFT_2019_09, DRAFT_2020_12}:
        yield _replace_pair(question, rebuild(question.schema, _reference_apart), _instance(question))


def _reference_apart(schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema.get("$ref"), str) or len(schema) == 1:
        return schema
    return _move_to_all_of(schema, ("$ref",), {"$ref": schema["$ref"]})


def _nullable(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    yield _replace_pair(question, rebuild(question.schema, _with_null), _instance(question))


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    declared = schema.get("type")
    if schema.get("nullable") is not True or declared is None:
        return schema
    types = declared if isinstance(declared, list) else [declared]
    return {**schema, "type": [*dict.fromkeys((*types, "null"))]}


def _other_names(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """Yield the pair with special field names replaced, with and without the empty one, which may also be a value."""
    before = json.dumps([question.schema, _instance(question)])
    for names in (_SPECIAL[:-1], _SPECIAL):
        text = before
        for name in names:
            text = text.replace(f'"{name}"', f'"{name[::-1] or "empty"}"')
        if text != before:
            yield _replace_pair(question, *json.loads(text))


def _plain_references(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """
    Yield the question with `$ref` for static references: by a JSON Pointer, or to a root without
    `$recursiveAnchor`.
    """
    if isinstance(question.schema, dict) and "$recursiveAnchor" not in json.dumps(question.schema):
        for plain in _rebuild_if_changed(question, _plain_reference):
            yield plain
            yield from _other_names(plain)


def _plain_reference(schema: dict[str, Any]) -> dict[str, Any]:
    dynamic = [name for name in ("$dynamicRef", "$recursiveRef") if _is_static(schema.get(name))]
    kept = {name: inner for name, inner in schema.items() if name not in dynamic}
    references = [{"$ref": schema[name]} for name in dynamic]
    return {**kept, "allOf": [*kept.get("allOf", []), *references]} if references else schema


def _dynamic_references_apart(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """Yield the question with siblings of dynamic references moved apart from them."""
    return _rebuild_if_changed(question, _dynamic_reference_apart)


def _dynamic_reference_apart(schema: dict[str, Any]) -> dict[str, Any]:
    names = [name for name in ("$dynamicRef", "$recursiveRef") if isinstance(schema.get(name), str)]
    for name in names if len(schema) > 1 else ():
        schema = _move_to_all_of(schema, (name,), {name: schema[name]})
    return schema


def _other_names_than_ref_in_data(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    schema = rebuild(
        question.schema, lambda one: {**one, **{name: _without_ref(one[name]) for name in DATA & one.keys()}}
    )
    if schema != question.schema:
        yield _replace_pair(question, schema, _without_ref(_instance(question)))


def _without_ref(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_ref(inner) for inner in value]
    if isinstance(value, dict):
        return {"fer" if name == "$ref" else name: _without_ref(inner) for name, inner in value.items()}
    return value


def _no_dependencies(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """Yield the question with `dependencies` split into the two keywords that replaced it."""
    if question.dialect in {DRAFT_2019_09, DRAFT_2020_12}:
        yield from _rebuild_if_changed(question, _split_dependencies)


def _split_dependencies(schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema.get("dependencies"), dict):
        return schema
    lists = {name: inner for name, inner in schema["dependencies"].items() if isinstance(inner, list)}
    schemas = {name: inner for name, inner in schema["dependencies"].items() if name not in lists}
    return _move_to_all_of(schema, ("dependencies",), {"dependentRequired": lists, "dependentSchemas": schemas})


def _unused_identifiers(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """Yield the question without identifiers, if the document has no references."""
    if question.dialect is DRAFT_4 and '"$ref"' not in json.dumps(question.schema):
        yield from _rebuild_if_changed(question, _anonymous)


def _anonymous(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: inner for name, inner in schema.items() if name != "id" or not isinstance(inner, str)}


def _is_static(reference: Any) -> bool:
    return isinstance(reference, str) and (reference == "#" or reference.startswith("#/"))


def _within_one_unit(question: PatternQuestion) -> Iterator[PatternQuestion]:
    """Replace characters that need two UTF-16 code units, and half pairs, by letters of the BMP in the same order."""
    pattern = _PAIR.sub(lambda found: json.loads(f'"{found[0]}"'), question.pattern)
    beyond = sorted({one for one in pattern + question.texts[0] if ord(one) > 0xFFFF or "\ud800" <= one <= "\udfff"})
    table = {ord(one): chr(0x4E00 + number) for number, one in enumerate(beyond)}
    yield dataclasses.replace(question, pattern=pattern.translate(table), texts=(question.texts[0].translate(table),))


def _enums_of_distinct_values(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """Yield the question with distinct values in each `enum`, by value or as doubles, and `not: {}` for empty ones."""
    #  draft 4 requires distinct values (MUST); later drafts recommend them (SHOULD)
    exact, doubles = (lambda value: value), functools.partial(_as_double, infinity="Infinity")
    once = rebuild(question.schema, functools.partial(_enum_once, exact))
    if question.dialect is not DRAFT_4 or once == question.schema:
        yield from _rebuild_if_changed(question, functools.partial(_enum_once, doubles))


def _enum_once(number: Callable[[Any], Any], schema: dict[str, Any]) -> dict[str, Any]:
    values = schema.get("enum")
    if not isinstance(values, list):
        return schema
    if not values:
        return {**{name: inner for name, inner in schema.items() if name != "enum"}, "not": {}}
    once: dict[str, Any] = {}
    for value in values:
        once.setdefault(json.dumps(_map_scalars(_map_scalars(value, _as_integer), number), sort_keys=True), value)
    return {**schema, "enum": list(once.values())}


def _as_integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _unevaluated_either_way(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """
    Yield the question without each `unevaluated…`, without all of them, and with all or no items or properties
    evaluated.
    """
    text = json.dumps(question.schema)
    for keyword in ("unevaluatedItems", "unevaluatedProperties"):
        parts = text.split(f'"{keyword}":')
        for number in range(1, len(parts)):
            marked = f'"{keyword}":'.join(parts[:number]) + '"unknown":' + f'"{keyword}":'.join(parts[number:])
            yield _replace_pair(question, json.loads(marked), _instance(question))
        if len(parts) > 1:
            yield _replace_pair(question, json.loads('"unknown":'.join(parts)), _instance(question))
            for change in (_forbid_unevaluated, _apply_to_all):
                yield _replace_pair(
                    question, rebuild(question.schema, functools.partial(change, keyword)), _instance(question)
                )


def _forbid_unevaluated(keyword: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, keyword: False} if keyword in schema else schema


_COUNTED = ("contains", "minContains", "maxContains")


def _contains_evaluates_nothing(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    #  items seen inside a `not` are not evaluated
    return _with_contains(question, lambda inner: {"not": {"not": inner}})


def _contains_accepts_empty_arrays(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    return _with_contains(question, lambda inner: {"anyOf": [{"maxItems": 0}, inner]})


def _with_contains(question: SchemaQuestion, change: Callable[[Any], dict[str, Any]]) -> Iterator[SchemaQuestion]:
    def changed(schema: dict[str, Any]) -> dict[str, Any]:
        counted = {name: schema[name] for name in _COUNTED if name in schema}
        return _move_to_all_of(schema, _COUNTED, change(counted)) if "contains" in counted else schema

    return _rebuild_if_changed(question, changed)


def _without_formats(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    if question.formats:
        yield dataclasses.replace(question, formats=False)


def _apply_to_all(keyword: str, schema: dict[str, Any]) -> dict[str, Any]:
    applied = {"unevaluatedItems": "items", "unevaluatedProperties": "additionalProperties"}[keyword]
    return _move_to_all_of(schema, (keyword,), {applied: schema[keyword]}) if keyword in schema else schema


Reading = Callable[[SchemaQuestion], Iterator[SchemaQuestion]]

_SINGLE: Mapping[str, Reading] = {
    "numbers are doubles": _as_doubles,
    "whole floats are integers in draft 4": _whole_floats_are_integers,
    "multipleOf either way": _multiples_either_way,
    "siblings of $ref count": _siblings_of_references_count,
    "nullable adds null": _nullable,
    "formats are ignored": _without_formats,
    "unevaluated either way": _unevaluated_either_way,
    "contains evaluates nothing": _contains_evaluates_nothing,
    "contains accepts empty arrays": _contains_accepts_empty_arrays,
}


def _two_at_once(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    for first, second in itertools.permutations(_SINGLE.values(), 2):
        for half in first(question):
            yield from second(half)


READINGS: Mapping[str, Reading] = {**_SINGLE, "two of these": _two_at_once}
RESTATEMENTS: Mapping[str, Callable[[Any], Iterator[Question]]] = {
    "other names of fields": _other_names,
    "plain references": _plain_references,
    "dynamic references apart": _dynamic_references_apart,
    "other names than $ref in data": _other_names_than_ref_in_data,
    "no dependencies": _no_dependencies,
    "no unused identifiers": _unused_identifiers,
    "enums of distinct values": _enums_of_distinct_values,
    "characters of one code unit": _within_one_unit,
}
