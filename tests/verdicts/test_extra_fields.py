from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.schemas.dialects import (
    DIALECTS,
    DRAFT_4,
    DRAFT_6,
    DRAFT_7,
    DRAFT_2019_09,
    DRAFT_2020_12,
    NAMES,
    Dialect,
)
from pytest_jsbench.schemas.keywords import BY_KIND, KEYWORDS
from pytest_jsbench.schemas.references import References
from pytest_jsbench.verdicts.extra_fields import ExtraFieldReason, FieldNames
from tests.support.counting import calls_of

A: dict[str, Any] = {"properties": {"a": {}}}
B: dict[str, Any] = {"properties": {"b": {}}}


def unnamed(schema: Any, instance: object, *ignored: str, dialect: Dialect = DRAFT_2020_12) -> list[str]:
    return list(FieldNames(References(schema, dialect)).extra_fields(instance, ignored).list_paths())


@pytest.mark.parametrize(
    "schema",
    [
        {**A, "additionalProperties": False},
        {**A, "unevaluatedProperties": False},
        {"$ref": "#x", "$defs": {"x": {"$anchor": "x", **A}}},
        {"$id": "https://e.org/root", "$ref": "x", "$defs": {"x": {"$id": "x", **A}}},
        {"$ref": "#/components/schemas/x", "components": {"schemas": {"x": A}}},
        {"$ref": "#/$defs/x~1y%20z", "$defs": {"x/y z": A}},
        {"oneOf": [A, {"type": "null"}, {"type": ["string", "array"]}, {"enum": ["x"]}, {"const": 1}, False]},
        {"oneOf": [A, {"$ref": "#/$defs/s"}], "$defs": {"s": {"type": "string"}}},
        {**A, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"allOf": [A, {"anyOf": [{"required": ["a"]}, {"minProperties": 1}]}]},
        {"$ref": "#/$defs/x", "$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}, A]}}},
        {**A, "additionalProperties": False, "propertyNames": {"maxLength": 3}},
        {**A, "additionalProperties": False, "unevaluatedProperties": {}},
        {**A, "additionalProperties": {"not": {}}},
        {**A, "additionalProperties": {"not": {"title": "anything"}}},
        {**A, "additionalProperties": {"enum": []}},
        {**A, "additionalProperties": {"$ref": "#/$defs/no"}, "$defs": {"no": {"allOf": [{}, False]}}},
        {**A, "unevaluatedProperties": {"anyOf": [False, {"not": True}]}},
        {"patternProperties": {"^a": {}}, "minProperties": 2},
        {"anyOf": [A, {"$ref": "#/$defs/x"}], "$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}, B]}}},
        {**A, "anyOf": [{"minProperties": 2}, {"required": ["a"]}]},
        {**A, "propertyNames": {"pattern": "^[a-y]"}},
        {"propertyNames": {"const": "a"}, "additionalProperties": {"type": "integer"}},
        {"propertyNames": {"allOf": [{"enum": ["a"]}, {"pattern": "."}]}},
        {"anyOf": [A, {"not": {"type": "object"}}, {"anyOf": [{"type": "string"}, {"type": "null"}]}]},
        {"$dynamicRef": "#x", "$defs": {"x": {"$dynamicAnchor": "x", **A}}},
        {"if": {"type": "object"}, "then": A},
        {"if": {"type": "string"}, "then": {}, "else": A},
    ],
)
def test_key_outside_of_an_objects_shape_is_unnamed(schema: dict[str, Any]) -> None:
    assert unnamed(schema, {"a": 1, "z": 2}) == ["$.z"]
    assert unnamed(schema, {"a": 1}) == []


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {**A, "additionalProperties": True},
        {**A, "additionalProperties": {"type": "integer"}},
        {**A, "unevaluatedProperties": True},
        {"allOf": [A, {"minProperties": 2}]},
        {**A, "oneOf": [{"minProperties": 2}, {"minProperties": 3}]},
        {"propertyNames": {"pattern": "^[az]$"}},
        {**A, "propertyNames": {"$ref": "https://elsewhere.org/x"}},
        {"anyOf": [A, {"type": "object"}]},
        {"anyOf": [A, True]},
        {"oneOf": [A, {**B, "additionalProperties": True}]},
        {**A, "$ref": "https://elsewhere.org/x"},
        {**A, "$ref": "#/$defs/none"},
        {**A, "$dynamicRef": "#x"},
        {"$dynamicRef": "#x", "$defs": {"x": {"$dynamicAnchor": "x", **A}, "y": {"$id": "y", "$dynamicAnchor": "x"}}},
        {"if": A, "then": B},
        {"anyOf": [A, {"$ref": "#/$defs/o"}], "$defs": {"o": {"type": "object"}}},
    ],
)
def test_nothing_is_unnamed_in_a_free_form_object(schema: Any) -> None:
    assert unnamed(schema, {"a": 1, "z": 2}) == []


