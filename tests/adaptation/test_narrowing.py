from __future__ import annotations

import copy
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from pytest_jsbench.adaptation import Adapted, Change, Inexpressible
from pytest_jsbench.adaptation.narrowing import adapt
from pytest_jsbench.adaptation.subsets import (
    ANTHROPIC,
    FIREWORKS,
    GEMINI,
    GROQ,
    OPENAI,
    PROFILES,
    SUBSETS,
    Subset,
    find_subset,
)

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
TEXT = {"type": "string"}
NULL = {"type": "null"}


def obj(*optional: str, **properties: Any) -> dict[str, Any]:
    """Return a closed object that requires all properties except the optional ones."""
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def adapted_to(subset: Subset, schema: Any, mode: Any = "narrow") -> Adapted:
    adapted = adapt(schema, subset, mode)
    assert isinstance(adapted, Adapted), adapted
    return adapted


def narrowed_schema(schema: Any, subset: Subset = OPENAI, mode: Any = "narrow") -> Any:
    """Return the adapted schema."""
    return adapted_to(subset, schema, mode).schema


def property_schema(schema: Any, subset: Subset = OPENAI, mode: Any = "narrow") -> Any:
    """Return the adapted schema of one property."""
    return narrowed_schema(obj(a=schema), subset, mode)["properties"]["a"]


def changes(schema: Any, subset: Subset = OPENAI, mode: Any = "narrow") -> set[tuple[str, str, str]]:
    return {(change.kind, change.keyword, change.path) for change in adapted_to(subset, schema, mode).changes}


def obstacle(schema: Any, subset: Subset = OPENAI, mode: Any = "narrow") -> tuple[str, str]:
    found = adapt(schema, subset, mode)
    assert isinstance(found, Inexpressible), found
    assert found.message
    return found.keyword, found.path


@pytest.mark.parametrize("subset", SUBSETS.values(), ids=SUBSETS.keys())
@pytest.mark.parametrize("mode", ["narrow", "relax"])
def test_a_schema_within_the_subset_stays_as_it_is(subset: Subset, mode: Any) -> None:
    schema = {
        **obj(a=TEXT, b={"anyOf": [TEXT, {"$ref": "#/$defs/n"}]}, c={"type": "array", "items": TEXT}),
        "title": "T",
        "$defs": {"n": {"type": ["integer", "null"]}},
    }
    assert adapt(schema, subset, mode) == Adapted(schema=schema)


