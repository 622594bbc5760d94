"""Test that rewritten schemas accept exactly the instances of the originals."""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft4Validator, Draft7Validator, Draft201909Validator, Draft202012Validator, validator_for

from pytest_jsbench.adaptation import rewriting
from pytest_jsbench.adaptation.equivalence import accept_the_same
from pytest_jsbench.adaptation.inlining import inline
from pytest_jsbench.adaptation.reordering import reorder
from pytest_jsbench.adaptation.rewriting import NotRewritten, Rewriting, Rewritten, is_refuted, rewrite_within
from pytest_jsbench.core.cases import BrokenCase
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.labelled import open_builtin_answers
from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_7, DRAFT_2019_09, DRAFT_2020_12, Dialect
from tests.support.fuzzing import examples
from tests.support.public_data import needs_suite, suite
from tests.support.random_schemas import chain, nodes, schemas, values

REFERENCE = {"$ref": "#/$defs/a"}


def inlined(schema: Any, dialect: Dialect = DRAFT_2020_12) -> Any:
    """Return the schema with references replaced, and check that the original is unchanged."""
    before = json.dumps(schema)
    result = inline(schema, dialect)
    assert json.dumps(schema) == before
    assert isinstance(result, Rewritten), result
    return result.schema


def why_not(schema: Any, dialect: Dialect = DRAFT_2020_12) -> str:
    """Return the reason why no reference is replaced."""
    result = inline(schema, dialect)
    assert isinstance(result, NotRewritten), result
    return result.message


def reordered(schema: Any, seed: int = 0) -> Any:
    """Return the schema in another order."""
    result = reorder(copy.deepcopy(schema), seed)
    assert isinstance(result, Rewritten), result
    return result.schema


def test_order_changes_properties_required_names_and_enum_values() -> None:
    schema = {
        "properties": {"a": {"enum": ["x", "y", 1]}, "b": {}, "c": {"properties": {"d": {}, "e": {}}}},
        "required": ["a", "b"],
    }

    rewritten = reordered(schema)

    assert rewritten == {**schema, "properties": rewritten["properties"], "required": rewritten["required"]}
    assert list(rewritten["properties"]) != ["a", "b", "c"]
    assert list(rewritten["properties"]["c"]["properties"]) == ["e", "d"]
    assert rewritten["required"] == ["b", "a"]
    assert rewritten["properties"]["a"]["enum"] != ["x", "y", 1]
    assert Counter(map(repr, rewritten["properties"]["a"]["enum"])) == Counter(map(repr, ["x", "y", 1]))


