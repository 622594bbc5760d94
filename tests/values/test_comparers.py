from __future__ import annotations

from fractions import Fraction

import pytest

from pytest_jsbench.values import Comparer, extract_comparers, without_comparers
from pytest_jsbench.values.comparers import read_comparer


@pytest.mark.parametrize(
    ("how", "expected", "answer", "equal"),
    [
        ({}, 1, 1.0, True),
        ({}, 1, True, False),
        ({}, 0, False, False),
        ({}, None, None, True),
        ({}, None, "", False),
        ({}, "a", "A", False),
        ({}, 1, "1", False),
        ({"tolerance": 0.5}, 10, 10.5, True),
        ({"tolerance": 0.5}, 10, 10.6, False),
        ({"tolerance": 0.3}, 0, 0.1 + 0.2, True),
        ({"tolerance": "1%"}, 200, 202, True),
        ({"tolerance": "1%"}, 200, 202.1, False),
        ({"tolerance": 0.01}, 1_000_000.01, 1_000_000.02, True),
        ({"tolerance": "0.7%"}, 1_000, 1_007, True),
        ({"tolerance": 0.5}, 1.5, 10**400, False),
        ({"tolerance": "1%"}, 10**400, 10**400 + 1, True),
        ({"tolerance": 10**400}, 1, 2, True),
        ({"tolerance": 5}, 1, True, False),
        ({"casefold": True}, "Straße", "STRASSE", True),
        ({"date": True}, "2026-03-14", "2026-03-14T00:00:00Z", True),
        ({"date": True}, "2026-03-14T12:00:00+02:00", "2026-03-14T10:00:00Z", True),
        ({"date": True}, "2026-03-14", "2026-03-15", False),
        ({"date": True}, "soon", "later", False),
        ({"date": True}, "soon", "soon", True),
    ],
)
def test_values_are_equal_as_json_values_except_as_the_comparer_allows(
    how: dict[str, object], expected: object, answer: object, equal: bool
) -> None:
    assert Comparer.of(how).equal(expected, answer) is equal


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (7, "a JSON number; expected an object with tolerance"),
        ({"tolerance": -1}, "tolerance: -1; expected a number of at least 0"),
        ({"tolerance": True}, "tolerance: True; expected a number"),
        ({"tolerence": 1}, "tolerence: 1; expected tolerance"),
        ({"casefold": "yes"}, "casefold: 'yes'; expected"),
        ({"tolerance": "9" * 400 + "%"}, "tolerance: '999.*expected a number"),
        ({"function": "os:system"}, "only allowed in --jsbench-comparer"),
    ],
)
def test_invalid_comparer_is_reported_with_what_was_expected(how: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Comparer.of(how)


def test_a_schema_is_shown_and_judged_by_without_its_comparers() -> None:
    how = {"tolerance": 1}
    schema = {
        "properties": {"a/b": {"type": "number", "x-jsbench-compare": how}, "x-jsbench-compare": {"type": "string"}},
        "const": {"x-jsbench-compare": "data"},
        "anyOf": [{"x-jsbench-compare": {"ignore": True}}],
    }

    shown, expected = extract_comparers(schema, {"a/b": 1})

    assert shown == {
        "properties": {"a/b": {"type": "number"}, "x-jsbench-compare": {"type": "string"}},
        "const": {"x-jsbench-compare": "data"},
        "anyOf": [{}],
    }
    assert expected.value == {"a/b": 1}
    assert expected.comparers == {"/properties/a~1b": how, "/anyOf/0": {"ignore": True}}


def test_schema_without_comparers_is_unchanged_and_deep_one_fails() -> None:
    schema = {"properties": {"a": {"type": "number"}}}
    deep: dict[str, object] = {"x-jsbench-compare": {"date": True}}
    for _ in range(5_000):
        deep = {"items": deep}

    assert without_comparers(schema) is schema
    with pytest.raises(ValueError, match="nests too deeply"):
        without_comparers(deep)


def test_invalid_comparer_is_reported_with_its_place() -> None:
    with pytest.raises(ValueError, match="x-jsbench-compare at /items: near"):
        extract_comparers({"items": {"x-jsbench-compare": {"near": True}}}, [])


@pytest.mark.parametrize(
    ("text", "field", "comparer"),
    [
        ("total=tolerance:0.01", "total", Comparer(tolerance=0.01)),
        ("items.*.price=tolerance:1%", "items.*.price", Comparer(tolerance=Fraction("0.01"), relative=True)),
        ("a=b=casefold", "a=b", Comparer(casefold=True)),
        ("x=function:operator:eq", "x", Comparer(function=__import__("operator").eq)),
    ],
)
def test_an_option_names_a_field_and_how_it_is_compared(text: str, field: str, comparer: Comparer) -> None:
    assert read_comparer(text) == (field, comparer)


@pytest.mark.parametrize("text", ["total", "=date", "a=near", "a=tolerance", "a=tolerance:much", "a=function:math:pi"])
def test_an_option_that_names_no_comparer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        read_comparer(text)