WORDS: dict[str, list[tuple[Any, Any]]] = {
    "openai": [
        (TEXT, TEXT),
        ({"type": "object"}, {"type": "object", "properties": {}, "additionalProperties": False}),
        ({"properties": {"x": TEXT}}, obj(x=TEXT)),
        ({"type": "object", "properties": {"x": TEXT}, "additionalProperties": True}, obj(x=TEXT)),
        ({"type": "object", "properties": {"x": TEXT}, "patternProperties": {"^y": NULL}}, obj(x=TEXT)),
        (obj(x=TEXT, y=False) | {"required": ["x"]}, obj(x=TEXT)),
        ({"type": "object", "required": ["x"], "additionalProperties": TEXT, "properties": {"y": NULL}},
         {**obj(y=NULL, x=TEXT)}),
        ({"allOf": [{"properties": {"x": TEXT}}, {"properties": {"y": NULL}}]}, obj(x=TEXT, y=NULL)),
        ({**obj("y", x=TEXT, y=NULL), "minProperties": 2, "maxProperties": 2}, obj(x=TEXT, y=NULL)),
        ({"type": "object", "properties": {"x": TEXT, "y": NULL}, "anyOf": [{"required": ["x"]}, {"required": ["y"]}]},
         obj(x=TEXT, y=NULL)),
        ({}, {"type": ["string", "number", "boolean", "null"]}),
        (True, {"type": ["string", "number", "boolean", "null"]}),
        ({"enum": ["a", 1]}, {"type": ["string", "integer"], "enum": ["a", 1]}),
        ({"enum": ["a", "bcd"], "type": "string", "maxLength": 1}, {"type": "string", "enum": ["a"]}),
        ({"type": "string", "minimum": 3}, TEXT),
        ({"type": "string", "minLength": 1}, {"type": "string", "pattern": "^.{1,}$"}),
        ({"type": "string", "maxLength": 9}, {"type": "string", "pattern": "^.{0,9}$"}),
        ({"type": "string", "minLength": 1, "pattern": "^[a-z]+$"}, {"type": "string", "pattern": "^[a-z]+$"}),
        ({"type": "string", "format": "int32"}, TEXT),
        ({"type": "array"}, {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}}),
        ({"type": "array", "items": TEXT, "uniqueItems": True}, {"type": "array", "items": TEXT, "maxItems": 1}),
        ({"type": "array", "items": TEXT, "contains": {"pattern": "^a"}},
         {"type": "array", "items": {"type": "string", "pattern": "^a"}, "minItems": 1}),
        ({"oneOf": [TEXT, NULL]}, {"anyOf": [TEXT, NULL]}),
        ({"oneOf": [TEXT]}, TEXT),
        ({"anyOf": [TEXT, False]}, TEXT),
        ({"not": {"type": ["array", "object", "number"]}}, {"type": ["string", "boolean", "null"]}),
        ({"if": {"type": "string"}, "then": {"type": "string", "pattern": "^a"}}, {"type": "string", "pattern": "^a"}),
    ],
    "anthropic": [
        (obj("x", x=TEXT), obj("x", x=TEXT)),
        ({}, {}),
        ({"type": "integer", "minimum": 0, "maximum": 2}, {"type": "integer", "enum": [0, 1, 2]}),
        ({"type": "string", "maxLength": 5000}, {"type": "string", "pattern": "^.{0,99}$"}),
        ({"type": "string", "format": "uri"}, {"type": "string", "format": "uri"}),
        ({"enum": ["a", [1]]}, {"enum": ["a"]}),
        ({**obj("x", x=TEXT), "dependencies": {"x": ["y"]}, "properties": {"x": TEXT, "y": NULL}},
         {**obj("x", x=TEXT, y=NULL)}),
    ],
    "gemini": [
        ({"type": "object", "additionalProperties": TEXT}, {"type": "object", "additionalProperties": TEXT}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": ["string", "boolean"]}, {"anyOf": [TEXT, {"type": "boolean"}]}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"type": "number", "multipleOf": 1}, {"type": "integer"}),
        ({"type": "array", "prefixItems": [TEXT]}, {"type": "array", "prefixItems": [TEXT]}),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("subset", "schema", "adapted"), [(SUBSETS[name], *words) for name, listed in WORDS.items() for words in listed]
)
def test_schema_is_rewritten_for_the_provider(subset: Subset, schema: Any, adapted: Any) -> None:
    assert property_schema(schema, subset) == adapted


@pytest.mark.parametrize(
    ("subset", "schema", "keyword"),
    [
        (OPENAI, {"type": "string", "format": "uri"}, "format"),
        (OPENAI, {"type": "string", "pattern": "^(?!a)"}, "pattern"),
        (OPENAI, {"type": "string", "minLength": 1, "pattern": "a*"}, "minLength"),
        (OPENAI, {"type": "object", "additionalProperties": TEXT}, "additionalProperties"),
        (OPENAI, {"type": "object", "patternProperties": {"^x": TEXT}}, "patternProperties"),
        (OPENAI, {**obj(x=TEXT), "propertyNames": {"maxLength": 3}}, "propertyNames"),
        (OPENAI, {**obj(x=TEXT, y=TEXT), "maxProperties": 1}, "maxProperties"),
        (OPENAI, {**obj(x=TEXT), "minProperties": 2}, "minProperties"),
        (OPENAI, {"type": "array", "prefixItems": [TEXT]}, "prefixItems"),
        (OPENAI, {"type": "array", "minItems": 2, "uniqueItems": True}, "uniqueItems"),
        (OPENAI, {"oneOf": [TEXT, {"pattern": "a"}]}, "oneOf"),
        (OPENAI, {"not": {"pattern": "a"}}, "not"),
        (OPENAI, {"$ref": "http://elsewhere/x.json"}, "$ref"),
        (ANTHROPIC, {"type": "integer", "minimum": 0}, "minimum"),
        (ANTHROPIC, {"type": "array", "maxItems": 3}, "maxItems"),
        (ANTHROPIC, {"type": "array", "minItems": 2}, "minItems"),
        (ANTHROPIC, {"type": "object", "properties": {"c": {"$ref": "#/properties/a"}}}, "$ref"),
        (GEMINI, {"type": "string", "pattern": "a"}, "pattern"),
        (GEMINI, {"type": "string", "maxLength": 3}, "maxLength"),
        (GEMINI, {"type": "number", "exclusiveMinimum": 0}, "exclusiveMinimum"),
    ],
)
def test_inexpressible_keyword_is_reported_or_removed_in_relax_mode(subset: Subset, schema: Any, keyword: str) -> None:
    found, path = obstacle(obj(a=schema), subset)
    assert (found, path[:13]) == (keyword, "/properties/a")
    relaxed = adapted_to(subset, obj(a=schema), "relax")
    # nothing is removed if closing the object has the same effect
    assert relaxed.lossy or keyword in ("additionalProperties", "patternProperties")
    assert any(change.keyword == keyword and change.path.startswith("/properties/a") for change in relaxed.changes)


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        (False, ""),
        (TEXT, "type"),
        ({"type": "array", "items": TEXT}, "type"),
        ({"items": TEXT, "type": "array", "properties": {}}, "type"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}}, "type"),
        ({"type": "string", "minLength": "3"}, "type"),
        (obj(a={"type": "string", "minLength": "3"}), "minLength"),
        (obj(a={"type": "array", "items": 3}), ""),
        ({"type": "object", "properties": []}, "properties"),
        ({"type": "object", "required": "a"}, "required"),
        ({"type": "object", "allOf": {}}, "allOf"),
        (obj(a={"type": "anything"}), "type"),
        (obj(a={"type": "number", "minimum": float("inf")}), "minimum"),
    ],
)
def test_invalid_root_or_schema_is_not_sent_in_either_mode(schema: Any, keyword: str) -> None:
    assert obstacle(schema)[0] == keyword
    assert obstacle(schema, mode="relax")[0] == keyword