@pytest.mark.parametrize(
    "schema",
    [
        {**A, "patternProperties": {"^z": {}}},
        {**A, "dependentRequired": {"z": ["a"]}},
        {**A, "dependentSchemas": {"z": {}}},
        {"propertyNames": {"enum": ["a", "z"]}},
        {"propertyNames": {"anyOf": [{"enum": ["a"]}, {"$ref": "#/$defs/k"}]}, "$defs": {"k": {"const": "z"}}},
        {**A, "if": {"required": ["a"]}, "then": {"required": ["z"]}},
        {**A, "if": {}, "else": {"properties": {"z": {}}}},
    ],
)
def test_a_key_named_in_any_branch_is_named(schema: dict[str, Any]) -> None:
    assert unnamed(schema, {"a": 1, "z": 2}) == []


@pytest.mark.parametrize(
    ("schema", "instance", "paths"),
    [
        ({"properties": {"p": A}}, {"p": {"z": 1}, "q": {"r": 1}}, ["$.p.z", "$.q"]),
        ({"items": A}, [{"a": 1}, {"z": 1}, {"y": 1}], ["$[1].z", "$[2].y"]),
        ({"prefixItems": [{}, A], "items": B}, [{"z": 1}, {"z": 1}, {"b": 1}, {"a": 1}], ["$[1].z", "$[3].a"]),
        ({"items": {"items": A}}, [[{"z": 1}]], ["$[0][0].z"]),
        ({"additionalProperties": A}, {"k": {"z": 1}}, ["$.k.z"]),
        ({"patternProperties": {"^k": A}}, {"k": {"z": 1}}, ["$.k.z"]),
        ({"allOf": [{"properties": {"p": A}}, {"properties": {"p": B}}]}, {"p": {"b": 1, "z": 1}}, ["$.p.z"]),
        ({"anyOf": [{"properties": {"p": A}}, {"properties": {"p": B}}]}, {"p": {"b": 1, "z": 1}}, ["$.p.z"]),
        ({"anyOf": [{"properties": {"p": A}}, {"properties": {"p": {}}}]}, {"p": {"z": 1}}, []),
        ({"anyOf": [{"properties": {"p": A}}, {"properties": {"q": {}}}]}, {"p": {"z": 1}}, ["$.p.z"]),
        ({"properties": {"p": {}}, "dependentSchemas": {"q": {"properties": {"p": A}}}}, {"p": {"z": 1}}, []),
        ({"properties": {"p": A}, "if": False, "then": {"properties": {"p": B}}}, {"p": {"b": 1, "z": 1}}, ["$.p.z"]),
        ({"contains": A}, [{"z": 1}], []),
        ({"items": {"anyOf": [{"type": "array", "items": A}, {"type": "string"}]}}, ["x", [{"z": 1}]], ["$[1][0].z"]),
        ({"properties": {"p": {"$ref": "#"}}}, {"p": {"p": {"z": 1}}}, ["$.p.p.z"]),
        ({"properties": {"x-y": A}}, {"x-y": {"z z": 1}}, ['$["x-y"]["z z"]']),
    ],
)  # fmt: skip
def test_the_walk_goes_where_the_schema_goes(schema: Any, instance: object, paths: list[str]) -> None:
    assert unnamed(schema, instance) == paths


