from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from pytest_jsbench.adaptation.bounding import bound_schema
from pytest_jsbench.adaptation.engine_changes import changes_by_engine

WORD = {"type": "string"}
SHORT = {"type": "string", "maxLength": 40}
ANY = {"a": WORD, "b": WORD, "c": WORD}
EITHER = [{"required": ["a"]}, {"required": ["b"]}]


def node(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": ANY, "required": ["c"], **keywords}


def instances() -> Iterator[Any]:
    """Yield objects with each selection of properties, and values of other types."""
    yield from ("x", 1, None, [])
    for size in range(5):
        for names in itertools.combinations("abcd", size):
            for value in ("x", "y", 1):
                yield dict.fromkeys(names, value)
                yield {**dict.fromkeys(names, "x"), "a": value}


def accepted(schema: Any) -> list[Any]:
    validator = Draft202012Validator(schema)
    return [instance for instance in instances() if validator.is_valid(instance)]


def test_keywords_next_to_any_of_are_written_into_each_branch() -> None:
    short = {"a": SHORT, "b": SHORT, "c": SHORT}
    assert bound_schema({"title": "t", **node(anyOf=EITHER)}) == {
        "title": "t",
        "anyOf": [
            {"type": "object", "properties": short, "required": ["c", "a"], "additionalProperties": False},
            {"type": "object", "properties": short, "required": ["c", "b"], "additionalProperties": False},
        ],
    }


def test_branches_of_one_of_forbid_what_the_others_require() -> None:
    assert bound_schema(node(oneOf=EITHER)) == {
        "anyOf": [
            {
                "type": "object",
                "properties": {"a": SHORT, "c": SHORT},
                "required": ["c", "a"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"b": SHORT, "c": SHORT},
                "required": ["c", "b"],
                "additionalProperties": False,
            },
        ],
    }


@pytest.mark.parametrize(
    "schema",
    [
        node(anyOf=EITHER),
        node(oneOf=EITHER),
        node(anyOf=[{"required": ["a", "b"]}, {"required": ["d"]}]),
        node(oneOf=[{"required": ["a"]}, {"required": ["a", "b"]}]),
        node(oneOf=[*EITHER, {"required": ["c"]}]),
        node(anyOf=EITHER, additionalProperties=False),
        node(oneOf=EITHER, additionalProperties=WORD),
        {"properties": ANY, "anyOf": EITHER},
        {"properties": ANY, "oneOf": EITHER},
        node(anyOf=[{"properties": {"a": {"const": "x"}}, "required": ["b"]}, {"properties": {"a": {"const": "y"}}}]),
        node(oneOf=[{"properties": {"a": {"const": "x"}}, "required": ["a"]}, {"required": ["b"]}]),
        node(anyOf=[{"properties": {"d": WORD}, "required": ["d"]}, {"required": ["a"]}]),
        node(anyOf=[{"properties": {"d": WORD}, "required": ["d"]}], additionalProperties=False),
        {"not": node(oneOf=EITHER)},
        {"oneOf": [node(oneOf=EITHER), {"type": "object", "required": ["a"]}]},
        {"$ref": "#/$defs/n", "$defs": {"n": node(oneOf=EITHER)}, "not": {"required": ["b"]}},
        {"$ref": "#/$defs/n", "$defs": {"n": node(oneOf=EITHER)}},
    ],
)
def test_spread_alternatives_accept_nothing_more(schema: Any) -> None:
    original, narrowed = accepted(schema), accepted(bound_schema(schema))

    assert [instance for instance in narrowed if instance not in original] == []
    assert narrowed or not original


@pytest.mark.parametrize(
    "schema",
    [
        # what is merged would not be where the reference looks for it
        node(anyOf=[{"required": ["a"], "not": {"required": ["b"]}}, {"required": ["b"]}]),
        {**node(anyOf=EITHER), "$defs": {"a": {"$ref": "#/properties/a"}}},
        {**node(anyOf=EITHER), "$defs": {"a": {"$anchor": "a"}}},
        {**node(anyOf=EITHER), "allOf": [{"required": ["a"]}]},
        node(anyOf=[{"required": ["a"]}, {"type": "string"}]),
        node(anyOf=[{"required": 3}, {"required": ["b"]}]),
        node(anyOf=[{"properties": {"a": {"type": "integer"}}}, {"required": ["b"]}]),
    ],
)
def test_alternatives_that_cannot_be_merged_stay(schema: Any) -> None:
    narrowed: Any = bound_schema(schema)
    assert narrowed["anyOf"] == schema["anyOf"]


def test_many_alternatives_are_not_written_out() -> None:
    schema = node(anyOf=[{"required": [f"p{number}"]} for number in range(17)])
    narrowed: Any = bound_schema(schema)
    assert narrowed["anyOf"] == schema["anyOf"]


@pytest.mark.parametrize("group", ["anyOf", "oneOf"])
def test_moved_keywords_are_no_loss(group: str) -> None:
    schema = node(**{group: EITHER})
    sent = bound_schema(schema)
    assert isinstance(sent, dict)
    assert "required" not in sent

    assert "widened" not in kinds(schema, sent).values()
    assert "widened" in kinds(schema, {group: [{"required": ["a"]}, {"required": ["b"]}]}).values()


def kinds(schema: Any, sent: Any) -> dict[tuple[str, str], str]:
    return {(change.path, change.keyword): change.kind for change in changes_by_engine(schema, sent)}


@pytest.mark.parametrize("group", ["anyOf", "oneOf"])
def test_loss_inside_a_moved_keyword_is_listed(group: str) -> None:
    schema = node(properties={**ANY, "c": {**WORD, "pattern": "x"}}, **{group: EITHER})
    sent: Any = bound_schema(schema)
    branch = sent["anyOf"][1]
    branch["properties"] = {**branch["properties"], "c": SHORT}

    changes = kinds(schema, sent)

    assert [place for place, kind in changes.items() if kind == "widened"] == [("/properties/c", "pattern")]


def test_one_of_sent_as_any_of_accepts_more_unless_its_branches_exclude_each_other() -> None:
    schema = node(oneOf=EITHER)
    sent: Any = bound_schema(schema)
    branches = sent["anyOf"]

    assert kinds(schema, sent)["", "oneOf"] == "rewritten"
    assert kinds(schema, node(anyOf=EITHER))["", "oneOf"] == "widened"
    open_branch = {**branches[1], "additionalProperties": True}
    assert kinds(schema, {**sent, "anyOf": [open_branch, open_branch]})["", "oneOf"] == "widened"
    lost = {**branches[0], "required": ["c"]}
    assert kinds(schema, {**sent, "anyOf": [lost, branches[1]]})["/oneOf/0", "required"] == "widened"