def test_a_root_that_refers_is_written_out_for_openai() -> None:
    schema = {"$ref": "#/definitions/r", "definitions": {"r": obj(x=TEXT)}}
    assert narrowed_schema(schema) == obj(x=TEXT)
    assert narrowed_schema(schema, ANTHROPIC) == schema
    assert narrowed_schema(schema, GEMINI) == {"$ref": "#/$defs/r", "$defs": {"r": obj(x=TEXT)}}


def test_of_alternatives_at_the_root_openai_gets_the_first() -> None:
    schema = {"anyOf": [obj(x=TEXT), obj(y=TEXT)]}
    assert narrowed_schema(schema) == obj(x=TEXT)
    assert ("tightened", "anyOf", "") in changes(schema)


def test_properties_may_be_named_like_keywords() -> None:
    names = ["not", "oneOf", "if", "items", "properties", "required", "$ref", "type", "enum", "const", "default",
             "$defs", "definitions", "additionalProperties", "format", "$id", "id", "title"]  # fmt: skip
    schema = obj(**dict.fromkeys(names, TEXT))
    for subset in SUBSETS.values():
        assert adapt(schema, subset, "narrow") == Adapted(schema=schema)
    opened = {"type": "object", "properties": {"properties": {"type": "object", "properties": {"properties": True}}}}
    anything = {"type": ["string", "number", "boolean", "null"]}
    assert narrowed_schema(opened) == obj(properties=obj(properties=anything))


@pytest.mark.parametrize("keyword", ["default", "examples", "const", "enum", "x-made-up"])
def test_data_is_not_treated_as_schemas(keyword: str) -> None:
    data = [{"type": "object", "properties": {"a": {}}}, "a"]
    schema = obj(a={"type": "string", keyword: "a" if keyword == "const" else data})
    for subset in SUBSETS.values():
        kept = narrowed_schema(schema, subset)["properties"]["a"].get(keyword)
        assert kept in (None, "a", ["a"], data)
    assert property_schema({"type": "string", "default": data}, ANTHROPIC) == {"type": "string", "default": data}


def test_the_original_and_its_data_are_left_alone() -> None:
    schema = {**obj(a={"type": "string", "enum": ["x"], "default": {"y": []}}), "$defs": {"x": {"not": TEXT}}}
    before = copy.deepcopy(schema)
    adapted = narrowed_schema(schema, ANTHROPIC)
    adapted["properties"]["a"]["enum"].append("y")
    adapted["properties"]["a"]["default"]["y"].append(1)
    assert schema == before


