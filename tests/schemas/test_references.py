"""Test the resolution of `$ref` inside one document, offline."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.core.text import LONGEST
from pytest_jsbench.schemas.dialects import DRAFT_7, DRAFT_2020_12
from pytest_jsbench.schemas.references import (
    CertainReferences,
    References,
    follow,
    json_path,
    json_pointer,
    place_of,
    tokens_of,
)
from tests.support.fuzzing import examples
from tests.support.hostile_texts import is_shown_as_it_is

ROOT: dict[str, Any] = {
    "$id": "https://example.org/root",
    "$defs": {
        "a/b": {"type": "string"},
        "anchored": {"$anchor": "here"},
        "twice": {"anyOf": [{"$anchor": "there"}, {"$anchor": "there"}]},
        "apart": {"$id": "https://example.org/apart", "$defs": {"in": {}}},
    },
}


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        ("#", ()),
        ("#/$defs/a~1b", ("$defs", "a/b")),
        ("#/%24defs/a~1b", ("$defs", "a/b")),
        ("https://example.org/root#/$defs/a~1b", ("$defs", "a/b")),
        ("#here", ("$defs", "anchored")),
        ("#there", None),
        ("#/$defs/apart", None),
        ("#/$defs/apart/$defs/in", None),
        ("https://example.org/other#/$defs/a~1b", None),
        (5, None),
    ],
)
def test_reference_is_resolved_only_if_certain(reference: object, path: object) -> None:
    assert CertainReferences(ROOT).find((), reference) == path


def test_a_reference_inside_of_an_embedded_schema_is_not_certain() -> None:
    assert CertainReferences(ROOT).find(("$defs", "apart", "$defs", "in"), "#/$defs/a~1b") is None


def test_an_index_counts_from_the_start() -> None:
    assert follow({"allOf": [1, 2]}, tokens_of("/allOf/1")) == 2
    assert follow({"allOf": [1, 2]}, tokens_of("/allOf/-1")) is None


def test_an_embedded_schema_is_found_by_its_identifier() -> None:
    references = References(ROOT, DRAFT_2020_12)
    assert references.resolve(ROOT, "apart") is ROOT["$defs"]["apart"]
    assert references.resolve(ROOT, "elsewhere") is None


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"$ref": "#"}, "$"),
        ({"$dynamicRef": "#"}, "$"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "$.properties.a"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, '$["$defs"].a'),
        ({"prefixItems": [True, {"$ref": "#/prefixItems/1"}]}, "$.prefixItems[1]"),
        ({"allOf": [{"$ref": "#"}]}, "$"),
        ({"anyOf": [{"type": "null"}, {"not": {"$ref": "#"}}]}, "$"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"if": {"$ref": "#"}}}}, "$"),
        ({"allOf": [{"oneOf": [{"if": {"not": {"$ref": "#"}}}]}]}, "$"),
        ({"allOf": [{"$ref": "#/allOf"}]}, "$.allOf[0]"),
        # a chain leads to the cycle
        ({**ref("a"), "$defs": {"a": ref("b"), "b": ref("c"), "c": ref("b")}}, '$["$defs"].b'),
        ({"$defs": {"a/b": ref("c~0d"), "c~d": ref("a~1b")}}, '$["$defs"]["a/b"]'),
        ({"$defs": {"z": {"$defs": {"a": ref("z/$defs/b"), "b": ref("z/$defs/a")}}}}, '$["$defs"].z["$defs"].a'),
        (
            {"$id": "http://x/", "$defs": {"a": {"$id": "a", "$ref": "b"}, "b": {"$id": "b", "$ref": "a"}}},
            '$["$defs"].a',
        ),
        ({"$defs": {"a": {"$dynamicRef": "#b"}, "b": {"$dynamicAnchor": "b", **ref("a")}}}, '$["$defs"].a'),
        # the first of two references leads elsewhere
        (
            {"$defs": {"a": {**ref("end"), "$dynamicRef": "#b"}, "b": {"$anchor": "b", **ref("a")}, "end": {}}},
            '$["$defs"].a',
        ),
        ({**ref("end"), "allOf": [ref("a")], "$defs": {"a": {"anyOf": [ref("a")]}, "end": {}}}, '$["$defs"].a'),
        ({"anyOf": [{}, ref("a")], "$defs": {"a": {"oneOf": [{}, {"allOf": [ref("a")]}]}}}, '$["$defs"].a'),
    ],
)
def test_schema_with_infinite_recursion_is_found_with_its_place(schema: dict[str, Any], place: str) -> None:
    endless = References(schema, DRAFT_2020_12).endless()
    assert endless is not None
    assert place_of(schema, endless) == place


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#"}}, "items": {"$ref": "#"}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        {"$ref": "#/enum/0", "enum": [{"$ref": "#"}]},
        # a definition is reached twice, but never from itself
        {"allOf": [ref("a"), ref("a"), ref("b")], "$defs": {"a": ref("b"), "b": ref("c"), "c": {"type": "string"}}},
        # only some values reach the recursion; others are judged
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}},
    ],
)
def test_one_that_comes_to_other_values_or_other_schemas_does(schema: dict[str, Any]) -> None:
    assert References(schema, DRAFT_2020_12).endless() is None


@pytest.mark.parametrize("beside", [{"allOf": [{"$ref": "#"}]}, {"$dynamicRef": "#"}])
def test_keyword_without_effect_causes_no_infinite_recursion(beside: dict[str, Any]) -> None:
    schema = {**ref("a"), **beside, "$defs": {"a": {}}}
    assert References(schema, DRAFT_7).endless() is None
    assert References(schema, DRAFT_2020_12).endless() is schema


def recurs(schema: Any, keywords: Collection[str], root: dict[str, Any], above: tuple[object, ...] = ()) -> bool:
    """Return whether the search for schemas for the same value comes back to a schema on its path."""
    if any(schema is each for each in above):
        return True
    below: list[Any] = [follow(root, tokens_of(schema["$ref"][1:]))] if "$ref" in schema else []
    for keyword in ("not", "allOf") if "allOf" in keywords else ():
        value = schema.get(keyword, [])
        below += value if isinstance(value, list) else [value]
    return any(recurs(each, keywords, root, (*above, schema)) for each in below)


NAMES = ("a", "b", "c", "d")
REFERRING = st.recursive(
    st.just({}) | st.sampled_from(NAMES).map(ref),
    lambda inner: (
        st.fixed_dictionaries({"allOf": st.lists(inner, max_size=2)}, optional={"$ref": st.just("#/$defs/a")})
        | st.fixed_dictionaries({"not": inner})
        | st.fixed_dictionaries({"items": inner})
    ),
    max_leaves=3,
)


@examples(300)
@given(REFERRING, st.fixed_dictionaries(dict.fromkeys(NAMES, REFERRING)))
def test_infinite_recursion_is_found_if_and_only_if_it_exists(main: Any, definitions: Any) -> None:
    root = {**main, "$defs": definitions}
    references = References(root, DRAFT_2020_12)
    expected = any(recurs(schema, ["$ref"], root) for schema in references.schemas) or recurs(root, ["allOf"], root)
    assert (references.endless() is not None) == expected


def test_references_that_lead_nowhere_come_in_the_order_of_the_document() -> None:
    properties = {name: {"items": [{"$ref": f"#/$defs/{name}"}]} for name in "zyxa"}
    references = References({"properties": properties, "$defs": {"z": {}}}, DRAFT_2020_12)
    assert [name for _, name in references.find_unresolved()] == ["#/$defs/y", "#/$defs/x", "#/$defs/a"]
    assert list(References(ROOT, DRAFT_2020_12).find_unresolved()) == []


def test_paths_quote_only_names_that_are_not_identifiers() -> None:
    assert json_path([]) == "$"
    assert json_path(["a", "b_1", 0, "x-y", "", 'q"']) == '$.a.b_1[0]["x-y"][""]["q\\""]'


def test_pointers_escape_slash_and_tilde() -> None:
    assert json_pointer([]) == ""
    assert json_pointer(["properties", "a/b~c", 0]) == "/properties/a~1b~0c/0"


@examples(200)
@given(st.lists(st.integers(min_value=0) | st.text(st.characters()), max_size=5))
def test_every_place_is_one_bounded_line_that_encodes(parts: list[str | int]) -> None:
    for text in (json_path(parts), json_pointer(parts)):
        assert len(text) <= LONGEST
        assert is_shown_as_it_is(text)
