from __future__ import annotations

import json
import random
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.core.errors import JudgeError
from pytest_jsbench.schemas.dialects import DIALECTS, Dialect
from pytest_jsbench.verdicts import FailureType, Judge, JudgePolicy
from pytest_jsbench.verdicts.in_process import InProcessJudge
from pytest_jsbench.verdicts.schema_text import ReadSchema, read_schema

DRAFT_4 = "http://json-schema.org/draft-04/schema#"

LOOP: dict[str, Any] = {}
LOOP["items"] = LOOP


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


BROKEN: list[tuple[Any, str]] = [
    (5, "not_a_schema"),
    (None, "not_a_schema"),
    ([], "not_a_schema"),
    ("string", "not_a_schema"),
    (nested(300), "too_deep"),
    (nested(100_000), "too_deep"),
    ({"const": {1, 2}}, "not_json"),
    ({"const": float("nan")}, "not_json"),
    (LOOP, "not_json"),
    ({"const": "\ud800"}, "not_json"),
    ({"type": "text"}, "metaschema"),
    ({"minimum": "1"}, "metaschema"),
    ({"properties": []}, "metaschema"),
    ({"$schema": DRAFT_4, "required": []}, "metaschema"),
    # draft 4, 5.5.1: the array MUST have at least one element, and elements MUST be unique
    ({"$schema": DRAFT_4, "enum": []}, "metaschema"),
    ({"$schema": DRAFT_4, "properties": {"a": {"enum": ["x", "y", "x"]}}}, "metaschema"),
    ({"$schema": DRAFT_4, "items": {"enum": [{"a": 1}, {"a": 1.0}]}}, "metaschema"),
    ({"$schema": "http://json-schema.org/draft-03/schema#"}, "unknown_dialect"),
    ({"$schema": "https://example.com/mine"}, "unknown_dialect"),
    ({"$schema": 5}, "unknown_dialect"),
    ({"$ref": "#/$defs/none"}, "unresolvable_reference"),
    ({"properties": {"a": {"$ref": "https://example.com/x"}}}, "unresolvable_reference"),
    ({"$ref": "other.json"}, "unresolvable_reference"),
    ({"pattern": "("}, "pattern"),
    ({"patternProperties": {"[": {}}}, "pattern"),
]


@pytest.mark.parametrize(("schema", "reason"), BROKEN)
@pytest.mark.parametrize("validator", ["judge", "jsonschema_judge"])
def test_a_broken_schema_is_found_before_and_excluded_after(
    request: pytest.FixtureRequest, validator: str, schema: Any, reason: str
) -> None:
    judge: Judge = request.getfixturevalue(validator)
    problem = judge.inspect(schema)
    assert problem is not None
    assert (problem.failure_type, problem.reason) == (FailureType.INVALID_SCHEMA, reason)
    assert problem.message.isprintable()
    assert len(problem.message) <= 300
    verdict = judge.judge(schema, "not even JSON")
    assert (verdict.failure_type, verdict.valid) == (FailureType.INVALID_SCHEMA, None)
    assert (verdict.reason, verdict.message) == (problem.reason, problem.message)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        False,
        {},
        {"$schema": "https://json-schema.org/draft/2020-12/schema#"},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"$ref": "http://json-schema.org/draft-04/schema#"},
        {"items": {"$ref": "#"}},
        {"pattern": r"^PUBMED:\{d}"},
        {"patternProperties": {r"\_": {}}},
        {"required": []},
        # from draft 6 on an enum SHOULD have values, and distinct ones
        *({"$schema": later.uri, "enum": values} for later in DIALECTS[1:] for values in ([], [1, 1])),
        {"$schema": DRAFT_4, "enum": [1, True, "1"], "default": {"enum": []}, "x": {"enum": []}},
        {"$schema": DRAFT_4, "properties": {"enum": {"pattern": "^\\w$"}}},
        nested(120),
        MappingProxyType({"properties": MappingProxyType({"a": {"type": "string"}})}),
    ],
)
def test_a_sound_schema_has_no_problem(judge: Judge, schema: Any) -> None:
    assert judge.inspect(schema) is None


def test_the_verdict_names_the_dialect(judge: Judge) -> None:
    assert judge.judge({"$schema": "http://json-schema.org/draft-04/schema"}, "1").dialect == DRAFT_4
    assert judge.judge(True, "nonsense").dialect == "https://json-schema.org/draft/2020-12/schema"


