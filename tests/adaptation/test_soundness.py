from __future__ import annotations

import copy
import json
from collections import Counter
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
from pytest_jsbench.adaptation.narrowing import adapt
from pytest_jsbench.adaptation.subsets import SUBSETS, Subset
from pytest_jsbench.schemas.keywords import NAMED
from tests.adaptation.shapes import nodes, schemas, values
from tests.fuzzing import at_least, each, examples
from tests.verdicts.data import labelled, needs_labels, needs_suite, suite

MODES: tuple[Mode, ...] = ("narrow", "relax")


def keywords(schema: Any) -> set[str]:
    """All keywords of an adapted schema, data and names left aside."""
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


def check_form(schema: Any, subset: Subset, mode: Mode) -> Adapted | None:
    """What holds for every adaptation, whatever the schema."""
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
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([1.0, 0.5, "", "a", "ab", "x\ny", "2020-01-01"])
)
_LEAVES: list[Any] = [
    True, False, {}, {"type": "string"}, {"type": "string", "minLength": 1}, {"type": "array"}, {"type": "object"},
    {"type": ["string", "array"]}, {"maxLength": 1}, {"required": ["a"]}, {"required": ["b"]}, {"const": "a"},
    {"enum": ["a", 1, None, {"a": 1}]}, {"minItems": 2}, {"type": "array", "maxItems": 2}, {"type": "integer"},
    {"type": "number", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 0, "maximum": 2}, {"multipleOf": 1},
    {"type": "string", "pattern": "^a"}, {"format": "date"}, {"type": "null"}, {"uniqueItems": True},
    {"minProperties": 1}, {"maxProperties": 1}, {"dependentRequired": {"a": ["b"]}}, {"dependencies": {"b": ["c"]}},
]  # fmt: skip


@examples(500)
@given(
    root=nodes(schemas(_LEAVES, "#/$defs/d", "#/$defs/e")),
    d=schemas(_LEAVES, "#/$defs/e"),
    e=schemas(_LEAVES),
    answers=st.lists(_VALUES, min_size=3, max_size=8),
    kind=st.sampled_from([None, "object"]),
)
def test_whatever_conforms_to_the_narrowed_schema_conforms_to_the_original(
    root: dict[str, Any], d: Any, e: Any, answers: list[Any], kind: str | None
) -> None:
    schema = {**root, **({"type": kind} if kind else {}), "$defs": {"d": d, "e": e}}
    original = Draft202012Validator(schema, validate_formats=True)
    for subset in SUBSETS.values():
        check_form(schema, subset, "relax")
        adapted = check_form(schema, subset, "narrow")
        if adapted is None:
            continue
        assert isinstance(adapted.schema, dict)
        checked = Draft202012Validator(adapted.schema, validate_formats=True)
        for value in answers:
            assert original.is_valid(value) or not checked.is_valid(value), (subset.name, adapted.schema, value)


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
        for subset in SUBSETS.values():
            check_form(schema, subset, "relax")
            adapted = check_form(schema, subset, "narrow")
            if adapted is None:
                continue
            sent: Any = adapted.schema
            narrowed = [dialect(sent), Draft202012Validator(sent)]
            for test in case["tests"]:
                checked += 1
                if not test["valid"]:
                    found = [one.is_valid(test["data"]) for one in narrowed]
                    assert not any(found), (file, test["description"], subset.name, adapted.schema)
    assert checked > 500


@needs_labels
@pytest.mark.parametrize("subset", SUBSETS.values(), ids=SUBSETS.keys())
def test_it_is_sound_on_real_schemas(subset: Subset) -> None:
    found: Counter[str] = Counter()
    adaptations: dict[int, tuple[Any, Any]] = {}
    for name, schema, text, _ in labelled(every=each(10)):
        if id(schema) not in adaptations:
            adaptations[id(schema)] = _validators(schema, subset)
        original, narrowed = adaptations[id(schema)]
        if original is None:
            continue
        value = json.loads(text)
        conforms = narrowed.is_valid(value)
        found["conform" if conforms else "do not"] += 1
        assert not conforms or original.is_valid(value), name
    assert found["conform"] > at_least(100)
    assert found["do not"] > at_least(100)


def _validators(schema: Any, subset: Subset) -> tuple[Any, Any]:
    adapted = check_form(schema, subset, "narrow")
    if adapted is None:
        return None, None
    try:
        if not meta.is_valid(schema):
            return None, None
        original = validator_for(schema)
    except ValueError:  # a dialect, a pattern or a reference that is not read here
        return None, None
    assert isinstance(adapted.schema, dict)
    return original, type(original)(adapted.schema)