def test_ignored_names_are_never_unnamed() -> None:
    assert unnamed(A, {"$schema": "x", "z": 1}, "$schema") == ["$.z"]


def test_only_the_outermost_unnamed_field_is_reported() -> None:
    assert unnamed(A, {"z": {"y": {"x": 1}}}) == ["$.z"]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.validator)
def test_siblings_of_a_reference_name_fields_in_new_drafts_alone(dialect: Dialect) -> None:
    schema = {"$ref": "#/definitions/x", "definitions": {"x": A}, **B}
    read = dialect in {DRAFT_2019_09, DRAFT_2020_12}
    assert unnamed(schema, {"a": 1, "b": 1, "z": 1}, dialect=dialect) == (["$.z"] if read else ["$.b", "$.z"])


def test_a_keyword_that_the_dialect_does_not_know_closes_no_branch() -> None:
    schema = {"anyOf": [A, {"const": 1}]}
    paths = [unnamed(schema, {"a": 1, "z": 2}, dialect=dialect) for dialect in (DRAFT_4, DRAFT_6)]
    assert paths == [[], ["$.z"]]


@pytest.mark.parametrize("identifier", [{}, {"$id": "https://example.org/p", "id": "https://example.org/p"}])
def test_a_schema_inside_another_is_read_by_its_own_dialect(identifier: dict[str, Any]) -> None:
    needs_z = {**A, "dependentRequired": {"a": ["z"]}}
    newer = {**identifier, "$schema": DRAFT_2019_09.uri, "properties": {"q": needs_z}}
    older = {**identifier, "$schema": DRAFT_7.uri, "properties": {"q": needs_z}}
    instance = {"p": {"q": {"a": 1, "z": 2}}}
    assert unnamed({"properties": {"p": newer}}, instance, dialect=DRAFT_7) == []
    assert unnamed({"properties": {"p": older}}, instance, dialect=DRAFT_2020_12) == ["$.p.q.z"]


def test_id_next_to_a_reference_is_ignored_in_old_drafts() -> None:
    schema = {
        "$id": "https://example.org/base/",
        "allOf": [{"$id": "https://example.org/", "$ref": "x"}],
        "definitions": {"other": {"$id": "https://example.org/x", **B}, "meant": {"$id": "x", **A}},
    }
    assert unnamed(schema, {"a": 1, "b": 1}, dialect=DRAFT_7) == ["$.b"]
    assert unnamed(schema, {"a": 1, "b": 1}, dialect=DRAFT_2019_09) == ["$.a"]


def test_an_id_that_names_a_place_and_no_base_does_not_hide_references() -> None:
    schema = {"id": "/properties/p", "allOf": [{"id": "inner", "$ref": "#/definitions/x"}], "definitions": {"x": A}}
    assert unnamed(schema, {"a": 1, "z": 1}, dialect=DRAFT_4) == ["$.z"]


def test_schema_uri_at_the_root_of_an_answer_is_not_an_extra_field() -> None:
    assert unnamed({"properties": {"p": A}}, {"$schema": "x", "p": {"$schema": "x"}}) == ['$.p["$schema"]']
    assert unnamed({"items": A}, [{"$schema": "x"}]) == ['$[0]["$schema"]']


def misplaced(schema: Any, instance: object) -> bool:
    return FieldNames(References(schema, DRAFT_2020_12)).extra_fields(instance).reason is ExtraFieldReason.MISPLACED