def test_the_default_dialect_is_the_policys() -> None:
    schema = {"type": "integer"}
    with Judge(JudgePolicy(default_dialect=DRAFT_4)) as judge:
        assert judge.judge(schema, "1.0").valid is False
        assert judge.judge({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, "1.0").passed


def test_an_unknown_default_dialect_is_refused_with_the_nearest_known() -> None:
    with pytest.raises(JudgeError, match=r"did you mean 'http://json-schema\.org/draft-07/schema#'"):
        Judge(JudgePolicy(default_dialect="http://json-schema.org/draft-07/scheme#"))


TREE: dict[str, Any] = {"$id": "tree", "$dynamicAnchor": "node", "properties": {"k": {"$dynamicRef": "#node"}}}
ROOT: dict[str, Any] = {
    "$id": "https://example.com/root",
    "$dynamicAnchor": "node",
    "required": ["only"],
    "$defs": {"tree": TREE},
}


@pytest.mark.parametrize(
    "inner",
    [
        {"$id": "mid", "$ref": "tree"},
        {"$id": "mid", "allOf": [{"$id": "deeper", "$ref": "tree"}]},
        {"anyOf": [False, {"$id": "mid", "$ref": "tree"}]},
        {**TREE, "$id": "in-place"},
        {"$ref": "#/$defs/tree"},
        {"$ref": "tree"},
    ],
)
@pytest.mark.parametrize("root", [ROOT, {key: value for key, value in ROOT.items() if key != "$id"}])
def test_dynamic_reference_resolves_to_the_outermost_resource(
    judge: Judge, inner: dict[str, Any], root: dict[str, Any]
) -> None:
    schema = {**root, "properties": {"x": inner}}
    assert judge.judge(schema, '{"only": 1, "x": {"k": {}}}').valid is False
    assert judge.judge(schema, '{"only": 1, "x": {"k": {"only": 1}}}').valid is True


def test_rules_of_the_inner_resource_do_not_apply_outside_of_it(judge: Judge) -> None:
    tree = {**TREE, "required": ["only"]}
    root = {"$id": "https://example.com/root", "$dynamicAnchor": "node", "$defs": {"tree": tree}}
    verdict = judge.judge({**root, "properties": {"x": {"$id": "mid", "$ref": "tree"}}}, '{"x": {"only": 1, "k": {}}}')
    assert (verdict.valid, verdict.second_opinion) == (True, "agrees")


def test_recursive_reference_past_a_resource_is_undecided(
    judge: Judge,
) -> None:
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$id": "https://example.com/root",
        "$recursiveAnchor": True,
        "properties": {"x": {"$id": "mid", "$ref": "tree"}},
        "$defs": {"tree": {"$id": "tree", "$recursiveAnchor": True, "properties": {"k": {"$recursiveRef": "#"}}}},
    }
    assert judge.judge(schema, '{"x": {"k": {}}}').second_opinion == "undecided"
    schema["properties"]["x"]["$recursiveAnchor"] = True
    assert judge.judge({**schema, "required": ["x"]}, '{"x": {"k": {}}}').valid is False


@pytest.mark.parametrize("name", ["Top<A>", "a|b", "a b", "a[]", "é", "a^b", "a{b}", "a`b", 'a"b', "a#b", "a\\b"])
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.uri)
def test_reference_with_invalid_uri_characters_is_resolved_and_noted(judge: Judge, name: str, dialect: Dialect) -> None:
    schema = {"$schema": dialect.uri, "$ref": f"#/definitions/{name}", "definitions": {name: {"type": "string"}}}
    verdict = judge.judge(schema, "1")
    assert (verdict.keyword, verdict.notes, verdict.second_opinion) == ("type", ("unencoded_reference",), "agrees")
    assert judge.judge(schema, "x").notes == ("unencoded_reference",)


def test_well_formed_reference_has_no_note(judge: Judge) -> None:
    schema = {"$ref": "#/definitions/a%3Cb~1c", "definitions": {"a<b/c": {"type": "string"}}}
    assert judge.judge(schema, '"x"').notes == ()


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#"}}}])
def test_schema_with_infinite_references_is_not_judged(judge: Judge, schema: dict[str, Any]) -> None:
    problem = judge.inspect(schema)
    assert problem is not None
    assert (problem.failure_type, problem.reason) == (FailureType.UNJUDGED, "endless_reference")
    assert problem.message.startswith("$: the references form a cycle")
    assert judge.judge(schema, "1").valid is None


@pytest.mark.parametrize("validator", ["both", "jsonschema"])
@pytest.mark.parametrize("pattern", [{}, {"pattern": "^a"}])
def test_of_several_faults_the_first_by_its_place_is_named(validator: Any, pattern: dict[str, str]) -> None:
    names = random.Random(3).sample("abcdefghijkl", 12)
    schema = {"properties": {name: {"minLength": -1, **pattern} for name in names}}

    problem = InProcessJudge(JudgePolicy(validator=validator)).inspect(json.dumps(schema))

    assert problem is not None
    assert problem.message.startswith("$.properties.a.minLength: -1 is less than the minimum of 0")