def test_order_depends_only_on_the_seed() -> None:
    schema: Any = {"properties": {name: {} for name in "abcdefgh"}}

    assert json.dumps(reordered(schema, 1)) == json.dumps(reordered(schema, 1))
    assert json.dumps(reordered(schema, 1)) != json.dumps(reordered(schema, 2))
    assert list(reordered(schema, 0)["properties"]) == ["a", "g", "h", "d", "e", "c", "f", "b"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("enum", [[1, True], [0, False], [[1], [True]], ["a", "b"]])
def test_order_is_never_the_given_one(enum: list[Any], seed: int) -> None:
    for given_order in (enum, enum[::-1]):
        assert json.dumps(reordered({"enum": given_order}, seed)["enum"]) == json.dumps(given_order[::-1])


def test_order_ignores_names_and_values_that_look_like_keywords() -> None:
    schema = {"properties": {"enum": {"const": {"required": ["a", "b"]}}}, "default": {"enum": [1, 2]}}

    assert isinstance(reorder(schema, 0), NotRewritten)


@pytest.mark.parametrize("schema", [True, {}, {"properties": {"a": {}}, "required": ["a"], "enum": [1, 1.0]}])
def test_order_needs_two_different_entries(schema: Any) -> None:
    assert reorder(schema, 0) == NotRewritten(
        message="the schema has no two properties, required names or enum values to reorder"
    )


def test_inline_replaces_references_and_drops_unused_definitions() -> None:
    schema = {
        "properties": {"x": REFERENCE, "y": {"items": {"$ref": "#/$defs/b"}}},
        "$defs": {"a": {"type": "string"}, "b": {"anyOf": [REFERENCE, {"type": "null"}]}},
    }

    assert inlined(schema) == {
        "properties": {
            "x": {"type": "string"},
            "y": {"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        }
    }


def test_inline_keeps_recursive_references_with_their_definitions() -> None:
    node = {"properties": {"next": {"$ref": "#/$defs/node"}, "value": REFERENCE}}
    schema = {"properties": {"first": {"$ref": "#/$defs/node"}}, "$defs": {"node": node, "a": {"type": "string"}}}

    result = inline(schema, DRAFT_2020_12)

    assert isinstance(result, Rewritten)
    expanded = {"properties": {"next": {"$ref": "#/$defs/node"}, "value": {"type": "string"}}}
    assert result.schema == {"properties": {"first": {"$ref": "#/$defs/node"}}, "$defs": {"node": expanded}}
    assert result.change.note == "1 reference replaced by the definition; kept: 2 recursive"
    assert (result.change.kind, result.change.keyword, result.change.path) == ("inlined", "$ref", "")


def test_inline_keeps_annotations_next_to_a_reference() -> None:
    schema = {"items": {"description": "site", **REFERENCE}, "$defs": {"a": {"type": "string", "title": "A"}}}

    assert inlined(schema)["items"] == {"description": "site", "type": "string", "title": "A"}


@pytest.mark.parametrize(
    "beside", [{"minLength": 2}, {"title": "other"}, {"unevaluatedProperties": False}, {"type": "string"}]
)
def test_inline_applies_keywords_next_to_a_reference_like_all_of(beside: dict[str, Any]) -> None:
    schema = {"items": {**REFERENCE, **beside}, "$defs": {"a": {"type": "string", "title": "A"}}}

    assert inlined(schema)["items"] == {**beside, "allOf": [{"type": "string", "title": "A"}]}


def test_inline_appends_to_all_of_so_that_its_places_stay_the_same() -> None:
    schema = {"items": {**REFERENCE, "allOf": [{"minLength": 1}]}, "$defs": {"a": {"type": "string"}}}

    assert inlined(schema)["items"] == {"allOf": [{"minLength": 1}, {"type": "string"}]}


def test_inline_ignores_keywords_next_to_a_reference_in_old_drafts() -> None:
    schema = {
        "$schema": DRAFT_7.uri,
        "$ref": "#/definitions/a",
        "minLength": 2,
        "title": "kept",
        "definitions": {"a": {"type": "string"}},
    }

    assert inlined(schema) == {"$schema": DRAFT_7.uri, "title": "kept", "type": "string"}


def test_inline_uses_the_default_dialect_of_the_judge() -> None:
    schema = {"items": {**REFERENCE, "minLength": 2}, "$defs": {"a": {"type": "string"}}}

    assert inlined(schema, DRAFT_7) == {"items": {"type": "string"}}
    assert inlined(schema) == {"items": {"minLength": 2, "allOf": [{"type": "string"}]}}


def test_inline_replaces_references_to_boolean_schemas() -> None:
    assert inlined({"items": REFERENCE, "$defs": {"a": False}}) == {"items": False}
    assert "with an unknown target" in why_not({"items": REFERENCE, "$defs": {"a": True}}, DRAFT_4)


def test_inline_keeps_references_in_data() -> None:
    data = {"default": REFERENCE, "const": REFERENCE, "x-note": {"items": REFERENCE}}
    schema = {"items": {**REFERENCE}, "$defs": {"a": {"type": "string"}}, **data}

    assert inlined(schema) == {"items": {"type": "string"}, **data}


def test_inline_keeps_definitions_that_are_used_in_unknown_keywords() -> None:
    node = {"properties": {"next": {"$ref": "#/components/schemas/node"}, "code": {"$ref": "#/$defs/code"}}}
    schema = {
        "properties": {"first": {"$ref": "#/components/schemas/node"}, "x": REFERENCE},
        "components": {"schemas": {"node": node}},
        "$defs": {"a": {"type": "string"}, "code": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"minLength": 1}},
    }

    assert inlined(schema) == {
        "properties": {"first": {"$ref": "#/components/schemas/node"}, "x": {"type": "string"}},
        "components": {"schemas": {"node": node}},
        "$defs": {"code": {"anyOf": [{"minLength": 1}]}},
    }


def test_inline_replaces_references_in_the_schema_of_a_content() -> None:
    schema = {"contentMediaType": "application/json", "contentSchema": REFERENCE, "$defs": {"a": {"minLength": 1}}}

    assert inlined(schema) == {"contentMediaType": "application/json", "contentSchema": {"minLength": 1}}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (True, "the schema has no $ref to inline"),
        ({"type": "string"}, "the schema has no $ref to inline"),
        ({"properties": {"$ref": {"type": "string"}}}, "the schema has no $ref to inline"),
        ({"items": {"$ref": "#"}}, "no $ref can be inlined: 1 recursive"),
        ({"items": {"$ref": "https://example.com/a"}}, "no $ref can be inlined: 1 with an unknown target"),
        (
            {"items": REFERENCE, "$defs": {"a": {"items": {"$anchor": "x"}}}},
            "no $ref can be inlined: 1 of a definition with an identifier",
        ),
        (
            {"items": {"$dynamicRef": "#x"}, "contains": REFERENCE, "$defs": {"a": {"$dynamicAnchor": "x"}}},
            "the schema has a dynamic reference, whose target depends on the path of evaluation",
        ),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$schema": DRAFT_7.uri}}}, "1 of a definition with an identifier"),
        (
            {"$id": "https://example.com/a", "$schema": DRAFT_7.uri, "$ref": "#/$defs/a", "$defs": {"a": {}}},
            "1 of a definition with an identifier",
        ),
        (
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"contains": {"$ref": "#/$defs/b"}, "$defs": {}}, "b": {"items": {"$ref": "#/$defs/b"}}},
            },
            "the definition of the whole schema has definitions of its own",
        ),
        ({"$ref": "#/$defs/a", "$defs": {"a": True}}, "the schema is only a reference to true or false"),
        (
            {"$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {}}, "items": {"$ref": "#"}},
            "no $ref can be inlined: 1 recursive",
        ),
        (chain(12), "inlining would make the schema too large, since definitions use other definitions"),
        ({"$schema": "https://example.com/mine", "items": REFERENCE, "$defs": {"a": {}}}, "no $ref to inline"),
        (
            {
                "$schema": DRAFT_7.uri,
                "items": {"$ref": "#/$defs/a", "not": {"items": {"$ref": "#/items/not"}}},
                "contains": {"$ref": "#/items/not"},
                "$defs": {"a": {"type": "string"}},
            },
            "/items/not would no longer exist",
        ),
    ],
)  # fmt: skip
def test_inline_reports_why_no_reference_is_replaced(schema: Any, reason: str) -> None:
    assert reason in why_not(schema)