def test_objects_are_closed_and_required_with_changes_listed() -> None:
    node = {"type": "object", "properties": {"x": TEXT}}
    schema = {**obj(a={"anyOf": [node, NULL]}, b={"$ref": "#/definitions/n"}), "definitions": {"n": node}}
    closed = obj(x=TEXT)
    adapted = {**obj(a={"anyOf": [closed, NULL]}, b={"$ref": "#/$defs/n"}), "$defs": {"n": closed}}
    assert narrowed_schema(schema) == adapted
    assert changes(schema) == {
        ("tightened", "additionalProperties", "/properties/a/anyOf/0"),
        ("tightened", "required", "/properties/a/anyOf/0"),
        ("tightened", "additionalProperties", "/definitions/n"),
        ("tightened", "required", "/definitions/n"),
        ("rewritten", "$ref", "/properties/b"),
    }


def test_required_names_without_a_schema_are_kept() -> None:
    schema = {"type": "object", "properties": {"a": TEXT}, "required": ["b", "a"]}
    assert narrowed_schema(schema, ANTHROPIC) == {**obj(a=TEXT, b={}), "required": ["b", "a"]}


def test_exclusive_alternatives_stay_satisfiable() -> None:
    schema = {
        "type": "object",
        "properties": {"x": TEXT, "y": TEXT},
        "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
    }
    adapted = narrowed_schema(obj(a=schema))["properties"]["a"]
    assert adapted == {"anyOf": [obj(x=TEXT), obj(y=TEXT)]}
    assert ("tightened", "oneOf", "/properties/a") in changes(obj(a=schema))


def test_alternatives_with_distinct_tags_become_any_of() -> None:
    branches = [obj(kind={"type": "string", "const": name}, x=TEXT) for name in ("a", "b")]
    assert property_schema({"oneOf": branches}) == {"anyOf": branches}


def test_a_description_next_to_a_reference_is_kept() -> None:
    definitions = {"$defs": {"t": TEXT}}
    described = {**obj(a={"$ref": "#/$defs/t", "description": "d"}), **definitions}
    around = {**obj(a={"anyOf": [{"$ref": "#/$defs/t"}], "description": "d"}), **definitions}
    for subset in (OPENAI, GEMINI, SUBSETS["mistral"], GROQ):
        assert narrowed_schema(described, subset) == around
        assert adapt(around, subset, "narrow") == Adapted(schema=around)
        assert narrowed_schema({**described, "$schema": DRAFT_7}, subset)["properties"] == around["properties"]
    assert changes(described) == {("rewritten", "$ref", "/properties/a")}
    assert adapt(described, ANTHROPIC, "narrow") == Adapted(schema=described)
    assert narrowed_schema(around, ANTHROPIC) == described
    noted = {**obj(a={"$ref": "#/$defs/t", "x-note": "n"}), **definitions}
    assert narrowed_schema(noted) == {**obj(a={"$ref": "#/$defs/t"}), **definitions}
    assert changes(noted) == {("dropped_annotation", "x-note", "/properties/a")}


def test_a_keyword_next_to_a_reference_is_merged_with_its_target() -> None:
    asking = {**obj(a={"$ref": "#/$defs/t", "pattern": "^a"}), "$defs": {"t": TEXT}}
    assert narrowed_schema(asking) == obj(a={"type": "string", "pattern": "^a"})
    assert narrowed_schema({**asking, "$schema": DRAFT_7})["properties"]["a"] == {"$ref": "#/$defs/t"}


def test_a_description_next_to_a_recursive_reference_is_kept() -> None:
    schema = obj(next={"anyOf": [{"$ref": "#", "description": "d"}, NULL]})
    adapted = narrowed_schema(schema)
    assert adapted["properties"]["next"]["anyOf"][0] == {"anyOf": [{"$ref": "#"}], "description": "d"}
    assert narrowed_schema(adapted) == adapted


def test_references_by_anchor_and_by_any_path_lead_to_definitions() -> None:
    schema = {**obj(a=TEXT, b={"$ref": "#/properties/a"}, c={"$ref": "#t"}), "$defs": {"x": {"$anchor": "t", **NULL}}}
    expected = {**obj(a=TEXT, b={"$ref": "#/$defs/a"}, c={"$ref": "#/$defs/x"}), "$defs": {"a": TEXT, "x": NULL}}
    assert narrowed_schema(schema) == expected


