from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.core.cases import Expected
from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.values import Comparer, Match, describe_match, extract_comparers, match
from tests.support.fuzzing import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
INVOICE = {"total": 99.5, "items": [{"name": "a", "amount": 1}, {"name": "b", "amount": 2}], "tags": []}


KEYWORD: dict[str, Any] = {"x-jsbench-compare": {"casefold": True}}


def of(expected: object, answer: object, schema: Any = True, **comparers: Comparer) -> Match:
    shown, held = extract_comparers(schema, expected)
    return match(held, answer, schema=shown, comparers=comparers)


def faults(compared: Match) -> dict[str, str]:
    return {difference.path: difference.fault.value for difference in compared.differences}


def test_each_leaf_of_the_expected_instance_is_a_field() -> None:
    compared = of(INVOICE, INVOICE)

    assert compared.fields == {"total": (1, 1), "items.*.name": (2, 2), "items.*.amount": (2, 2), "tags": (1, 1)}
    assert (compared.right, compared.expected, compared.exact) == (6, 6, True)


def test_wrong_missing_and_invented_values_have_their_place() -> None:
    answer = {"total": 95.9, "items": [{"name": "a", "amount": 1}, {"name": "b"}, {"name": "c"}], "tags": ["x"], "k": 1}

    compared = of(INVOICE, answer)

    assert faults(compared) == {
        "$.total": "wrong",
        "$.items[1].amount": "missing",
        "$.items[2].name": "invented",
        "$.tags[0]": "invented",
        "$.k": "invented",
    }
    assert (compared.right, compared.expected, compared.invented, compared.exact) == (4, 6, 3, False)
    all_of_it, first = describe_match(compared)[:2]
    assert all_of_it == "4 of 6 values are right, and 3 unexpected"
    assert first == "$.total: 95.9; expected 99.5"


def test_invalid_answer_has_no_right_values_and_no_differences() -> None:
    compared = match(Expected(value=INVOICE))

    assert (compared.right, compared.expected, compared.differences, compared.exact) == (0, 6, (), False)


@pytest.mark.parametrize("value", [None, 7, "x", []])
def test_value_in_place_of_an_object_is_invented_and_members_missing(value: object) -> None:
    assert faults(of({"a": {"b": 1, "c": 2}}, {"a": value})) == {
        "$.a": "invented",
        "$.a.b": "missing",
        "$.a.c": "missing",
    }


@examples(200)
@given(JSON)
def test_instance_matches_itself(value: Any) -> None:
    compared = of(value, json.loads(json.dumps(value)))

    assert compared.exact
    assert compared.expected >= 1


@examples(200)
@given(JSON, JSON)
def test_a_match_survives_its_way_through_a_record(expected: Any, answer: Any) -> None:
    compared = of(expected, answer)

    assert from_json(Match, json.loads(json.dumps(to_json(compared)))) == compared
    assert compared.right <= compared.expected
    assert compared.exact is (not compared.differences)


def test_comparers_apply_behind_references() -> None:
    schema = {
        "properties": {
            "when": {"anyOf": [{"type": "null"}, {"type": "string", "x-jsbench-compare": {"date": True}}]},
            "items": {"items": {"$ref": "#/$defs/item"}},
            "id": {"x-jsbench-compare": {"ignore": True}},
        },
        "additionalProperties": {"x-jsbench-compare": {"casefold": True}},
        "$defs": {"item": {"prefixItems": [True, {"x-jsbench-compare": {"tolerance": 1}}]}},
    }
    expected = {"when": "2026-01-01", "items": [[5, 5], [5, 5]], "id": 1, "other": "X"}
    answer = {"when": "2026-01-01T00:00:00Z", "items": [[5, 6], [6, 5]], "id": 2, "other": "x"}

    compared = of(expected, answer, schema)

    assert faults(compared) == {"$.items[1][0]": "wrong"}
    assert compared.expected == 6


def test_a_recursive_schema_ends() -> None:
    schema = {"$ref": "#", "properties": {"a": {"$ref": "#"}}, "x-jsbench-compare": {"casefold": True}}

    assert of({"a": {"a": "X"}}, {"a": {"a": "x"}}, schema).exact


def test_the_users_comparers_go_before_those_of_the_schema() -> None:
    schema = {"properties": {"a": {"x-jsbench-compare": {"ignore": True}}}}

    assert of({"a": 1}, {"a": 2}, schema).expected == 0
    assert not of({"a": 1}, {"a": 2}, schema, a=Comparer()).exact
    assert of({"a": [1]}, {"a": [2]}, schema, **{"a.*": Comparer(tolerance=1), "a": Comparer()}).exact