@pytest.mark.parametrize("text", ["order", "order:7", "inline"])
def test_rewriting_is_written_as_it_is_parsed(text: str) -> None:
    assert str(Rewriting.parse(text)) == text


@pytest.mark.parametrize("text", ["", "both", "inline:1", "order:", "order:x", "order:-1"])
def test_rewriting_with_another_name_is_invalid(text: str) -> None:
    with pytest.raises(ValueError, match="expected order, order:SEED or inline, found"):
        Rewriting.parse(text)


def test_rewriting_keeps_the_order_through_the_child_process() -> None:
    schema = {"properties": {name: {} for name in "abc"}, "items": REFERENCE, "$defs": {"a": {"type": "string"}}}

    ordered = rewrite_within(schema, Rewriting(kind="order", seed=3), DRAFT_2020_12.uri)
    replaced = rewrite_within(schema, Rewriting(kind="inline"), DRAFT_2020_12.uri)

    assert isinstance(ordered, Rewritten)
    assert isinstance(replaced, Rewritten)
    assert json.dumps(ordered.schema) == json.dumps(reordered(schema, 3))
    assert replaced.schema == inlined(schema)


def test_rewriting_beyond_the_time_limit_is_reported() -> None:
    result = rewrite_within(chain(9), Rewriting(kind="inline"), DRAFT_2020_12.uri, seconds=0.0001)

    assert isinstance(result, NotRewritten)
    assert result.message.startswith("the schema cannot be rewritten within")


def test_algebra_refutes_a_schema_that_accepts_other_instances() -> None:
    schema = {"properties": {"a": REFERENCE}, "$defs": {"a": {"type": "string"}}}

    assert is_refuted(schema, {"properties": {"a": {"type": "integer"}}}, DRAFT_2020_12.uri)
    assert not is_refuted(schema, inlined(schema), DRAFT_2020_12.uri)
    assert accept_the_same(schema, inlined(schema), DRAFT_2020_12.uri) is True


