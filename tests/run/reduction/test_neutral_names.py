from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.run.reduction.candidate import Candidate, LabelledAnswer
from pytest_jsbench.run.reduction.neutral_names import left_names, neutral_forms, neutral_pattern
from pytest_jsbench.verdicts import Judge

PRIVATE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://acme.example/order",
    "title": "Acme order",
    "type": "object",
    "properties": {
        "acmeId": {"type": "string", "pattern": "^ACME-[0-9]{4}$", "description": "Id at Acme"},
        "level": {"enum": ["gold", "silver", 4711, None]},
        "line": {"$ref": "#/$defs/AcmeLine"},
        "deep": {"$ref": "#/$defs/AcmeLine/properties/sku"},
    },
    "required": ["acmeId", "level"],
    "dependentRequired": {"line": ["level"]},
    "dependencies": {"line": {"properties": {"level": {"const": "gold"}}}, "deep": ["line"]},
    "patternProperties": {"^acme_": {"type": "string", "format": "date"}},
    "x-acme-owner": "Jane Doe",
    "$defs": {
        "AcmeLine": {"type": "object", "properties": {"sku": {"type": "string", "const": "gold"}}, "required": ["sku"]}
    },
}
WORDS = re.compile(r"acme|gold|silver|4711|line|level|sku|deep|jane|owner", re.IGNORECASE)


@pytest.mark.parametrize("number", [0, 1])
def test_nothing_of_the_original_is_left(number: int) -> None:
    form = list(neutral_forms(Candidate(schema=PRIVATE)))[number]

    assert WORDS.findall(json.dumps(form.schema)) == []
    with Judge() as judge:
        assert judge.inspect(form.schema) is None


def test_structure_and_equal_names_are_kept() -> None:
    short, shaped = (form.schema for form in neutral_forms(Candidate(schema=PRIVATE)))

    assert isinstance(short, dict)
    assert isinstance(shaped, dict)
    names = list(short["properties"])
    assert short["required"] == names[:2]
    assert short["dependentRequired"] == {names[2]: [names[1]]}
    assert short["dependencies"][names[2]]["properties"][names[1]]["const"] == short["properties"][names[1]]["enum"][0]
    assert short["dependencies"][names[3]] == [names[2]]
    assert short["$schema"] == PRIVATE["$schema"]
    assert short["properties"][names[0]]["pattern"] == "^AAAA-[0-9]{4}$"
    assert short["properties"][names[2]] == {"$ref": f"#/$defs/{next(iter(short['$defs']))}"}
    definition = next(iter(short["$defs"].values()))
    assert definition["properties"][definition["required"][0]]["const"] == short["properties"][names[1]]["enum"][0]
    assert [len(name) for name in shaped["properties"]] == [len(name) for name in ("acmeId", "level", "line", "deep")]
    assert next(iter(shaped["properties"]))[4:5].isupper()


def test_labelled_answer_has_the_names_of_its_schema() -> None:
    schema = {"properties": {"city": {"enum": ["Paris", 75]}, "day": {"format": "date"}}}
    candidate = Candidate(schema=schema, answer=LabelledAnswer(value={"city": "Paris", "day": "1999-05-06", "n": 75}))

    form = next(iter(neutral_forms(candidate)))

    assert form.answer is not None
    assert isinstance(form.schema, dict)
    city, day = form.schema["properties"]
    text, number = form.schema["properties"][city]["enum"]
    assert form.answer.value[city] == text
    assert form.answer.value[day] == "2000-01-01"
    assert number in form.answer.value.values()


def test_numbers_keep_their_type_and_single_digits() -> None:
    schema = {"enum": [0, 4711, 12.5]}

    short, shaped = neutral_forms(Candidate(schema=schema, answer=LabelledAnswer(value=[0.0, 4711])))

    assert json.dumps(short.schema) == '{"enum": [0, 10, 11.0]}'
    assert json.dumps(shaped.schema) == '{"enum": [0, 1000, 11.0]}'
    assert short.answer is not None
    assert json.dumps(short.answer.value) == "[0.0, 10]"


@pytest.mark.parametrize(
    ("pattern", "neutral"),
    [
        ("^INV-\\d{6}$", "^AAA-\\d{6}$"),
        ("[a-z]+@corp\\.com", "[a-z]+@aaaa\\.aaa"),
        ("(?:abc|xyz)7", "(?:aaa|aaa)0"),
        ("\\p{Lu}[0-9a-fA-F]", "\\p{Lu}[0-9a-fA-F]"),
    ],
)
def test_pattern_keeps_its_structure(pattern: str, neutral: str) -> None:
    assert neutral_pattern(pattern) == neutral


TEXTS = st.text(min_size=1, max_size=8)
VALUES = st.recursive(
    TEXTS | st.integers(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)


@given(
    st.dictionaries(TEXTS, st.fixed_dictionaries({"enum": st.lists(VALUES, min_size=1, max_size=3)}), max_size=4),
    VALUES,
)
def test_forms_share_no_name_with_any_schema(properties: dict[str, Any], other: Any) -> None:
    schema = {"properties": properties, "required": list(properties), "default": other}
    candidate = Candidate(schema=schema, answer=LabelledAnswer(value=other))

    for form in neutral_forms(candidate):
        assert left_names(candidate, form) == frozenset()
        assert isinstance(form.schema, dict)
        assert len(form.schema["properties"]) == len(properties)
        assert form.schema["required"] == list(form.schema["properties"])


def test_neutral_pattern_is_no_name_that_is_left() -> None:
    candidate = Candidate(schema={"pattern": "^a{3}$"})

    assert [form.schema for form in neutral_forms(candidate)] == [{"pattern": "^a{3}$"}] * 2
