from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.records.rejudging import order_kept

AB: dict[str, Any] = {"properties": {"a": {}, "b": {}}}


@pytest.mark.parametrize(
    ("schema", "instance", "kept"),
    [
        (AB, {"a": 1, "b": 2}, True),
        (AB, {"b": 1, "a": 2}, False),
        (AB, {"a": 1}, None),
        (AB, {"x": 1, "a": 2, "y": 3, "b": 4}, True),
        (AB, [{"b": 1, "a": 2}], None),
        (True, {"b": 1, "a": 2}, None),
        ({"items": AB}, [{"a": 1, "b": 2}, {"b": 1, "a": 2}], False),
        ({"items": AB}, [{"a": 1, "b": 2}, {"a": 1}], True),
        ({"prefixItems": [{}], "items": AB}, [{"b": 1, "a": 2}, {"a": 1, "b": 2}], True),
        ({"properties": {"a": AB}}, {"a": {"b": 1, "a": 2}}, False),
        ({"$ref": "#/$defs/ab", "$defs": {"ab": AB}}, {"b": 1, "a": 2}, False),
        ({"allOf": [AB, {"properties": {"c": {}, "d": {}}}]}, {"c": 1, "a": 2, "b": 3, "d": 4}, True),
        ({"allOf": [AB, {"properties": {"c": {}, "d": {}}}]}, {"a": 2, "b": 3, "d": 4, "c": 1}, False),
        ({"anyOf": [AB, {"properties": {"b": {}, "a": {}}}]}, {"b": 1, "a": 2}, None),
        ({"properties": {"a": {"$ref": "#"}, "b": {}}}, {"a": {"a": {"b": 1, "a": {}}}, "b": 1}, False),
    ],
)
def test_the_order_is_that_of_each_objects_schema(schema: Any, instance: Any, kept: bool | None) -> None:
    assert order_kept(schema, instance) is kept


def test_a_reference_in_a_circle_comes_to_an_end() -> None:
    assert order_kept({"$ref": "#"}, {"a": 1, "b": 2}) is None
    assert order_kept({**AB, "allOf": [{"$ref": "#"}]}, {"a": 1, "b": 2}) is True


def test_of_an_answer_with_very_many_objects_nothing_is_said() -> None:
    assert order_kept({"items": AB}, [{"a": 1, "b": number} for number in range(5_000)]) is None
