from __future__ import annotations

import json
import sys
from typing import Any
from unittest.mock import Mock

import pytest

from pytest_jsbench.verdicts import FailureType, Judge, SecondOpinion
from pytest_jsbench.verdicts.schema_text import ReadSchema, read_schema
from pytest_jsbench.verdicts.second_opinion import PythonValidator, SecondOpinionSeeker


def seeker(schema: Any, *, formats: bool = True) -> SecondOpinionSeeker:
    read = read_schema(json.dumps(schema), "https://json-schema.org/draft/2020-12/schema")
    assert isinstance(read, ReadSchema)
    return SecondOpinionSeeker(read, formats=formats)


@pytest.mark.parametrize("valid", [True, False])
def test_a_false_verdict_is_disputed(valid: bool) -> None:
    instance = 1 if valid else "x"
    opinion = seeker({"type": "string"}).opinion(instance, valid=valid)
    assert opinion is SecondOpinion.DISAGREES


#: A pattern that only one of the two engines supports, so that its grammar does not decide.
BEYOND = "(?<year>[0-9]+)"


def test_formats_are_checked_below_any_keyword() -> None:
    nested = {"anyOf": [{"format": "duration", "type": "string"}, {"type": "null"}]}
    for valid, text in ((True, "P1D"), (False, "one day")):
        assert seeker(nested).opinion(text, valid=valid) is SecondOpinion.AGREES
        assert seeker(nested).opinion(text, valid=not valid) is SecondOpinion.DISAGREES
    assert seeker({"format": "phone"}).opinion("one day", valid=True) is SecondOpinion.AGREES
    assert seeker({"format": "date"}).opinion(1, valid=True) is SecondOpinion.AGREES


def test_second_opinion_that_hangs_on_a_string_is_undecided() -> None:
    pattern = {"format": "regex"}
    for valid in (True, False):
        assert seeker(pattern).opinion(BEYOND, valid=valid) is SecondOpinion.UNDECIDED
        assert seeker({"not": pattern}).opinion(BEYOND, valid=valid) is SecondOpinion.UNDECIDED
        assert seeker({"items": pattern}).opinion(["a", BEYOND], valid=valid) is SecondOpinion.UNDECIDED


def test_an_opinion_that_does_not_hang_on_such_a_string_is_given() -> None:
    either = {"anyOf": [{"format": "regex"}, {"type": "string"}]}
    assert seeker(either).opinion(BEYOND, valid=True) is SecondOpinion.AGREES
    assert seeker(either).opinion(BEYOND, valid=False) is SecondOpinion.DISAGREES
    listed = {"items": {"format": "regex"}, "maxItems": 2}
    assert seeker(listed).opinion([BEYOND] * 3, valid=False) is SecondOpinion.AGREES
    assert seeker({"items": {"format": "regex"}}).opinion([BEYOND, "("], valid=False) is SecondOpinion.AGREES


def test_two_such_strings_that_may_outweigh_each_other_leave_it_undecided() -> None:
    one_of = {"oneOf": [{"properties": {name: {"format": "regex"}}} for name in ("a", "b")]}
    instance = {"a": BEYOND, "b": BEYOND + "$"}
    assert seeker(one_of).opinion(instance, valid=False) is SecondOpinion.UNDECIDED
    assert seeker({**one_of, "type": "array"}).opinion(instance, valid=False) is SecondOpinion.UNDECIDED


def test_a_pattern_that_would_take_long_to_compile_is_left_alone() -> None:
    assert seeker({"format": "regex"}).opinion("a" * 1000, valid=True) is SecondOpinion.AGREES
    assert seeker({"format": "regex"}).opinion("a" * 1001, valid=True) is SecondOpinion.UNDECIDED


def test_one_answer_leaves_nothing_behind_for_the_next() -> None:
    seeking = seeker({"items": {"format": "regex"}})
    assert seeking.opinion([BEYOND], valid=True) is SecondOpinion.UNDECIDED
    assert seeking.opinion(["a"], valid=True) is SecondOpinion.AGREES