def test_ignored_fields_do_not_count_as_invented() -> None:
    assert of({}, {"a": {"b": 1}}, a=Comparer(ignore=True)).exact


def test_items_in_any_order_are_paired_so_that_most_values_are_right() -> None:
    pytest.importorskip("scipy", reason="lists in any order need scipy")
    expected = [{"n": "a", "v": 1}, {"n": "b", "v": 2}, {"n": "c", "v": 3}]
    answer = [{"n": "c", "v": 9}, {"n": "a", "v": 2}, {"n": "b", "v": 2}, {"n": "z", "v": 0}]
    unordered = {"$": Comparer(unordered=True)}

    compared = of(expected, answer, **unordered)

    assert (compared.right, compared.invented) == (4, 2)
    assert compared.fields == {"*.n": (3, 3), "*.v": (1, 3)}
    assert of([1, 2, 2], [2, 1, 2], **unordered).exact
    assert faults(of([1, 2], [3, 2], **unordered)) == {"$[0]": "wrong"}
    assert faults(of([1, 2], [2], **unordered)) == {"$[0]": "missing"}


def test_a_function_of_the_users_compares_a_place_as_one_field() -> None:
    same_set = Comparer(function=lambda expected, compared: set(expected) == set(compared))

    compared = of({"tags": ["a", "b"], "n": 1}, {"tags": ["b", "a", "b"], "n": 1}, tags=same_set)

    assert (compared.fields, compared.exact) == ({"tags": (1, 1), "n": (1, 1)}, True)
    assert faults(of({"tags": ["a"]}, {}, tags=same_set)) == {"$.tags": "missing"}


def test_an_answer_that_a_function_cannot_compare_is_not_counted_at_all() -> None:
    def broken(_expected: object, _found: object) -> bool:
        raise SystemExit("no")

    compared = of({"a": 1, "b": 1}, {"a": 1, "b": 1}, a=Comparer(function=broken))

    assert (compared.fields, compared.exact) == ({}, False)
    assert describe_match(compared) == ["not compared: the comparer broken raised SystemExit: no"]


def test_of_many_differences_the_first_are_named_and_all_are_counted() -> None:
    compared = of(list(range(80)), [str(number) for number in range(80)])

    assert (compared.right, compared.expected, len(compared.differences)) == (0, 80, 50)
    assert describe_match(compared)[-1] == "… and 30 more"


def test_long_values_are_truncated_in_records() -> None:
    (difference,) = of({"a": "x" * 1_000}, {"a": "y" * 1_000}).differences

    assert (len(difference.expected), len(difference.found)) == (200, 200)


def test_value_nested_too_deeply_is_reported_as_not_compared() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]

    assert describe_match(match(Expected(value=deep), 1)) == ["not compared: the expected value nests too deeply"]


def test_equal_items_of_long_reordered_lists_are_paired_quickly() -> None:
    seen: list[object] = []

    def sees(one: object, other: object) -> bool:
        seen.append(one)
        return one == other

    unordered = {"$": Comparer(unordered=True), "*.n": Comparer(function=sees)}
    items = [{"n": number} for number in range(300)]

    assert of(items, items[::-1], **unordered).exact
    assert len(seen) == len(items)


def test_nested_unordered_lists_stay_within_the_comparison_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("scipy", reason="lists in any order need scipy")
    seen: list[object] = []

    def nested(depth: int, number: int) -> object:
        return [nested(depth - 1, 2 * number), nested(depth - 1, 2 * number + 1)] if depth else number

    def sees(self: Comparer, one: object, other: object) -> bool:
        seen.append(one)
        return one == other

    monkeypatch.setattr("pytest_jsbench.values.matches._MOST_TRIED", 500)
    monkeypatch.setattr(Comparer, "equal", sees)
    schema = {"items": {"$ref": "#"}, "x-jsbench-compare": {"unordered": True}}

    compared = of(nested(6, 0), nested(6, 2), schema)

    assert (compared.expected, compared.exact) == (64, False)
    assert len(seen) < 2_000


@pytest.mark.parametrize(
    "changed",
    [
        {"fields": {"a": [2, 1]}},
        {"fields": {"a": [1.0, 1e300]}},
        {"fields": {"a": [1, 10**400]}},
        {"invented": -1},
        {"differences": [{"path": "$", "fault": "odd", "expected": 1, "found": 2}]},
    ],
)
def test_invalid_match_in_a_foreign_record_is_rejected(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(changed))):
        from_json(Match, to_json(of(INVOICE, INVOICE)) | changed)