def test_a_reference_below_another_identifier_is_not_guessed() -> None:
    schema = {**obj(a={"$id": "http://x/", "properties": {"b": {"$ref": "#/$defs/t"}}}), "$defs": {"t": TEXT}}
    assert obstacle(schema) == ("$ref", "/properties/a/properties/b")


def test_definitions_of_the_same_name_stay_apart() -> None:
    schema = {**obj(a={"$ref": "#/$defs/t"}, b={"$ref": "#/definitions/t"}), "$defs": {"t": TEXT},
              "definitions": {"t": NULL}}  # fmt: skip
    assert narrowed_schema(schema)["$defs"] == {"t": TEXT, "t_2": NULL}


def test_recursion_is_kept_if_it_can_end() -> None:
    tree = obj(value=TEXT, children={"type": "array", "items": {"$ref": "#"}})
    assert adapt(tree, OPENAI, "narrow") == Adapted(schema=tree)
    assert obstacle(tree, ANTHROPIC) == ("$ref", "/properties/children/items")
    assert ("widened", "$ref", "/properties/children/items") in changes(tree, ANTHROPIC, "relax")


def test_infinite_optional_property_is_omitted_instead_of_required() -> None:
    chain = obj("next", value=TEXT, next={"$ref": "#"})
    assert narrowed_schema(chain) == obj(value=TEXT)
    assert ("tightened", "properties", "") in changes(chain)
    assert obstacle(obj(next={"$ref": "#"})) == ("$ref", "")


