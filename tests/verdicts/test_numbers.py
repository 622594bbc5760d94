"""Test that numbers are compared by their digits, not as the nearest doubles."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.verdicts import Judge, SecondOpinion

DRAFT_4 = "http://json-schema.org/draft-04/schema#"


@pytest.mark.parametrize(
    ("schema", "text", "valid"),
    [
        ({"enum": [9007199254740993]}, "9007199254740993.0", True),
        ({"const": 9007199254740992}, "9007199254740993.0", False),
        ({"const": 10**23}, "1e23", True),
        ({"const": 1e23}, "1" + "0" * 23, True),
        ({"type": "integer"}, "1.00000000000000000001", False),
        ({"type": "integer"}, "1.0", True),
        ({"type": "integer"}, "-0.0", True),
        ({"type": "integer"}, "1e308", True),
        ({"$schema": DRAFT_4, "type": "integer"}, "1.0", False),
        ({"$schema": DRAFT_4, "type": "integer"}, "1e23", False),
        ({"maximum": 1}, "1.00000000000000000001", False),
        ({"exclusiveMaximum": 1}, "0.99999999999999999999", True),
        ({"exclusiveMinimum": 0}, "1e-400", True),
        ({"const": 0}, "1e-400", False),
        ({"const": 0}, "-0", True),
        ({"const": 0}, "0e999999999999", True),
        *(({"multipleOf": 0.01}, price, True) for price in ("4.35", "0.07", "19.99", "0.28", "1e10", "99999999999.99")),
        ({"multipleOf": 0.01}, "4.355", False),
        ({"maximum": 2**64}, str(2**64), True),
        ({"maximum": 2**64}, str(2**64 + 1), False),
        ({"multipleOf": 0.01}, "12345678901234567890.01", True),
        ({"multipleOf": 0.01}, "12345678901234567890.001", False),
        ({"multipleOf": 3}, "1e300", False),
        ({"multipleOf": 0.123456789}, "1e308", False),
        ({"multipleOf": 0.1}, "0", True),
        ({"multipleOf": 1e-300}, "3e-300", True),
        ({"uniqueItems": True}, "[1, 1.0]", False),
        ({"uniqueItems": True}, "[1, 1.00000000000000000001]", True),
        ({"uniqueItems": True}, "[9007199254740993, 9007199254740992.0]", True),
        ({"const": {"a": [0.1]}}, '{"a": [0.10]}', True),
        # the exact value of the double next to 0.1
        ({"const": 0.1}, "0.1000000000000000055511151231257827021181583404541015625", False),
        ({"exclusiveMaximum": 0.1}, "0.100000000000000005", False),
        ({"uniqueItems": True}, "[0.1, 0.1000000000000000055511151231257827021181583404541015625]", True),
    ],
)
def test_numbers_are_judged_by_their_digits(judge: Judge, schema: dict[str, Any], text: str, valid: bool) -> None:
    verdict = judge.judge(schema, text)
    assert (verdict.valid, verdict.second_opinion) == (valid, SecondOpinion.AGREES)


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"exclusiveMaximum": 0.1}, "0.100000000000000005"),
        ({"const": 0.1}, "0.1000000000000000055511151231257827021181583404541015625"),
        ({"enum": [9007199254740993, 1]}, "9007199254740992.0"),
    ],
)
def test_numbers_are_judged_the_same_with_a_pattern_for_jsonschema_only(
    judge: Judge, keywords: dict[str, Any], text: str
) -> None:
    verdict = judge.judge({"pattern": r"(?<=(a))\1", **keywords}, text)
    assert (verdict.valid, [violation.keyword for violation in verdict.violations]) == (False, [*keywords])


@pytest.mark.parametrize(
    "text", ["1e1000000", "-1e400", "1e-1000000", "1e-99999999999999999999", "1e99999999999999999999"]
)
def test_number_with_a_huge_exponent_is_not_read(judge: Judge, text: str) -> None:
    assert judge.judge({"type": "integer"}, text).reason == "number_out_of_range"


def test_the_instance_has_the_doubles_that_everyone_else_reads(judge: Judge) -> None:
    instance = judge.judge(True, '["é", 1e23, 1.00000000000000000001, 1e-400]').instance
    assert instance == ["é", 1e23, 1.0, 0.0]
    assert isinstance(instance, list)
    assert {type(number) for number in instance[1:]} == {float}


def test_jsonschema_alone_compares_doubles_as_it_always_did(jsonschema_judge: Judge) -> None:
    assert jsonschema_judge.judge({"maximum": 1, "type": "integer"}, "1.00000000000000000001").valid
