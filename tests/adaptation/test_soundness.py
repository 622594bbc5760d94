from __future__ import annotations

import copy
import json
from collections import Counter
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import (
    Draft4Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
    meta,
    validator_for,
)

from pytest_jsbench.adaptation import Adapted, Inexpressible, Mode
from pytest_jsbench.adaptation.bounding import bound_schema
from pytest_jsbench.adaptation.narrowing import adapt
from pytest_jsbench.adaptation.subsets import SUBSETS, Subset
from pytest_jsbench.schemas.keywords import NAMED
from tests.support.fuzzing import at_least, each, examples
from tests.support.public_data import labelled, needs_labels, needs_suite, suite
from tests.support.random_schemas import nodes, schemas, values

#: A subset of each provider; None for the bounds of a small model.
TAKERS: tuple[Subset | None, ...] = (*SUBSETS.values(), None)


def keywords(schema: Any) -> set[str]:
    """Return all keywords of an adapted schema, without those in data and names."""
    if isinstance(schema, list):
        return set().union(*map(keywords, schema))
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for keyword, value in schema.items():
        if keyword in NAMED:
            found |= set().union(*map(keywords, value.values()))
        elif keyword in ("items", "prefixItems", "anyOf", "additionalProperties"):
            found |= keywords(value)
    return found


def narrowed(schema: Any, subset: Subset | None) -> Any:
    """Return the schema for a provider or a small model; None if it cannot be adapted."""
    if subset is None:
        return bound_schema(schema)
    adapted = check_form(schema, subset, "narrow")
    return None if adapted is None else adapted.schema


def check_form(schema: Any, subset: Subset, mode: Mode) -> Adapted | None:
    """Check what is true for every adaptation of any schema."""
    before = copy.deepcopy(schema)
    adapted = adapt(schema, subset, mode)
    assert schema == before, "the original has changed"
    if isinstance(adapted, Inexpressible):
        return None
    assert keywords(adapted.schema) <= subset.keywords
    assert mode == "relax" or not adapted.lossy
    assert adapted.changes or adapted.schema == schema
    again = adapt(adapted.schema, subset, mode)
    assert isinstance(again, Adapted), (adapted.schema, again)
    assert again.schema == adapted.schema
    assert {change.kind for change in again.changes} <= {"dropped_annotation"}
    return adapted


_VALUES = values(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from([1.0, 0.5, "", "a", "ab", "x\ny", "2020-01-01", "x" * 41, "x" * 50])
)
_LEAVES: list[Any] = [
    True, False, {}, {"type": "string"}, {"type": "array"}, {"type": "object"}, {"type": ["string", "array"]},
    {"required": ["a"]},
]  # fmt: skip
_ADAPTED: list[Any] = [
    {"type": "string", "minLength": 1}, {"maxLength": 1}, {"required": ["b"]}, {"const": "a"},
    {"enum": ["a", 1, None, {"a": 1}]}, {"minItems": 2}, {"type": "array", "maxItems": 2}, {"type": "integer"},
    {"type": "number", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 0, "maximum": 2}, {"multipleOf": 1},
    {"type": "string", "pattern": "^a"}, {"format": "date"}, {"type": "null"}, {"uniqueItems": True},
    {"minProperties": 1}, {"maxProperties": 1}, {"dependentRequired": {"a": ["b"]}}, {"dependencies": {"b": ["c"]}},
]  # fmt: skip
_BOUNDED: list[Any] = [
    {"type": "string", "minLength": 41}, {"maxLength": 45}, {"const": "x" * 50}, {"minItems": 3},
    {"type": "array", "maxItems": 3}, {"type": "string", "maxLength": 50},
]  # fmt: skip