def test_a_circle_of_references_is_an_obstacle_and_no_hang() -> None:
    schema = {**obj(a={"$ref": "#/$defs/x"}), "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}}
    assert obstacle(schema)[0] == "$ref"
    merged = {**obj(a={"$ref": "#/$defs/x"}), "$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}, TEXT]}}}
    assert obstacle(merged)[0] == "$ref"
    endless = {"type": "object", "properties": {"a": {"$ref": "#", "required": ["a"]}}}
    assert isinstance(adapt(endless, OPENAI, "narrow"), Inexpressible)


def test_the_flags_of_draft_4_are_read() -> None:
    bounds = {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}
    schema = {"$schema": DRAFT_4, **obj(a=bounds)}
    assert narrowed_schema(schema)["properties"]["a"] == {"type": "integer", "minimum": 1, "maximum": 9}


def test_prefix_items_are_not_written_for_dialects_without_them() -> None:
    schema = {"$schema": DRAFT_7, **obj(a={"type": "array", "items": [TEXT]})}
    assert obstacle(schema, GEMINI) == ("items", "/properties/a")


def test_limits_are_checked_before_anything_is_sent() -> None:
    names = [f"p{number}" for number in range(30)]
    many = obj(*names, **dict.fromkeys(names, TEXT))
    assert narrowed_schema(many, ANTHROPIC)["required"] == names
    values = [str(number) for number in range(1001)]
    assert obstacle(obj(a={"type": "string", "enum": values})) == ("enum", "")
    deep: Any = TEXT
    for _ in range(11):
        deep = obj(a=deep)
    assert obstacle(deep) == ("properties", "")
    unions = [f"u{number}" for number in range(17)]
    assert obstacle(obj(**{name: {"anyOf": [TEXT, NULL]} for name in unions}), ANTHROPIC) == ("anyOf", "")


def test_changes_list_the_removed_keywords() -> None:
    schema = obj(a={"type": "string", "format": "uri"})
    adapted = adapted_to(OPENAI, schema, "relax")
    note = "format 'uri' is not supported"
    assert adapted.changes == (Change(kind="widened", keyword="format", path="/properties/a", note=note),)
    assert adapted.lossy


@pytest.mark.parametrize("root", [{"type": ["object", "null"]}, {}])
def test_a_root_that_may_be_more_than_an_object_is_tightened(root: dict[str, Any]) -> None:
    schema = {**root, "properties": {}, "additionalProperties": False}
    adapted = adapted_to(OPENAI, schema)
    assert Change(kind="tightened", keyword="type", path="", note="restricted the root to objects") in adapted.changes


@pytest.mark.parametrize("keyword", ["minimum", "maxLength", "multipleOf"])
def test_a_bound_beyond_double_precision_is_not_sent(keyword: str) -> None:
    assert obstacle(obj(a={"type": ["number", "string"], keyword: 10**400}))[0] == keyword


NODE = {"$ref": "#/$defs/node"}


@pytest.mark.parametrize(
    ("node", "taken"),
    [
        (obj("children", name=TEXT, children={"type": "array", "items": NODE}), True),
        (obj(name=TEXT, children={"type": "array", "items": NODE}), False),
        (obj(name=TEXT, next={"anyOf": [NODE, NULL]}), False),
        (obj("next", name=TEXT, next={"anyOf": [NODE, NULL]}), True),
        (obj("next", next=obj(again={"type": "array", "items": NODE})), True),
    ],
)
def test_gemini_accepts_recursion_only_through_optional_properties(node: Any, *, taken: bool) -> None:
    schema = {**obj(root=NODE), "$defs": {"node": node}}
    if taken:
        assert adapt(schema, GEMINI, "narrow") == Adapted(schema=schema)
    else:
        assert obstacle(schema, GEMINI) == ("$ref", "/$defs/node")


def test_gemini_recursion_is_removed_in_relax_mode() -> None:
    schema = {**obj(root=NODE), "$defs": {"node": obj(name=TEXT, children={"type": "array", "items": NODE})}}
    adapted = adapted_to(GEMINI, schema, "relax")
    assert [change.keyword for change in adapted.changes if change.kind == "widened"] == ["$ref"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "b$"}]},
        {**obj("x", x=TEXT, y=NULL), "allOf": [{"required": ["x"]}]},
        obj(x={"allOf": [obj(y=TEXT)], "description": "one"}),
        {**obj(x={"$ref": "#/definitions/n"}), "definitions": {"n": {"type": ["integer", "null"]}}},
        {
            **obj(x={"$ref": "#/definitions/n"}, y={"$ref": "#/$defs/m"}),
            "$defs": {"m": TEXT},
            "definitions": {"n": {"type": "array", "items": {"$ref": "#/definitions/o"}}, "o": NULL},
        },
    ],
)
def test_anthropic_gets_supported_all_of_and_definitions_unchanged(schema: Any) -> None:
    assert adapt(schema, ANTHROPIC, "narrow") == Adapted(schema=schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "allOf": [{"maxLength": 3}]},
        {"allOf": [{"type": "object", "properties": {"x": TEXT}}, {"type": "object", "properties": {"y": TEXT}}]},
        {**obj(x={"allOf": [NODE]}), "$defs": {"node": TEXT}},
        obj(x={"allOf": [{"type": "array", "items": TEXT, "minItems": 2}]}),
        obj(x={"allOf": [{"type": "string", "pattern": 7}]}),
        obj(x={"allOf": [{"enum": [[1], "a"]}]}),
        obj(x={"allOf": [TEXT], "type": ["string", {}]}),
        obj(x={"allOf": [TEXT], "type": "anything"}),
        {**obj(x=TEXT), "allOf": [{"required": [{}]}]},
    ],
)
def test_anthropic_gets_no_all_of_that_it_does_not_document(schema: Any) -> None:
    adapted = adapt(schema, ANTHROPIC, "narrow")
    assert isinstance(adapted, Inexpressible) or "allOf" not in str(adapted.schema)


def test_schemas_next_to_all_of_are_checked() -> None:
    schema = {"type": "object", "allOf": [{"required": ["x"]}], "additionalProperties": TEXT}
    assert adapt(schema, FIREWORKS, "narrow") == Adapted(schema=schema)
    for others in ({"type": "string", "minLength": 3}, {"not": TEXT}):
        assert isinstance(adapt({**schema, "additionalProperties": others}, FIREWORKS, "narrow"), Inexpressible)


def test_all_of_within_all_of_many_times_ends_soon() -> None:
    schema: Any = {"type": "string", "maxLength": 7}
    for _ in range(300):
        schema = {"allOf": [schema]}
    assert narrowed_schema(schema, ANTHROPIC) == {"type": "string", "pattern": "^.{0,7}$"}


