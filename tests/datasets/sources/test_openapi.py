from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.datasets.sources.openapi import convert
from pytest_jsbench.verdicts import Judge
from tests.support.dataset_reading import keys, opened, problem, schema, write

PETS = """
openapi: 3.0.3
info: {title: Pets, version: "1"}
paths:
  /pets:
    parameters: [{name: q, in: query, schema: {type: string}}]
    post:
      operationId: addPet
      requestBody: {$ref: '#/components/requestBodies/Pet'}
      responses:
        200: {description: ok, content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}}
        default: {$ref: '#/components/responses/Problem'}
    get:
      responses:
        '200':
          description: all
          content:
            application/json; charset=utf-8:
              schema: {type: array, items: {$ref: '#/components/schemas/Pet'}}
            text/csv: {schema: {type: string}}
  /pets/{id}/owner:
    get:
      responses:
        '200': {description: ok, content: {application/hal+json: {schema: {$ref: '#/components/schemas/Owner'}}}}
        '404': {$ref: '#/components/responses/Problem'}
        '204': {description: nothing}
components:
  requestBodies:
    Pet: {content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}}
  responses:
    Problem: {description: bad, content: {application/problem+json: {schema: {$ref: '#/components/schemas/Problem'}}}}
  schemas:
    Pet:
      type: object
      required: [id, name, secret]
      properties:
        id: {type: integer, readOnly: true}
        secret: {type: string, writeOnly: true}
        name: {type: string, nullable: true, example: Rex}
        age: {type: number, minimum: 0, exclusiveMinimum: true, maximum: 40, exclusiveMaximum: false}
        owner: {$ref: '#/components/schemas/Owner', nullable: true, description: ignored here}
        kin: {type: array, items: {$ref: '#/components/schemas/Pet'}}
        nullable: {type: boolean}
      discriminator: {propertyName: kind, mapping: {cat: '#/components/schemas/Cat'}}
      xml: {name: pet}
    Owner: {type: object, properties: {email: {type: string, format: email}}, required: [email]}
    Problem: {type: object, properties: {title: {type: string}}}
"""


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("yaml", reason="needs the extra yaml")
    return write(tmp_path_factory.mktemp("api"), {"pets.yaml": PETS}) / "pets.yaml"


def api(version: str, schemas: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"openapi": version, "info": {}, "components": {"schemas": schemas}, **more}


def test_components_requests_and_responses_are_tasks_without_duplicates(pets: Path) -> None:
    assert keys(pets) == [
        "pets.schemas::Pet",
        "pets.schemas::Owner",
        "pets.schemas::Problem",
        "pets.requests::addPet",
        "pets.responses::addPet.200",
        "pets.responses::addPet.default",
        "pets.responses::get_pets.200",
        "pets.responses::get_pets_id_owner.200",
    ]


def test_openapi_3_0_schema_becomes_self_contained_2020_12(pets: Path) -> None:
    pet = schema(pets, "Pet")

    assert pet["properties"] == {
        "id": {"type": "integer", "readOnly": True},
        "secret": {"type": "string", "writeOnly": True},
        "name": {"type": ["string", "null"], "examples": ["Rex"]},
        "age": {"type": "number", "exclusiveMinimum": 0, "maximum": 40},
        "owner": {"$ref": "#/$defs/Owner"},
        "kin": {"type": "array", "items": {"$ref": "#"}},
        "nullable": {"type": "boolean"},
    }
    assert set(pet) == {"type", "required", "properties", "$defs"}
    assert set(pet["$defs"]) == {"Owner"}


def test_it_judges_as_the_document_means_it(pets: Path, judge: Judge) -> None:
    whole = schema(pets, "Pet")
    pet = {"id": 1, "name": None, "secret": "s", "age": 0.1, "kin": [{"id": 2, "name": "R", "secret": "s"}]}

    assert judge.inspect(whole) is None
    assert judge.judge(whole, json.dumps(pet)).passed
    assert not judge.judge(whole, json.dumps(pet | {"age": 0})).passed
    assert not judge.judge(whole, json.dumps(pet | {"kin": [{"id": "2"}]})).passed
    assert not judge.judge(whole, json.dumps(pet | {"owner": None})).passed


def test_read_only_property_is_not_required_in_requests(pets: Path) -> None:
    assert schema(pets, "Pet")["required"] == ["id", "name", "secret"]
    assert schema(pets, "addPet")["required"] == ["name", "secret"]
    assert schema(pets, "addPet.200")["required"] == ["id", "name"]
    items = schema(pets, "get_pets.200")
    assert items["$defs"]["Pet"]["required"] == ["id", "name"]
    assert items["items"] == items["$defs"]["Pet"]["properties"]["kin"]["items"] == {"$ref": "#/$defs/Pet"}


