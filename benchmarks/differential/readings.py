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
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from benchmarks.differential.questions import PatternQuestion, Question, SchemaQuestion
from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_2019_09, DRAFT_2020_12
from pytest_jsbench.schemas.keywords import DATA, rebuild

#: a surrogate pair, or half of one, as escapes
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
#: names that every object of JavaScript inherits, and the one that JavaScript takes for false
_SPECIAL = ("toString", "constructor", "__proto__", "hasOwnProperty", "valueOf", "length", "")


def _changed(question: SchemaQuestion, schema: Any, instance: Any) -> SchemaQuestion:
    return dataclasses.replace(question, schema=schema, texts=(json.dumps(instance),))


def _instance(question: SchemaQuestion) -> Any:
    return json.loads(question.texts[0])


def _rebuilt(question: SchemaQuestion, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[SchemaQuestion]:
    """The question with each of its schemas changed, if that makes it another."""
    schema = rebuild(question.schema, change)
    if schema != question.schema:
        yield _changed(question, schema, _instance(question))


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
    """Any answer at all where a `multipleOf` is asked, for each factor its own."""
    factors: set[float] = set()

    def note(schema: dict[str, Any]) -> dict[str, Any]:
        factors.update([schema["multipleOf"]] if _has_factor(schema) else ())
        return schema

    rebuild(question.schema, note)
    each_its_own = itertools.product((None, *_EITHER), repeat=min(len(factors), _MOST_FACTORS))
    for chosen in (*([one] * len(factors) for one in _EITHER), *each_its_own):
        answers = dict(zip(sorted(factors), chosen, strict=False))
        yield from _rebuilt(question, functools.partial(_with_multiples, answers))


#: a schema that takes everything, and one that takes no number
_EITHER: tuple[dict[str, Any], ...] = ({}, {"not": {"type": "number"}})
_MOST_FACTORS = 3


def _has_factor(schema: dict[str, Any]) -> bool:
    return isinstance(schema.get("multipleOf"), int | float)


def _with_multiples(answers: Mapping[float, dict[str, Any] | None], schema: dict[str, Any]) -> dict[str, Any]:
    answer = answers.get(schema["multipleOf"]) if _has_factor(schema) else None
    return schema if answer is None else _apart(schema, ("multipleOf",), answer)


def _apart(schema: dict[str, Any], keywords: Collection[str], other: dict[str, Any]) -> dict[str, Any]:
    """The schema with another one beside it, in place of some of its keywords."""
    kept = {name: held for name, held in schema.items() if name not in keywords}
    return {**kept, "allOf": [*kept.get("allOf", []), other]}


def _siblings_of_references_count(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    if question.dialect not in {DRAFT_2019_09, DRAFT_2020_12}:
        yield _changed(question, rebuild(question.schema, _reference_apart), _instance(question))


def _reference_apart(schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema.get("$ref"), str) or len(schema) == 1:
        return schema
    return _apart(schema, ("$ref",), {"$ref": schema["$ref"]})


def _nullable(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    yield _changed(question, rebuild(question.schema, _with_null), _instance(question))


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    declared = schema.get("type")
    if schema.get("nullable") is not True or declared is None:
        return schema
    types = declared if isinstance(declared, list) else [declared]
    return {**schema, "type": [*dict.fromkeys((*types, "null"))]}


def _other_names(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """The same pair with other names for fields; the empty one may be an empty string as well."""
    before = json.dumps([question.schema, _instance(question)])
    for names in (_SPECIAL[:-1], _SPECIAL):
        text = before
        for name in names:
            text = text.replace(f'"{name}"', f'"{name[::-1] or "empty"}"')
        if text != before:
            yield _changed(question, *json.loads(text))


def _plain_references(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """`$ref` for what leads nowhere else at run time: to a place by its pointer, or to a root that is not marked."""
    if isinstance(question.schema, dict) and "$recursiveAnchor" not in json.dumps(question.schema):
        for plain in _rebuilt(question, _plain_reference):
            yield plain
            yield from _other_names(plain)


def _plain_reference(schema: dict[str, Any]) -> dict[str, Any]:
    dynamic = [name for name in ("$dynamicRef", "$recursiveRef") if _is_static(schema.get(name))]
    kept = {name: held for name, held in schema.items() if name not in dynamic}
    references = [{"$ref": schema[name]} for name in dynamic]
    return {**kept, "allOf": [*kept.get("allOf", []), *references]} if references else schema


def _dynamic_references_apart(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """Nothing beside a reference whose target is known at run time only."""
    return _rebuilt(question, _dynamic_reference_apart)


def _dynamic_reference_apart(schema: dict[str, Any]) -> dict[str, Any]:
    names = [name for name in ("$dynamicRef", "$recursiveRef") if isinstance(schema.get(name), str)]
    for name in names if len(schema) > 1 else ():
        schema = _apart(schema, (name,), {name: schema[name]})
    return schema


def _other_names_than_ref_in_data(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    schema = rebuild(
        question.schema, lambda one: {**one, **{name: _without_ref(one[name]) for name in DATA & one.keys()}}
    )
    if schema != question.schema:
        yield _changed(question, schema, _without_ref(_instance(question)))


def _without_ref(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_ref(held) for held in value]
    if isinstance(value, dict):
        return {"fer" if name == "$ref" else name: _without_ref(held) for name, held in value.items()}
    return value


def _no_dependencies(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """`dependencies` by the two keywords that it became."""
    if question.dialect in {DRAFT_2019_09, DRAFT_2020_12}:
        yield from _rebuilt(question, _split_dependencies)


def _split_dependencies(schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema.get("dependencies"), dict):
        return schema
    lists = {name: held for name, held in schema["dependencies"].items() if isinstance(held, list)}
    schemas = {name: held for name, held in schema["dependencies"].items() if name not in lists}
    return _apart(schema, ("dependencies",), {"dependentRequired": lists, "dependentSchemas": schemas})


def _unused_identifiers(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """No identifiers in a document that refers to nothing."""
    if question.dialect is DRAFT_4 and '"$ref"' not in json.dumps(question.schema):
        yield from _rebuilt(question, _anonymous)


def _anonymous(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: held for name, held in schema.items() if name != "id" or not isinstance(held, str)}


def _is_static(reference: Any) -> bool:
    return isinstance(reference, str) and (reference == "#" or reference.startswith("#/"))


def _within_one_unit(question: PatternQuestion) -> Iterator[PatternQuestion]:
    """Letters of the basic plane, in the same order, for what takes two code units of UTF-16, or is half of that."""
    pattern = _PAIR.sub(lambda found: json.loads(f'"{found[0]}"'), question.pattern)
    beyond = sorted({one for one in pattern + question.texts[0] if ord(one) > 0xFFFF or "\ud800" <= one <= "\udfff"})
    table = {ord(one): chr(0x4E00 + number) for number, one in enumerate(beyond)}
    yield dataclasses.replace(question, pattern=pattern.translate(table), texts=(question.texts[0].translate(table),))


def _enums_of_distinct_values(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    """Each value of an `enum` once, also where only their doubles are the same, and none of no values at all."""
    # draft 4 says MUST where its successors say SHOULD
    exact, doubles = (lambda value: value), functools.partial(_as_double, infinity="Infinity")
    once = rebuild(question.schema, functools.partial(_enum_once, exact))
    if question.dialect is not DRAFT_4 or once == question.schema:
        yield from _rebuilt(question, functools.partial(_enum_once, doubles))


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
    """Each `unevaluated…` left out, all of them left out, nothing left for them, or everything."""
    text = json.dumps(question.schema)
    for keyword in ("unevaluatedItems", "unevaluatedProperties"):
        parts = text.split(f'"{keyword}":')
        for number in range(1, len(parts)):
            marked = f'"{keyword}":'.join(parts[:number]) + '"unknown":' + f'"{keyword}":'.join(parts[number:])
            yield _changed(question, json.loads(marked), _instance(question))
        if len(parts) > 1:
            yield _changed(question, json.loads('"unknown":'.join(parts)), _instance(question))
            for change in (_forbid, _ask_of_all):
                yield _changed(
                    question, rebuild(question.schema, functools.partial(change, keyword)), _instance(question)
                )


def _forbid(keyword: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, keyword: False} if keyword in schema else schema


_COUNTED = ("contains", "minContains", "maxContains")


def _contains_evaluates_nothing(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    # what a `not` has seen is not evaluated
    return _with_contains(question, lambda held: {"not": {"not": held}})


def _contains_holds_of_nothing(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    return _with_contains(question, lambda held: {"anyOf": [{"maxItems": 0}, held]})


def _with_contains(question: SchemaQuestion, change: Callable[[Any], dict[str, Any]]) -> Iterator[SchemaQuestion]:
    def changed(schema: dict[str, Any]) -> dict[str, Any]:
        counted = {name: schema[name] for name in _COUNTED if name in schema}
        return _apart(schema, _COUNTED, change(counted)) if "contains" in counted else schema

    return _rebuilt(question, changed)


def _without_formats(question: SchemaQuestion) -> Iterator[SchemaQuestion]:
    if question.formats:
        yield dataclasses.replace(question, formats=False)


def _ask_of_all(keyword: str, schema: dict[str, Any]) -> dict[str, Any]:
    applied = {"unevaluatedItems": "items", "unevaluatedProperties": "additionalProperties"}[keyword]
    return _apart(schema, (keyword,), {applied: schema[keyword]}) if keyword in schema else schema


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
    "contains holds of an empty array": _contains_holds_of_nothing,
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