def meant(schema: Any, instance: object) -> str | None:
    names = FieldNames(References(schema, DRAFT_2020_12))
    fields = names.extra_fields(instance)
    (path,) = (path for reason in ExtraFieldReason for path in fields.first(reason))
    return names.find_similar_name(path)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"properties": {"z": {}}},
        {"required": ["z"]},
        {"dependentRequired": {"z": ["a"]}},
        {"dependentRequired": {"a": ["z"]}},
        {"propertyNames": {"enum": ["z"]}},
        {"enum": [{"z": 1}]},
        {"x-unknown": {"deep": [{"properties": {"z": {}}}]}},
    ],
)
def test_field_named_elsewhere_in_the_schema_is_misplaced(elsewhere: dict[str, Any]) -> None:
    assert misplaced({"properties": {"a": elsewhere}}, {"z": 1})
    assert not misplaced({"properties": {"a": elsewhere}}, {"y": 1})


@pytest.mark.parametrize("data", ["default", "examples", "enum"])
def test_key_in_data_is_not_a_field_name(data: str) -> None:
    assert not misplaced({**A, "$defs": {"x": {data: [[{"z": 1}]]}}}, {"z": 1})


@pytest.mark.parametrize("key", ["userName ", " user Name", "\tuserName\n", "username", "USER NAME"])
def test_key_that_differs_in_white_space_or_case_is_a_possible_misspelling(key: str) -> None:
    here = meant({"properties": {"userName": {}}, "$defs": {"d": {"properties": {"USERNAME": {}}}}}, {key: 1})
    elsewhere = meant({**A, "$defs": {"d": {"properties": {"userName": {}}}}}, {key: 1})
    assert (here, elsewhere) == ("userName", "userName")


def test_key_without_a_similar_name_has_no_suggestion() -> None:
    assert meant(A, {"z": 1}) is None
    assert meant(A, {" ": 1}) is None


def test_a_chain_of_references_too_long_to_follow_flags_nothing() -> None:
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(5000)}
    assert unnamed({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": A}}, {"z": 1}) == []


def branching(depth: int, leaf: Any) -> dict[str, Any]:
    """Return definitions that each refer to the next one four times: 4 ** depth paths to the leaf."""
    definitions = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 4} for i in range(depth)}
    return {**definitions, f"d{depth}": leaf}


def test_branching_references_find_the_fields_of_their_leaf() -> None:
    schema = {"$ref": "#/$defs/d0", "$defs": branching(4, {"properties": {"p": {"properties": {"a": {}}}}})}
    assert unnamed(schema, {"p": {"z": 1}, "y": 1}) == ["$.p.z", "$.y"]


_BRANCHING = {"$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [_BRANCHING]},
        {"unevaluatedProperties": {"anyOf": [False, {"not": True}, {"allOf": [_BRANCHING, False]}]}},
        {"propertyNames": _BRANCHING},
        {"anyOf": [A, {"allOf": [_BRANCHING, {"type": "string"}]}]},
        {"not": _BRANCHING},
        {"if": _BRANCHING, "then": A, "else": A},
    ],
)
def test_branching_references_are_followed_once_each(schema: dict[str, Any]) -> None:
    def calls(depth: int) -> int:
        return calls_of(lambda: unnamed({**A, **schema, "$defs": branching(depth, A)}, {"z": 1}))

    calls(1)  # done once for all
    assert unnamed({**A, **schema, "$defs": branching(6, A)}, {"z": 1}) == ["$.z"]
    assert calls(6) < 2.5 * calls(3)  # 64 times as many paths


def test_a_schema_that_refers_to_itself_for_its_own_keys_ends() -> None:
    schema = {**A, "propertyNames": {"$ref": "#"}, "additionalProperties": {"$ref": "#"}, "not": {"$ref": "#"}}
    assert unnamed(schema, {"z": {"y": 1}}) == []