def test_a_3_1_schema_is_json_schema_already(tmp_path: Path, judge: Judge) -> None:
    node = {"type": ["object", "null"], "properties": {"next": {"$ref": "#/components/schemas/Node", "title": "T"}}}
    write(tmp_path, {"api.json": api("3.1.0", {"Node": node, "Any": True})})

    whole = schema(tmp_path, "Node")

    assert whole["properties"] == {"next": {"$ref": "#", "title": "T"}}
    assert schema(tmp_path, "Any") is True
    assert judge.judge(whole, '{"next": {"next": null}}').passed


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, {}),
        ({"jsonSchemaDialect": "https://spec.openapis.org/oas/3.1/dialect/base"}, {}),
        (
            {"jsonSchemaDialect": "http://json-schema.org/draft-07/schema#"},
            {"$schema": "http://json-schema.org/draft-07/schema#"},
        ),
    ],
)
def test_schema_declares_the_dialect_of_its_document_if_unusual(
    tmp_path: Path, declared: dict[str, str], expected: dict[str, str]
) -> None:
    write(tmp_path, {"api.json": api("3.1.0", {"A": {"type": "string"}}, **declared)})

    assert schema(tmp_path, "A") == {**expected, "type": "string"}


def test_a_document_may_be_spread_over_the_files_of_its_folder(tmp_path: Path, judge: Judge) -> None:
    write(
        tmp_path,
        {
            "api.json": api("3.0.0", {"Cart": {"type": "object", "properties": {"item": {"$ref": "parts/item.json"}}}}),
            "parts/item.json": {
                "properties": {
                    "n": {"type": "integer", "nullable": True},
                    "of": {"$ref": "../api.json#/components/schemas/Cart"},
                }
            },
        },
    )

    whole = schema(tmp_path / "api.json", "Cart")

    assert whole["$defs"]["item"]["properties"] == {"n": {"type": ["integer", "null"]}, "of": {"$ref": "#"}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a"]}),
        ({"nullable": True, "allOf": [{}]}, {"allOf": [{}]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"exclusiveMaximum": True}, {}),
        ({"maximum": 1, "exclusiveMaximum": True, "minimum": 0}, {"exclusiveMaximum": 1, "minimum": 0}),
        ({"exclusiveMinimum": 3}, {"exclusiveMinimum": 3}),
        (
            {"enum": [{"nullable": True}], "example": {"example": 1}},
            {"enum": [{"nullable": True}], "examples": [{"example": 1}]},
        ),
        (
            {"properties": {"example": {"nullable": True, "type": "null"}}},
            {"properties": {"example": {"type": ["null", "null"]}}},
        ),
        ({"externalDocs": {"url": "x"}, "deprecated": True, "x-own": 1}, {"deprecated": True, "x-own": 1}),
        (True, True),
    ],
)
def test_each_keyword_of_3_0_is_converted(before: Any, after: Any) -> None:
    assert convert(before, unused=None) == after


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            {"swagger": "2.0", "info": {}, "definitions": {"A": {}}},
            "has version 2.0; expected an OpenAPI document of version 3.0 or later",
        ),
        ({"openapi": "4", "info": {}}, "has version 4; expected"),
        ({"swagger": "2.0", "definitions": {"A": {}}}, "has version 2.0; expected"),
        ({"openapi": 3, "paths": {}}, "has version 3; expected"),
    ],
)
def test_document_without_schemas_is_reported(tmp_path: Path, document: Any, message: str) -> None:
    assert message in problem(write(tmp_path, {"api.json": document}))


@pytest.mark.parametrize(
    "document",
    [
        {"openapi": "3.1.0", "info": {}, "paths": {}},
        {"openapi": "3.0.0", "components": {"schemas": "x"}},
        {"openapi": "3.0.0", "info": {}, "paths": {"/a": {"get": {"responses": {"204": {"description": "none"}}}}}},
        {"openapi": "3.1.0", "paths": {"/": {"get": {"responses": {"200": {"content": {"text/html": {}}}}}}}},
    ],
)
def test_document_without_json_bodies_has_no_cases_and_one_message(tmp_path: Path, document: Any) -> None:
    source = write(tmp_path, {"api.json": document, "other.json": True})

    assert [key for key in keys(source) if "api" in key] == []
    message = "no cases, as this OpenAPI document has no component schemas and no JSON bodies"
    assert opened(source).notes == (f"{tmp_path}/api.json: {message}",)


@pytest.mark.parametrize(
    "paths",
    [
        None,
        [1],
        {"/a": None},
        {"/a": {"get": {"responses": [], "requestBody": 3}}},
        {"/a": {"$ref": "#/nowhere"}},
        {
            "/a": {"$ref": "https://example.com/a"},
            "/b": {"get": {"requestBody": {"$ref": "#/paths/~1b/get/requestBody"}}},
        },
    ],
)
def test_a_crooked_document_loses_nothing_else(tmp_path: Path, paths: Any) -> None:
    assert keys(write(tmp_path, {"api.json": api("3.1.0", {"A": {}}, paths=paths)})) == ["api.schemas::A"]


def test_a_reference_that_leads_nowhere_is_named_with_its_document(tmp_path: Path) -> None:
    foreign = {"x-own": {"$ref": "#/nowhere"}, "example": {"$ref": "#/nowhere"}}
    schemas = {"A": {"$ref": "#/components/schemas/B"}, "C": {"$ref": "#/components/schemas/C"}, "D": foreign}
    write(tmp_path, {"api.json": api("3.0.0", schemas)})

    message = "api.json /components/schemas/A: refers to '#/components/schemas/B', which does not exist"
    assert message in problem(tmp_path, "A")
    assert schema(tmp_path, "C")["$ref"] == "#"
    assert schema(tmp_path, "D")["x-own"] == {"$ref": "#/nowhere"}