@pytest.mark.parametrize("subset", SUBSETS.values(), ids=SUBSETS.keys())
def test_only_objects_are_distinguished_by_a_tag(subset: Subset) -> None:
    """Reject a text, which is valid for both alternatives and so not for the `oneOf`."""
    both = [{**obj(k={"const": tag}), "type": ["object", "string"]} for tag in ("x", "y")]
    narrowed = Draft202012Validator(narrowed_schema(obj(a={"oneOf": both}), subset))
    assert narrowed.is_valid({"a": {"k": "x"}})
    assert not narrowed.is_valid({"a": "text"})


def kind(name: str, *required: str, **properties: Any) -> dict[str, Any]:
    """Return the schema that Pydantic writes for a model whose tag has a default."""
    tag = {"const": name, "default": name, "type": "string"}
    return {"type": "object", "properties": {"kind": tag, **properties}, "required": list(required)}


@pytest.mark.parametrize("subset", [ANTHROPIC, GEMINI, OPENAI], ids=lambda subset: subset.name)
def test_optional_constant_that_distinguishes_alternatives_is_required(subset: Subset) -> None:
    schema = {
        **obj(
            what={
                "oneOf": [{"$ref": "#/$defs/water"}, {"$ref": "#/$defs/fire"}],
                "discriminator": {"propertyName": "kind"},
            }
        ),
        "$defs": {"water": kind("water", "litres", litres={"type": "integer"}), "fire": kind("fire")},
    }
    adapted = adapted_to(subset, schema)
    narrowed: Any = adapted.schema
    alternatives = narrowed["properties"]["what"]["anyOf"]
    assert ["kind" in one["required"] for one in alternatives] == [True, True]
    notes = [change.note for change in adapted.changes if change.keyword == "oneOf" and change.kind == "tightened"]
    assert notes == [
        "alternative 0 requires property 'kind', unlike alternative 1",
        "alternative 1 requires property 'kind', unlike alternative 0",
    ]
    validator, original = Draft202012Validator(narrowed), Draft202012Validator(schema)
    for what in ({"kind": "water", "litres": 3}, {"kind": "fire"}):
        assert validator.is_valid({"what": what})
        assert original.is_valid({"what": what})
    # valid for the fire only because of its default, and valid for the water, too
    assert not original.is_valid({"what": {"litres": 3}})
    assert not validator.is_valid({"what": {"litres": 3}})


def test_an_alternative_that_requires_its_constant_needs_no_more() -> None:
    schema = obj(what={"oneOf": [obj(kind={"const": "a"}), obj("kind", kind={"const": "b"}, n=NULL)]})
    adapted = adapted_to(ANTHROPIC, schema)
    assert [change.path for change in adapted.changes if change.kind == "tightened"] == ["/properties/what"]


def test_large_schema_is_likely_rejected_without_documented_sizes() -> None:
    names = {f"p{number}": TEXT for number in range(31)}
    adapted = adapted_to(GEMINI, obj(*names, **names))
    assert adapted.foretold == ("likely too complex: 31 optional properties",)
    small = adapted_to(GEMINI, obj(**names))
    assert small.foretold == ()


def test_a_documented_limit_is_met_or_refused_and_not_foretold() -> None:
    names = {f"p{number}": TEXT for number in range(31)}
    adapted = adapted_to(ANTHROPIC, obj(*names, **names))
    assert adapted.foretold == ()
    assert len(narrowed_schema(obj(*names, **names), ANTHROPIC)["required"]) == 31


def test_older_profile_supports_less() -> None:
    schema = obj(a={"type": "string", "pattern": "^a$"})
    assert adapt(schema, PROFILES["openai@2026-08"], "narrow") == Adapted(schema=schema)
    assert obstacle(schema, PROFILES["openai@2024-08"]) == ("pattern", "/properties/a")


def test_the_newest_profile_is_the_providers_unless_dated() -> None:
    assert find_subset("openai") is OPENAI is find_subset("openai@2026-08")
    assert find_subset("openai@2024-08") is PROFILES["openai@2024-08"]
    assert find_subset("openai@1999-01") is find_subset("nobody") is None
    assert set(SUBSETS) == {"openai", "anthropic", "bedrock", "gemini", "groq", "xai", "mistral", "fireworks"}
    assert all(subset.source.startswith("https://") for subset in PROFILES.values())
    assert all(subset.date <= SUBSETS[subset.name].date for subset in PROFILES.values())


