from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.tool_offers import OfferedTool
from tests.support.dataset_reading import problem, read, write

PETS = """
openapi: VERSION
info: {title: Pets, version: "1"}
paths:
  /pets/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: integer}, description: Which pet}
      - {$ref: '#/components/parameters/Trace'}
    put:
      operationId: pets.update
      summary: Update a pet
      description: Change what is known of a pet.
      parameters:
        - {name: Authorization, in: header, schema: {type: string}}
        - {name: X-Trace, in: header, required: true, schema: {type: string, minLength: 4}}
        - {name: filter, in: query, content: {application/json: {schema: {$ref: '#/components/schemas/Kin'}}}}
      requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}}
      responses: {'200': {description: ok}}
    delete:
      summary: Delete a pet
      responses: {'204': {description: ok}}
    patch:
      operationId: pets/update
      requestBody: {content: {application/json: {schema: {type: array, items: {$ref: '#/components/schemas/Kin'}}}}}
      responses: {'204': {description: ok}}
components:
  parameters:
    Trace: {name: X-Trace, in: header, schema: {type: string}}
  schemas:
    Pet:
      type: object
      required: [id, name]
      additionalProperties: false
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string}
        kin: {type: array, items: {$ref: '#/components/schemas/Pet'}}
    Kin: {type: object, properties: {who: {type: string}}}
"""
CASES = "tools: api.yaml\ncases: [{ask: Rename pet 3 to Rex., expect: delete_pets_id}]"


def offered(root: Path, api: Any) -> dict[str, OfferedTool]:
    write(root, {"api.yaml": api, "agent.yaml": CASES})
    case = read(root / "agent.yaml")
    assert isinstance(case, Case), case
    assert case.offer is not None
    return {tool.name: tool for tool in case.offer.tools}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_parameters_and_body_are_the_arguments_of_an_operation(tmp_path: Path, version: str) -> None:
    pet = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"name": {"type": "string"}, "kin": {"type": "array", "items": {"$ref": "#/$defs/Pet"}}},
        "required": ["name"],
    }
    kin = {"type": "object", "properties": {"who": {"type": "string"}}}

    tool = offered(tmp_path, PETS.replace("VERSION", version))["pets_update"]

    assert tool.description == "Change what is known of a pet."
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "id__path": {"type": "integer", "description": "Which pet"},
            "X-Trace": {"type": "string", "minLength": 4},
            "filter": {"$ref": "#/$defs/Kin"},
            "name": {"type": "string"},
            "kin": {"type": "array", "items": {"$ref": "#/$defs/Pet"}},
        },
        "required": ["id__path", "X-Trace", "name"],
        "additionalProperties": False,
        "$defs": {"Kin": kin, "Pet": pet},
    }


def test_operation_without_a_name_or_body_is_named_after_its_path(tmp_path: Path) -> None:
    tool = offered(tmp_path, PETS.replace("VERSION", "3.1.0"))["delete_pets_id"]

    assert tool.description == "Delete a pet"
    assert tool.parameters == {
        "type": "object",
        "properties": {"id": {"type": "integer", "description": "Which pet"}, "X-Trace": {"type": "string"}},
        "required": ["id"],
    }


def test_body_that_is_no_plain_object_is_one_argument(tmp_path: Path) -> None:
    tool = offered(tmp_path, PETS.replace("VERSION", "3.1.0"))["pets_update_2"]

    assert tool.description == "PATCH /pets/{id}"
    assert isinstance(tool.parameters, dict)
    assert tool.parameters["properties"]["body"] == {"type": "array", "items": {"$ref": "#/$defs/Kin"}}
    assert tool.parameters["required"] == ["id"]


def test_body_in_another_file_is_read(tmp_path: Path) -> None:
    api = {
        "openapi": "3.1.0",
        "info": {},
        "paths": {
            "/a": {
                "post": {
                    "operationId": "delete_pets_id",
                    "requestBody": {"content": {"application/json": {"schema": {"$ref": "parts/body.yaml"}}}},
                }
            }
        },
    }
    write(tmp_path, {"parts/body.yaml": {"type": "object", "properties": {"a": {"$ref": "a.yaml"}}, "required": ["a"]}})
    write(tmp_path, {"parts/a.yaml": {"type": "null"}})

    tool = offered(tmp_path, api)["delete_pets_id"]

    assert tool.parameters == {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"type": "null"}},
    }, "the body is optional, and so are its properties"


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ([{"$ref": "other.yaml#/Q"}], 'GET /a has the parameter {"$ref": "other.yaml#/Q"}, which has no name or place'),
        ([{"name": "q", "in": "query", "schema": {"$ref": "#/no"}}], "refers to '#/no', which does not exist"),
    ],
)
def test_parameter_that_cannot_be_read_is_named(tmp_path: Path, parameters: Any, words: str) -> None:
    api = {"openapi": "3.1.0", "info": {}, "paths": {"/a": {"get": {"operationId": "a", "parameters": parameters}}}}
    write(tmp_path, {"api.yaml": api, "agent.yaml": CASES})

    assert f"api.yaml: {words}" in problem(tmp_path / "agent.yaml")


def test_document_without_operations_offers_no_tools(tmp_path: Path) -> None:
    write(tmp_path, {"api.yaml": {"openapi": "3.1.0", "info": {}, "paths": {}}, "agent.yaml": CASES})

    assert "api.yaml: tools contains no tool definition" in problem(tmp_path / "agent.yaml")
