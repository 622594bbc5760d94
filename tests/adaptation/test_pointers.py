from __future__ import annotations

import copy
from typing import Any

import pytest
from jsonschema import Draft201909Validator, Draft202012Validator

from pytest_jsbench.adaptation.adapter import changes_by_engine
from pytest_jsbench.adaptation.pointers import with_pointers

TEXT = {"type": "string"}
NODE: dict[str, Any] = {"type": "object", "properties": {"name": TEXT, "next": {"$ref": "#"}}, "required": ["name"]}
GOOD, BAD = {"name": "a", "next": {"name": "b"}}, {"name": "a", "next": {"name": 1}}


@pytest.mark.parametrize(
    "schema",
    [
        NODE,
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "$id": "https://example.com/node", **NODE},
        {
            **NODE,
            "properties": {"name": {"$ref": "#text"}, "next": {"$ref": "#"}},
            "$defs": {"t": {"$anchor": "text", **TEXT}},
        },
        {**NODE, "properties": {"name": {"$ref": "#/$defs/t"}, "next": {"$ref": "#"}}, "$defs": {"t": TEXT}},
        {
            "$ref": "#node",
            "$defs": {"n": {"$anchor": "node", **NODE, "properties": {"name": TEXT, "next": {"$ref": "#node"}}}},
        },
    ],
)
def test_every_reference_is_a_pointer_and_the_schema_means_the_same(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    written = with_pointers(schema)

    assert schema == before
    assert '"$ref": "#/' in repr(written).replace("'", '"')
    assert '"$ref": "#"' not in repr(written).replace("'", '"')
    kind = Draft201909Validator if "2019-09" in str(schema.get("$schema")) else Draft202012Validator
    for answer in (GOOD, BAD, {}, 1):
        assert kind(written).is_valid(answer) is kind(schema).is_valid(answer)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"$ref": "#/$defs/t", "$defs": {"t": TEXT}},
        {"properties": {"a": {"$ref": "#nowhere"}}},
        {"properties": {"a": {"$ref": "https://example.com/other"}}},
        {"properties": {"a": {"$ref": "#t"}}, "$defs": {"a/b": {"$anchor": "t"}}},
        {"$schema": "https://example.com/unknown", "properties": {"a": {"$ref": "#"}}},
    ],
)
def test_what_is_written_so_already_or_cannot_be_stays_as_it_is(schema: Any) -> None:
    assert with_pointers(schema) == schema


def test_a_pointer_below_an_identifier_and_an_encoded_one_begin_at_the_schema_itself() -> None:
    nested = {"$id": "https://example.com/a", "$ref": "#/$defs/t", "$defs": {"t": TEXT}}
    number = {"t": {"type": "integer"}}

    assert with_pointers({"properties": {"a": nested}, "$defs": number}) == {
        "properties": {"a": {"$ref": "#/properties/a/$defs/t", "$defs": {"t": TEXT}}},
        "$defs": number,
    }
    assert with_pointers({"$ref": "#/%24defs/t", "$defs": number}) == {"$ref": "#/$defs/t", "$defs": number}


def test_a_schema_that_its_user_put_below_defs_is_compared_as_it_stands() -> None:
    def schema(**bound: int) -> dict[str, Any]:
        return {"$ref": "#/$defs/root", "$defs": {"root": {"type": "array", **bound}}}

    (change,) = changes_by_engine(schema(), schema(maxItems=8))

    assert (change.kind, change.keyword, change.path) == ("tightened", "maxItems", "/$defs/root")


def test_what_was_put_below_defs_is_no_loss() -> None:
    schema = {"$id": "https://example.com/node", **NODE}

    changes = changes_by_engine(schema, with_pointers(schema))

    assert {change.kind for change in changes} == {"rewritten"}
    assert ("$ref", "") in {(change.keyword, change.path) for change in changes}