PLACES: list[tuple[dict[str, Any], Any, Any]] = [
    ({"properties": {"a": KEYWORD}}, {"a": "X"}, {"a": "x"}),
    ({"additionalProperties": KEYWORD}, {"a": "X"}, {"a": "x"}),
    ({"unevaluatedProperties": KEYWORD}, {"a": "X"}, {"a": "x"}),
    ({"items": KEYWORD}, ["X", "Y"], ["x", "y"]),
    ({"items": [KEYWORD], "additionalItems": KEYWORD}, ["X", "Y"], ["x", "y"]),
    ({"prefixItems": [KEYWORD], "items": KEYWORD}, ["X", "Y"], ["x", "y"]),
    ({"prefixItems": [KEYWORD], "unevaluatedItems": KEYWORD}, ["X", "Y"], ["x", "y"]),
    ({"allOf": [True, KEYWORD]}, "X", "x"),
    ({"if": {"type": "string"}, "then": KEYWORD}, "X", "x"),
    ({"if": {"type": "null"}, "else": KEYWORD}, "X", "x"),
    ({"dependentSchemas": {"b": {"properties": {"a": KEYWORD}}}}, {"a": "X"}, {"a": "x"}),
    ({"dependencies": {"b": {"properties": {"a": KEYWORD}}, "a": ["b"]}}, {"a": "X"}, {"a": "x"}),
    ({"$dynamicRef": "#one", "$defs": {"x": {"$dynamicAnchor": "one", **KEYWORD}}}, "X", "x"),
    ({"$ref": "#/$defs/x", "$defs": {"x": KEYWORD, "unused": {"not": KEYWORD}}}, "X", "x"),
]


@pytest.mark.parametrize(("schema", "expected", "answer"), PLACES)
def test_comparer_applies_wherever_its_schema_describes_the_value(
    schema: dict[str, Any], expected: Any, answer: Any
) -> None:
    assert of(expected, answer, schema).exact


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"patternProperties": {"^a": KEYWORD}}, "/patternProperties/^a"),
        ({"properties": {"a": {"contains": {"properties": {"b": KEYWORD}}}}}, "/properties/a/contains/properties/b"),
        ({"if": KEYWORD}, "/if"),
        ({"not": {"not": KEYWORD}}, "/not/not"),
        ({"propertyNames": KEYWORD}, "/propertyNames"),
        ({"$ref": "other.json", "$defs": {"x": KEYWORD}}, "/$defs/x"),
        ({"not": {"$ref": "#/$defs/x"}, "$defs": {"x": KEYWORD}}, "/$defs/x"),
    ],
)
def test_comparer_with_unclear_values_is_rejected_with_its_place(schema: dict[str, Any], place: str) -> None:
    with pytest.raises(ValueError, match=rf"^x-jsbench-compare at {re.escape(place)}: it is unclear which values"):
        extract_comparers(schema, {"a": "X"})


def test_conflicting_comparers_for_one_value_are_an_error() -> None:
    schema = {"properties": {"a": {"anyOf": [KEYWORD, {"x-jsbench-compare": {"date": True}}]}}}

    problem = of({"a": "X"}, {"a": "x"}, schema).problem

    assert problem == (
        "the schema has 2 different comparers for a; remove all but one, or set one with --jsbench-comparer a=HOW"
    )
    assert of({"a": "X"}, {"a": "x"}, schema, a=Comparer(casefold=True)).exact
    assert of({"a": "X"}, {"a": "x"}, {"properties": {"a": {"allOf": [KEYWORD, KEYWORD]}}}).exact


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"a": {"b": 1}}, "a.b"),
        ({"a.b": 1}, '"a.b"'),
        ({"a": [{"*": 1}]}, 'a.*."*"'),
        ({"$": 1}, '"$"'),
        ({"": 1}, '""'),
        ({'say "x"': 1}, r'"say \"x\""'),
        ({"net amount": 1}, "net amount"),
        ({"\x1b[31m": 1}, r'"\u001b[31m"'),
        ({"\u200b": 1}, r'"\u200b"'),
        (1, "$"),
    ],
)
def test_no_two_fields_have_one_name(value: Any, name: str) -> None:
    assert list(of(value, value).fields) == [name]
    assert of(value, value, **{name: Comparer(how="x")}).exact


def test_long_names_that_are_cut_stay_apart() -> None:
    value = {"x" * 500 + "a": 1, "x" * 500 + "b": 2}

    names = list(of(value, value).fields)

    assert len(set(names)) == 2
    assert all(len(name) < 150 for name in names)
