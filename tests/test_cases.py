from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.cases import CaseKey, copy_of, digest, safe_name


@pytest.mark.parametrize("name", ["o10010", "calculate_area_88ee549f", "Ünïcode", "a.b-c+d@e=f"])
def test_an_ordinary_name_is_kept(name: str) -> None:
    assert safe_name(name) == name


@pytest.mark.parametrize("name", ["a/b", "a::b", "a\nb", "", "..", "x" * 10_000, "a[b]", "\x1b[31m", "\ud800", "a b"])
def test_a_hostile_name_becomes_a_safe_one(name: str) -> None:
    safe = safe_name(name)

    assert safe
    assert not set(safe) & set("/:\n\x1b[] ")
    assert len(safe) < 140
    safe.encode()


@given(st.text(), st.text())
def test_two_names_stay_two(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) == (one == other)


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}) != digest({"a": "1"})


def test_a_key_is_read_back_from_its_text() -> None:
    key = CaseKey(task="simple", id="order")

    assert CaseKey.parse(str(key)) == key


@pytest.mark.parametrize("text", ["simple", "::a", "simple::", ""])
def test_what_is_not_a_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected task::id"):
        CaseKey.parse(text)


def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed() -> None:
    schema: dict[str, Any] = {"items": [{"enum": [1, None, "a", True, 1.5]}], "$defs": {"a": {}}}

    copied = copy_of(schema)

    assert copied == schema
    copied["items"][0]["enum"].append(2)
    copied["$defs"]["a"]["type"] = "object"
    assert schema == {"items": [{"enum": [1, None, "a", True, 1.5]}], "$defs": {"a": {}}}