@pytest.mark.parametrize("length", [10, 200_000])
@pytest.mark.parametrize("dialect", [DIALECTS[0], DIALECTS[-1]], ids=lambda dialect: dialect.validator)
def test_of_a_schema_of_any_size_the_first_fault_by_its_place_is_named(dialect: Dialect, length: int) -> None:
    bounds = {"minimum": 1, "exclusiveMinimum": True} if dialect is DIALECTS[0] else {}
    definitions = {"$defs": {"a": {"minLength": -1}}, "definitions": {"a": {"minLength": -1}}}
    schema = {"$schema": dialect.uri, "title": "x" * length, **definitions, **bounds, "anyOf": 3}

    problem = InProcessJudge(JudgePolicy()).inspect(json.dumps(schema))

    assert problem is not None
    assert problem.message == '$.anyOf: 3 is not of type "array"'


@pytest.mark.parametrize("dialect", DIALECTS[:3], ids=lambda dialect: dialect.uri)
@pytest.mark.parametrize(
    "identifier", ["release-it#release-it", "http://example.com/a#b", "urn:x:y#z", "http://example.com/a.json#/"]
)
@pytest.mark.parametrize("validator", ["both", "jsonschema-rs", "jsonschema"])
def test_schema_with_a_fragment_in_its_identifier_is_judged(dialect: Dialect, identifier: str, validator: Any) -> None:
    schema = {
        "$schema": dialect.uri,
        dialect.id_keyword: identifier,
        "properties": {"a": {"$ref": "#/definitions/x"}},
        "definitions": {"x": {"type": "string"}},
    }
    with Judge(JudgePolicy(validator=validator)) as judge:
        verdicts = [judge.judge(schema, text) for text in ('{"a": "s"}', '{"a": 1}')]
    assert [verdict.valid for verdict in verdicts] == [True, False]


@pytest.mark.parametrize("reference", ["#name", "thing#name", "thing", "#"])
def test_reference_to_the_fragment_of_an_identifier_leads_to_its_schema(judge: Judge, reference: str) -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "thing#name",
        "type": "object",
        "properties": {"a": {"$ref": reference}},
    }
    inner = {"$schema": "http://json-schema.org/draft-07/schema#", "allOf": [schema, {"$ref": "thing#name"}]}
    assert judge.judge(schema, '{"a": {"a": {}}}').passed
    assert judge.judge(schema, '{"a": {"a": 1}}').violations[0].instance_path == "$.a.a"
    assert judge.judge(inner, '{"a": {"a": 1}}').violations[0].instance_path == "$.a.a"


def test_identifier_with_a_fragment_is_refused_from_2019_on(judge: Judge) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2019-09/schema", "$id": "thing#name"}
    assert judge.judge(schema, "1").reason == "metaschema"


@pytest.mark.parametrize(
    ("schema", "draft"),
    [
        ({"type": "array", "items": [{"type": "string"}]}, "draft-07"),
        ({"items": [True], "unevaluatedItems": False}, "2019-09"),
        ({"minimum": 1, "exclusiveMinimum": True}, "draft-04"),
        ({"$ref": "#/definitions/a", "definitions": {"a": {"$id": "#b", "items": [True]}}}, "draft-07"),
        ({"properties": {"a": {"$ref": "#b"}}, "definitions": {"b": {"id": "#b"}}}, "draft-04"),
        ({"type": "any"}, None),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "exclusiveMinimum": True}, None),
    ],
)
def test_invalid_schema_names_the_draft_in_which_it_is_valid(judge: Judge, schema: Any, draft: str | None) -> None:
    problem = judge.inspect(schema)
    assert problem is not None
    assert problem.valid_in == draft
    assert draft is None or problem.message.endswith(f"(the schema is valid in {draft})")


def test_invalid_schema_of_an_older_default_names_a_newer_draft() -> None:
    with Judge(JudgePolicy(default_dialect=DRAFT_4)) as judge:
        problem = judge.inspect({"exclusiveMinimum": 1})
    assert problem is not None
    assert problem.valid_in == "draft-07"


@given(st.text("aZ0_.~-%/?:@!$&'()*+,;=[]#^é\\\n ", max_size=8))
def test_only_references_with_other_characters_are_percent_encoded(reference: str) -> None:
    uri, mark, fragment = reference.partition("#")
    encoded = quote(uri, safe="%/?:@!$&'()*+,;=[]") + mark + quote(fragment, safe="%/?:@!$&'()*+,;=")
    read = read_schema(json.dumps({"$ref": reference}), DIALECTS[-1].uri)
    assert isinstance(read, ReadSchema)
    assert read.schema == {"$ref": encoded}
    assert bool(read.notes) == (encoded != reference)