def test_refuted_rewriting_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "is_refuted", lambda *_: True)

    result = rewrite_within({"enum": [1, 2]}, Rewriting(kind="order"), DRAFT_2020_12.uri)

    assert result == NotRewritten(
        message="the rewritten schema does not accept the same answers as the original", failed=True
    )


def test_algebra_that_cannot_decide_refutes_nothing() -> None:
    schema = {"properties": {"a": {"$ref": "#"}, "b": REFERENCE}, "$defs": {"a": {"type": "string"}}}

    assert accept_the_same(schema, inlined(schema), DRAFT_2020_12.uri) is None
    assert not is_refuted(schema, inlined(schema), DRAFT_2020_12.uri)


def rewritings(schema: Any, dialect: Dialect) -> list[Any]:
    """Return the schema in each rewriting that applies to it."""
    results = [reorder(schema, 0), reorder(schema, 1), inline(schema, dialect)]
    return [result.schema for result in results if isinstance(result, Rewritten)]


def test_rewritten_builtin_schemas_accept_the_same_labelled_answers() -> None:
    checked: Counter[bool] = Counter()
    answers = open_builtin_answers(Selection(source="builtin"))
    for key in answers.keys():
        case = answers.case(key)
        assert not isinstance(case, BrokenCase)
        for rewritten in rewritings(case.schema, DRAFT_2020_12):
            schema: Any = case.schema
            validator, original = (validator_for(each, validate_formats=True) for each in (rewritten, schema))
            for instance in answers.instances(key):
                value = json.loads(instance.text)
                checked[original.is_valid(value)] += 1
                assert validator.is_valid(value) is original.is_valid(value), (key, rewritten, value)
    assert min(checked.values()) > 100


@needs_suite
@pytest.mark.parametrize(
    ("folder", "dialect", "validator"),
    [
        ("draft4", DRAFT_4, Draft4Validator),
        ("draft7", DRAFT_7, Draft7Validator),
        ("draft2019-09", DRAFT_2019_09, Draft201909Validator),
        ("draft2020-12", DRAFT_2020_12, Draft202012Validator),
    ],
)
def test_rewritten_schemas_of_the_official_suite_accept_the_same(folder: str, dialect: Dialect, validator: Any) -> None:
    checked = 0
    for file, case in suite(folder):
        if "localhost" in json.dumps(case["schema"]) or file.startswith("optional/"):
            continue
        for rewritten in rewritings(case["schema"], dialect):
            compiled = validator(rewritten)
            for test in case["tests"]:
                checked += 1
                assert compiled.is_valid(test["data"]) is test["valid"], (file, test["description"], rewritten)
    assert checked > 100


_LEAVES: list[Any] = [
    True, False, {}, {"type": "string"}, {"type": "array"}, {"required": ["a", "b"]}, {"enum": ["a", 1, None]},
    {"minLength": 1}, {"minItems": 2}, {"title": "T", "minProperties": 1},
]  # fmt: skip
_VALUES = values(st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "a", "ab"]))
_NAMES = ("#/$defs/d", "#/$defs/e")


def with_definitions() -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for schemas with references, some of them with other keywords next to them."""
    definitions = st.fixed_dictionaries({"d": schemas(_LEAVES, "#/$defs/e"), "e": schemas(_LEAVES)})
    beside = st.sampled_from([{}, {"$ref": "#/$defs/d"}, {"$ref": "#/$defs/e", "title": "R"}])
    return st.builds(
        lambda root, beside, defs: {**root, **beside, "$defs": defs},
        nodes(schemas(_LEAVES, *_NAMES)),
        beside,
        definitions,
    )


@pytest.mark.slow
@examples(1000)
@given(schema=with_definitions(), answers=st.lists(_VALUES, min_size=3, max_size=8))
def test_rewritten_random_schemas_accept_the_same(schema: dict[str, Any], answers: list[Any]) -> None:
    for dialect, validator in ((DRAFT_2020_12, Draft202012Validator), (DRAFT_7, Draft7Validator)):
        original = validator(schema)
        for rewritten in rewritings(schema, dialect):
            compiled = validator(rewritten)
            for value in answers:
                assert compiled.is_valid(value) is original.is_valid(value), (dialect.uri, rewritten, value)
            assert accept_the_same(schema, rewritten, dialect.uri) is not False