def whole(leaves: list[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for schemas of these leaves, with definitions that they refer to."""
    definitions = st.fixed_dictionaries({"d": schemas(leaves, "#/$defs/e"), "e": schemas(leaves)})
    root = nodes(schemas(leaves, "#/$defs/d", "#/$defs/e"))
    kind = st.sampled_from([{}, {"type": "object"}])
    return st.builds(lambda root, kind, defs: {**root, **kind, "$defs": defs}, root, kind, definitions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drawn", "takers"),
    [(whole([*_LEAVES, *_ADAPTED]), TAKERS[:-1]), (whole([*_LEAVES, *_BOUNDED]), TAKERS[-1:])],
    ids=["adapted", "bounded"],
)
@examples(500)
@given(data=st.data(), answers=st.lists(_VALUES, min_size=3, max_size=8))
def test_instances_of_the_narrowed_schema_are_valid_for_the_original(
    drawn: st.SearchStrategy[Any], takers: tuple[Subset | None, ...], data: st.DataObject, answers: list[Any]
) -> None:
    schema = data.draw(drawn)
    original = Draft202012Validator(schema, validate_formats=True)
    for taker in takers:
        sent = narrowed(schema, taker)
        if taker is not None:
            check_form(schema, taker, "relax")
        if sent is None:
            continue
        checked = Draft202012Validator(sent, validate_formats=True)
        for value in answers:
            assert original.is_valid(value) or not checked.is_valid(value), (taker, sent, value)


@pytest.mark.slow
@needs_suite
@pytest.mark.parametrize(
    ("folder", "uri", "dialect"),
    [
        ("draft4", "http://json-schema.org/draft-04/schema#", Draft4Validator),
        ("draft7", "http://json-schema.org/draft-07/schema#", Draft7Validator),
        ("draft2019-09", "https://json-schema.org/draft/2019-09/schema", Draft201909Validator),
        ("draft2020-12", "https://json-schema.org/draft/2020-12/schema", Draft202012Validator),
    ],
)
def test_it_is_sound_on_the_official_suite(folder: str, uri: str, dialect: Any) -> None:
    checked = 0
    for file, case in suite(folder):
        text = json.dumps(case["schema"])
        if "localhost" in text or file.startswith("optional/"):
            continue
        schema = {"$schema": uri, **case["schema"]} if isinstance(case["schema"], dict) else case["schema"]
        for taker in TAKERS:
            sent = narrowed(schema, taker)
            if taker is not None:
                check_form(schema, taker, "relax")
            if sent is None:
                continue
            validators = [dialect(sent)] if taker is None else [dialect(sent), Draft202012Validator(sent)]
            for test in case["tests"]:
                checked += 1
                valid = any(validator.is_valid(test["data"]) for validator in validators)
                assert test["valid"] or not valid, (file, test["description"], taker, sent)
    assert checked > 1000


@pytest.fixture(scope="module")
def answers() -> list[tuple[str, Any, Any]]:
    """Return name, schema and value of each labelled answer; many of them share one schema."""
    return [(name, schema, json.loads(text)) for name, schema, text, _ in labelled()]


@pytest.mark.slow
@needs_labels
@pytest.mark.parametrize("taker", TAKERS, ids=[*SUBSETS, "bounded"])
def test_it_is_sound_on_real_schemas(answers: list[tuple[str, Any, Any]], taker: Subset | None) -> None:
    conforming: Counter[bool] = Counter()
    validators: dict[int, tuple[Any, Any]] = {}
    for name, schema, value in answers[:: each(4 if taker is None else 10)]:
        if id(schema) not in validators:
            validators[id(schema)] = _validators(schema, taker)
        original, checked = validators[id(schema)]
        if original is None:
            continue
        conforms = checked.is_valid(value)
        conforming[conforms] += 1
        assert not conforms or original.is_valid(value), name
    assert min(conforming[True], conforming[False]) > at_least(1000 if taker is None else 100)


@pytest.mark.slow
@needs_labels
def test_relaxed_real_schema_is_in_the_providers_subset(answers: list[tuple[str, Any, Any]]) -> None:
    for (_, schema, _), subset in zip(answers[:: each(10)], cycle(SUBSETS.values()), strict=False):
        check_form(schema, subset, "relax")


def _validators(schema: Any, taker: Subset | None) -> tuple[Any, Any]:
    try:
        original = validator_for(schema) if meta.is_valid(schema) else None
    except ValueError:  # a dialect, a pattern or a reference that is not supported here
        original = None
    sent = narrowed(schema, taker)
    return (None, None) if original is None or sent is None else (original, type(original)(sent))