def test_item_counts_are_removed_for_providers_without_them() -> None:
    assert property_schema({"type": "array", "items": TEXT, "minItems": 0}, GROQ) == {"type": "array", "items": TEXT}
    assert obstacle(obj(a={"type": "array", "items": TEXT, "minItems": 1}), GROQ) == ("minItems", "/properties/a")


@pytest.mark.parametrize("subset", SUBSETS.values(), ids=SUBSETS.keys())
def test_properties_keep_the_order_in_which_the_schema_names_them(subset: Subset) -> None:
    schema = {
        "type": "object",
        "properties": {"z": TEXT, "a": {"oneOf": [TEXT, NULL]}, "m": obj(y=TEXT, b=NULL)},
        "required": ["m", "z", "x"],
    }
    narrowed: Any = narrowed_schema(schema, subset)
    assert list(narrowed["properties"]) == ["z", "a", "m", "x"]
    assert list(narrowed["properties"]["m"]["properties"]) == ["y", "b"]


@pytest.mark.parametrize(
    "keywords",
    [
        {"propertyNames": {"type": "string"}},
        {"propertyNames": {"type": ["string", "null"], "description": "a name"}},
        {"propertyNames": True},
        {"propertyNames": {}},
        {"propertyNames": {"minLength": 0, "pattern": ".*"}},
        {"propertyNames": {"allOf": [{"type": "string"}, {"minimum": 3}]}},
        {"propertyNames": {"$ref": "#/$defs/name"}},
        {"patternProperties": {}},
        {"patternProperties": {"^x-": {}}},
        {"minProperties": 0},
        {"unevaluatedProperties": {}},
        {"dependentRequired": {"a": []}},
        {"dependentSchemas": {"a": True}},
        {"dependencies": {}},
    ],
)
def test_an_object_keyword_that_accepts_everything_is_dropped(keywords: dict[str, Any]) -> None:
    plain = {"type": "object", "additionalProperties": {"type": "string"}}
    if keywords.get("patternProperties"):
        plain = {"type": "object"}
    schema = {"$defs": {"name": TEXT}, **plain, **keywords}
    assert narrowed_schema(schema, GEMINI) == plain
    (keyword,) = keywords
    assert ("rewritten", keyword, "") in changes(schema, GEMINI)
    closed = {**obj(a=TEXT), **keywords, "$defs": {"name": TEXT}}
    assert narrowed_schema(closed, OPENAI) == obj(a=TEXT)


@pytest.mark.parametrize(
    "keywords",
    [
        {"type": "string", "minLength": 0},
        {"type": "string", "pattern": ".*"},
        {"type": "array", "items": TEXT, "minItems": 0},
        {"type": "array", "items": TEXT, "uniqueItems": False},
        {"type": "array", "items": TEXT, "unevaluatedItems": True},
        {"type": "array", "items": TEXT, "contains": {"type": "null"}, "minContains": 0},
    ],
)
def test_a_scalar_or_array_keyword_that_accepts_everything_is_dropped(keywords: dict[str, Any]) -> None:
    plain = {name: value for name, value in keywords.items() if name in ("type", "items")}
    assert property_schema(keywords, GROQ) == plain


@pytest.mark.parametrize(
    "keywords",
    [
        {"propertyNames": {"type": "integer"}},
        {"propertyNames": {"type": "string", "minLength": 1}},
        {"propertyNames": {"$ref": "#/$defs/missing"}},
        {"propertyNames": False},
        {"propertyNames": {"pattern": "^.*$"}},  # no line breaks
        {"unevaluatedProperties": False},
    ],
)
def test_an_object_keyword_that_may_reject_is_not_dropped(keywords: dict[str, Any]) -> None:
    (keyword,) = keywords
    schema = {"type": "object", "additionalProperties": {"type": "string"}, **keywords}
    assert obstacle(schema, GEMINI) == (keyword, "")


def test_patterns_that_exempt_properties_of_closed_objects_are_kept() -> None:
    schema = {**obj(a=TEXT), "patternProperties": {"^x-": {}}}
    assert ("tightened", "patternProperties", "") in changes(schema, OPENAI)


def test_keyword_that_accepts_everything_still_implies_the_type() -> None:
    assert narrowed_schema({"propertyNames": {"type": "string"}}, GEMINI)["type"] == "object"
