from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_jsbench.core.cases import Expected
from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.values import match
from pytest_jsbench.values.value_digests import (
    MOST_FIELDS,
    MOST_LEAVES,
    ValueDigest,
    ValueDigestFacts,
    count_equal_pairs,
    count_equal_pairs_by_field,
    digest_value,
)

#: Values that all differ from each other as JSON.
DIFFERENT: tuple[Any, ...] = (
    *(0, 1, -1, 0.1, 10**20, 2**53 + 1, 2**53, True, False, None, "", "1", "true", "null"),
    *([], {}, [0], [1], [[]], [{}], [1, 2], [2, 1], [1, 1], ["1"]),
    *({"a": 1}, {"a": "1"}, {"a": None}, {"a": {}}, {"a": []}, {"b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1}),
    *({"0": 1}, {"a": {"b": 1}}, {"a.b": 1}, {"a": [{"b": 1}]}, {"a": [1, {"b": 1}]}, {"a": [{"b": 1}, 1]}),
)
EQUAL: tuple[tuple[Any, Any], ...] = (
    (1, 1.0),
    (0, -0.0),
    (10**20, 1e20),
    ({"a": 1, "b": [2, {"c": 3}]}, {"b": [2.0, {"c": 3.0}], "a": 1.0}),
    ("é", "\u00e9"),
)


def facts(*values: Any) -> list[ValueDigestFacts]:
    return [digest(value).facts() for value in values]


def digest(value: Any) -> ValueDigest:
    found = digest_value(value)
    assert found is not None
    return found


@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_values_that_are_equal_as_json_have_equal_digests(first: Any, second: Any) -> None:
    assert match(Expected(value=first), second).exact
    assert digest_value(first) == digest_value(second)


def test_values_that_differ_as_json_have_different_digests() -> None:
    digests = [digest(value).whole for value in DIFFERENT]

    assert len(set(digests)) == len(DIFFERENT)
    for first in DIFFERENT:
        same = [second for second in DIFFERENT if match(Expected(value=first), second).exact]
        assert list(map(repr, same)) == [repr(first)]


def test_pairs_are_counted_as_a_whole_and_by_field() -> None:
    answers = facts(
        {"vendor": "A", "total": 1, "items": [{"n": 1}, {"n": 2}]},
        {"total": 1.0, "vendor": "A", "items": [{"n": 1}, {"n": 2}]},
        {"vendor": "A", "total": 2, "items": [{"n": 2}, {"n": 1}]},
        {"vendor": "A", "total": 2, "items": [], "note": "x"},
    )

    assert count_equal_pairs(answers) == (1, 6)
    assert count_equal_pairs_by_field(answers) == {
        "items": (0, 3),  # the empty list is a value of the list itself
        "items.*.n": (1, 6),  # by position
        "note": (0, 3),
        "total": (2, 6),
        "vendor": (6, 6),
    }


def test_scalar_answers_and_single_answers() -> None:
    assert count_equal_pairs_by_field(facts(1, 1.0, "1")) == {"$": (1, 3)}
    assert count_equal_pairs(facts({"a": 1})) == (0, 0)
    assert count_equal_pairs_by_field(facts({"a": 1})) == {}
    assert count_equal_pairs([]) == (0, 0)


def test_fields_beyond_the_most_are_left_out_and_never_count_as_different() -> None:
    many = {f"f{number:03}": number for number in range(MOST_FIELDS + 10)}
    answers = facts(many, {**many, "a": 1}, {**many, "f059": 0})

    counts = count_equal_pairs_by_field(answers)

    assert len(answers[0].names) == MOST_FIELDS
    assert answers[0].is_cut
    assert counts["a"] == (0, 2)
    assert counts["f048"] == (3, 3)
    assert counts["f049"] == (1, 1)  # cut from the answer that has one more field before it
    assert "f059" not in counts
    assert count_equal_pairs(answers) == (0, 3)


def test_value_with_too_many_leaves_has_no_digest() -> None:
    assert digest_value([1] * MOST_LEAVES) is not None
    assert digest_value([1] * (MOST_LEAVES + 1)) is None
    assert digest_value([[{}] * MOST_LEAVES, {"a": 1}]) is None


def test_long_name_above_many_values_has_no_digest() -> None:
    name = "n" * 4_000_000

    assert digest_value({name: [1] * MOST_LEAVES}) is None
    assert digest_value({name: 1}) is not None


def test_deep_value_has_a_digest() -> None:
    deep: Any = 1
    for _ in range(2000):
        deep = [deep]

    assert digest_value(deep) == digest_value([deep][0])


def test_digests_with_different_keys_are_not_compared() -> None:
    kept = [ValueDigestFacts(whole=whole, key=key) for key, whole in ("aa", "aa", "bb", "ba")]

    assert count_equal_pairs(kept) == (1, 2)


def test_facts_survive_json_and_share_their_names() -> None:
    first, second = facts({"a": 1, "b": "x"}, {"a": 2, "b": "y"})

    assert from_json(ValueDigestFacts, json.loads(json.dumps(to_json(first)))) == first
    assert first.names is second.names
    assert first.fields.keys() == {"a", "b"}
    assert "x" not in json.dumps(to_json(digest_value({"a": "x"})))