def test_only_non_ascii_names_are_undecided_without_idna(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "idna", None)
    for text in ("b\u00fccher.example", "xn--bcher-kva.example"):
        assert seeker({"format": "idn-hostname"}).opinion(text, valid=True) is SecondOpinion.UNDECIDED
    assert seeker({"format": "idn-email"}).opinion("a@b\u00fccher.example", valid=True) is SecondOpinion.UNDECIDED
    assert seeker({"format": "idn-email"}).opinion("a@b\u00fccher.-example", valid=False) is SecondOpinion.AGREES
    assert seeker({"format": "idn-email"}).opinion("\u00e4@example.org", valid=True) is SecondOpinion.AGREES
    assert seeker({"format": "hostname"}).opinion("example.org", valid=True) is SecondOpinion.AGREES


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        # the exact value of the double next to 0.1
        ('{"const": 0.1000000000000000055511151231257827021181583404541015625}', False),
        ('{"minimum": 0.100000000000000005}', False),
        ('{"exclusiveMaximum": 0.1000000000000000000001}', True),
    ],
)
def test_numbers_are_compared_by_their_digits(text: str, valid: bool) -> None:
    read = read_schema(text, "https://json-schema.org/draft/2020-12/schema")
    assert isinstance(read, ReadSchema)
    assert SecondOpinionSeeker(read, formats=False).opinion(0.1, valid=valid) is SecondOpinion.AGREES


def test_exception_in_the_second_opinion_leaves_none() -> None:
    assert seeker({"$ref": "#"}).opinion(1, valid=True) is SecondOpinion.UNDECIDED


@pytest.mark.parametrize("dialect", ["2020-12", "2019-09"])
@pytest.mark.parametrize(
    ("keyword", "schema"),
    [
        ("pattern", {"additionalProperties": {"pattern": r"^\p{Lu}.$"}}),
        ("patternProperties", {"patternProperties": {r"^\d(?<y>.)$": False}}),
        (
            "additionalProperties",
            {"patternProperties": {r"^(\w)\1": {}, r"^(b)\1.": {}}, "additionalProperties": False},
        ),
    ],
)
def test_patterns_are_read_as_ecma_262_reads_them_by_every_keyword(keyword: str, schema: Any, dialect: str) -> None:
    named = {"$schema": f"https://json-schema.org/draft/{dialect}/schema", **schema}
    instance, other = {
        "pattern": ({"a": "Éa"}, {"a": "É\u2028"}),
        "patternProperties": ({"٣a": 1}, {"3a": 1}),
        "additionalProperties": ({"aa": 1, "bb": 1}, {"éé": 1}),
    }[keyword]
    seeking = seeker(named)
    assert seeking.opinion(instance, valid=True) is SecondOpinion.AGREES
    assert seeking.opinion(other, valid=False) is SecondOpinion.AGREES
    assert seeking.opinion(other, valid=True) is SecondOpinion.DISAGREES


def test_a_dispute_is_listed_and_decides_nothing(judge: Judge) -> None:
    # no specification defines which of two schemas with one name is meant
    named = {name: {"$id": "https://example.org/a", "type": name} for name in ("integer", "string")}
    verdict = judge.judge({"$ref": "https://example.org/a", "$defs": named}, "1")
    assert verdict.disputed
    assert verdict.failure_type is FailureType.SCHEMA_VIOLATION


def test_second_opinion_is_used_only_for_json_with_both_validators(
    judge: Judge, rs_judge: Judge, jsonschema_judge: Judge
) -> None:
    verdicts = [jsonschema_judge.judge(True, "1"), rs_judge.judge(True, "1"), judge.judge(True, "so")]
    assert {verdict.second_opinion for verdict in verdicts} == {SecondOpinion.NOT_ASKED}


def test_jsonschema_alone_keeps_its_own_arithmetic_and_formats(jsonschema_judge: Judge) -> None:
    assert jsonschema_judge.judge({"multipleOf": 0.01}, "4.35").keyword == "multipleOf"
    assert jsonschema_judge.judge({"format": "ipv4"}, '"10.0.0.256"').keyword == "format"
    unjudged = jsonschema_judge.judge({"multipleOf": 0.01}, "1" + "0" * 400)
    assert (unjudged.failure_type, unjudged.reason) == (FailureType.UNJUDGED, "crashed")
    assert unjudged.message.startswith("OverflowError")


def test_panic_below_jsonschema_leaves_no_second_opinion() -> None:
    class PanicException(BaseException):
        pass

    seeking = seeker({"type": "integer"})
    seeking.validator = Mock(spec=PythonValidator, is_valid=Mock(side_effect=PanicException))
    assert seeking.opinion(1, valid=True) is SecondOpinion.UNDECIDED
    seeking.validator = Mock(spec=PythonValidator, is_valid=Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        seeking.opinion(1, valid=True)