@pytest.mark.parametrize(
    ("instance", "rest"),
    [
        ({"a": 1, "z": 2}, {"a": 1}),
        ({"p": [{"a": 1, "z": 2}, {"a": 3}], "a": [0]}, {"p": [{"a": 1}, {"a": 3}], "a": [0]}),
        ({"p": [{"z": 1, "y": 2}], "z": 1}, {"p": [{}]}),
        ({"p": [{"a": 1}]}, {"p": [{"a": 1}]}),
    ],
)
def test_extra_fields_are_removed_from_a_copy(instance: Any, rest: object) -> None:
    before = json.dumps(instance)
    schema = {"properties": {"a": {}, "p": {"items": A}}}
    assert FieldNames(References(schema, DRAFT_2020_12)).extra_fields(instance).rest == rest
    assert json.dumps(instance) == before


def test_many_extra_fields_are_all_counted_but_only_some_listed() -> None:
    schema = {**A, "$defs": {"d": {"properties": {f"m{number}": {} for number in range(300)}}}}
    misplaced = {f"m{number}": 1 for number in range(300)}
    fields = FieldNames(References(schema, DRAFT_2020_12)).extra_fields({**misplaced, "a": 1, "y": 1, "z": 1})
    assert fields.list_paths() == tuple(f"$.m{number}" for number in range(100))
    assert fields.first(ExtraFieldReason.UNNAMED) == [("y",), ("z",)]
    assert fields.count == {ExtraFieldReason.MISPLACED: 300, ExtraFieldReason.UNNAMED: 2}
    assert fields.rest == {"a": 1}


#: Effect of each keyword on names, one row each, with schemas by column; shown in docs/rules.md.
ROWS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("keywords.json").read_text("utf-8"))
#: Extra fields of the answer, by column.
EXTRA = {"names `z`": [], "makes a map": ["z.y"], "closed: `z` is extra": ["z"], "open": []}
ANSWER = {"a": 1, "z": {"y": 2}}
COUNTING = {"minItems", "maxItems", "uniqueItems", "minContains", "maxContains"}


def knowing(cell: str) -> tuple[Dialect, ...]:
    """Return the dialects that a cell of the second column is for."""
    names = list(NAMES)
    if cell == "all":
        return DIALECTS
    if cell.startswith("to "):
        return DIALECTS[: names.index(cell.removeprefix("to ")) + 1]
    first = names.index(cell.removesuffix(" on"))
    return DIALECTS[first:] if cell.endswith(" on") else DIALECTS[first : first + 1]


def cases() -> Iterator[Any]:
    for row in ROWS:
        for column, paths in EXTRA.items():
            for schema in row[column]:
                name = f"{column.split()[0]} {json.dumps(schema)}"
                yield pytest.param(row["keyword"], knowing(row["known in"]), schema, paths, id=name)


def extra_fields(keyword: str, schema: dict[str, Any], dialect: Dialect) -> list[str]:
    in_array = keyword in BY_KIND["array"]
    extra = FieldNames(References(schema, dialect)).extra_fields([0, ANSWER] if in_array else ANSWER)
    return [path.removeprefix("$[1]." if in_array else "$.") for path in extra.list_paths()]


@pytest.mark.parametrize(("keyword", "dialects", "schema", "paths"), list(cases()))
def test_each_keyword_behaves_as_documented(
    keyword: str, dialects: tuple[Dialect, ...], schema: dict[str, Any], paths: list[str]
) -> None:
    silent = {name: value for name, value in schema.items() if name != keyword}
    for dialect in DIALECTS:
        known = dialect in dialects
        assert extra_fields(keyword, schema, dialect) == (paths if known else extra_fields(keyword, silent, dialect))


def test_page_has_a_row_for_each_keyword_about_names() -> None:
    listed = [row["keyword"] for row in ROWS]
    assert len(listed) == len(set(listed))
    assert set(listed) == KEYWORDS - BY_KIND["string"] - BY_KIND["number"] - COUNTING


def test_each_row_of_the_page_matches_closed_and_open_objects() -> None:
    assert sum(len(row[column]) for row in ROWS for column in EXTRA) > 90
    assert all(row["open"] for row in ROWS)
