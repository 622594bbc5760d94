from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.core.cases import CaseKey, safe_name
from pytest_jsbench.core.json_values import copy_of, digest
from tests.support.fuzzing import examples


@pytest.mark.parametrize("name", ["o10010", "calculate_area_88ee549f", "Ünïcode", "a.b-c+d@e=f"])
def test_an_ordinary_name_is_kept(name: str) -> None:
    assert safe_name(name) == name


@pytest.mark.parametrize(
    "name", ["a/b", "a::b", "a\nb", "", "..", "x" * 10_000, "a[b]", "\x1b[31m", "\ud800", "a b", "漢" * 120]
)
def test_safe_name_replaces_unsafe_characters(name: str) -> None:
    safe = safe_name(name)

    assert safe
    assert not set(safe) & set("/:\n\x1b[] ")
    assert len(safe.encode()) < 140


@examples(250)
@given(st.text(), st.text())
def test_two_names_stay_two(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) == (one == other)


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}) != digest({"a": "1"})


@pytest.mark.parametrize("text", ["simple", "::a", "simple::", ""])
def test_case_key_rejects_unsafe_names(text: str) -> None:
    with pytest.raises(ValueError, match="expected task::id"):
        CaseKey.parse(text)


def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed() -> None:
    schema: dict[str, Any] = {"items": [{"enum": [1, None, "a", True, 1.5]}], "$defs": {"a": {}}}

    copied = copy_of(schema)

    assert copied == schema
    copied["items"][0]["enum"].append(2)
    copied["$defs"]["a"]["type"] = "object"
    assert schema == {"items": [{"enum": [1, None, "a", True, 1.5]}], "$defs": {"a": {}}}


@pytest.mark.parametrize("name", ["::error::x", "a b", "a/../b", "..", "", "\u202e", "\u3164", "x" * 300, "a\n"])
def test_case_key_is_safe_in_a_file_name_and_a_log(name: str) -> None:
    with pytest.raises(ValueError, match="expected letters, digits"):
        CaseKey(task=name, id="a")
    with pytest.raises(ValueError, match="expected letters, digits"):
        CaseKey(task="a", id=name)


@given(st.text())
def test_every_safe_name_is_a_part_of_a_key_and_of_a_path(name: str) -> None:
    key = CaseKey(task=safe_name(name), id=safe_name(name))

    assert CaseKey.parse(str(key)) == key
    assert len(key.id.encode()) < 200


@pytest.mark.parametrize("name", ["NUL", "con.json", "Com1", "lpt9.a.b", "order."])
def test_a_name_that_windows_keeps_for_itself_is_changed(name: str) -> None:
    safe = safe_name(name)

    assert safe != name
    assert not safe.endswith(".")
    assert safe.partition(".")[0].lower() not in {"nul", "con", "com1", "lpt9"}
