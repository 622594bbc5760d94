"""Test that references between files of a directory resolve inside of it only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.datasets.documents import has_outside_references
from pytest_jsbench.verdicts import FailureType, Judge
from tests.support.dataset_reading import opened, problem, schema, write

ADDRESS = {
    "type": "object",
    "properties": {"zip": {"$ref": "#/$defs/zip"}},
    "$defs": {"zip": {"pattern": "^[0-9]{5}$"}},
}


def passes(judge: Judge, whole: Any, instance: object) -> bool:
    assert judge.inspect(whole) is None
    return judge.judge(whole, json.dumps(instance)).passed


def order(reference: str, **more: object) -> dict[str, object]:
    return {"type": "object", "properties": {"to": {"$ref": reference}}, "required": ["to"], **more}


@pytest.mark.parametrize(
    ("main", "reference"),
    [
        ("order.json", "address.json"),
        ("order.json", "./address.json#"),
        ("deep/order.json", "../address.json"),
        ("order.yaml", "address.json"),
        ("order.json", "addr%65ss.json"),
    ],
)
def test_referenced_file_is_bundled_with_its_references(
    tmp_path: Path, judge: Judge, main: str, reference: str
) -> None:
    if main.endswith(".yaml"):
        pytest.importorskip("yaml", reason="needs the extra yaml")
    write(tmp_path, {main: order(reference), "address.json": ADDRESS})

    whole = schema(tmp_path, "order")

    assert "address.json" not in json.dumps(whole)
    assert passes(judge, whole, {"to": {"zip": "12345"}})
    assert not passes(judge, whole, {"to": {"zip": "1234"}})


def test_only_referenced_schemas_are_bundled(tmp_path: Path, judge: Judge) -> None:
    write(tmp_path, {"order.json": order("address.json#/$defs/zip"), "address.json": ADDRESS})

    assert schema(tmp_path, "order") == order("#/$defs/zip", **{"$defs": {"zip": {"pattern": "^[0-9]{5}$"}}})


def test_files_that_refer_to_each_other_end(tmp_path: Path, judge: Judge) -> None:
    write(
        tmp_path,
        {
            "folder.json": {
                "type": "object",
                "properties": {"files": {"type": "array", "items": {"$ref": "file.json"}}},
            },
            "file.json": {"type": "object", "properties": {"in": {"$ref": "folder.json"}, "n": {"type": "integer"}}},
        },
    )

    whole = schema(tmp_path, "folder")

    assert whole["$defs"]["file"]["properties"]["in"] == {"$ref": "#"}
    assert passes(judge, whole, {"files": [{"in": {"files": [{"n": 1}]}}]})
    assert not passes(judge, whole, {"files": [{"in": {"files": [{"n": "1"}]}}]})


def test_files_find_each_other_by_the_uri_that_each_gives_itself(tmp_path: Path, judge: Judge) -> None:
    write(
        tmp_path,
        {
            "order.json": order("address", **{"$id": "https://example.com/schemas/order"}),
            "somewhere/else.json": {"$id": "https://example.com/schemas/address", **ADDRESS},
        },
    )

    whole = schema(tmp_path, "order")

    assert whole["$id"] == "https://example.com/schemas/order"
    assert "$id" not in whole["$defs"]["address"]
    assert not passes(judge, whole, {"to": {"zip": "1234"}})


def test_references_are_resolved_against_the_schemas_own_uri(tmp_path: Path, judge: Judge) -> None:
    write(
        tmp_path,
        {
            "order.json": order("https://example.com/a/b.json#/$defs/two"),
            "x.json": {
                "$id": "https://example.com/a/b.json",
                "$defs": {"two": {"$id": "deep/", "properties": {"n": {"$ref": "n.json"}}}},
            },
            "n.json": {"type": "string"},
            "y.json": {"$id": "https://example.com/a/deep/n.json", "type": "integer"},
        },
    )

    assert passes(judge, schema(tmp_path, "order"), {"to": {"n": 1}})


def test_an_anchor_in_another_file_is_found(tmp_path: Path, judge: Judge) -> None:
    write(tmp_path, {"order.json": order("a.json#zip"), "a.json": {"$defs": {"z": {"$anchor": "zip", "maxLength": 5}}}})

    whole = schema(tmp_path, "order")

    assert whole["$defs"] == {"zip": {"maxLength": 5}}
    assert not passes(judge, whole, {"to": "123456"})


@pytest.mark.parametrize(
    "dialect", ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"]
)
def test_older_dialects_keep_their_own_keyword_for_definitions(tmp_path: Path, judge: Judge, dialect: str) -> None:
    own = {"definitions": {"a": {"minLength": 1}}, "$schema": dialect}
    write(tmp_path, {"order.json": order("a.json", **own), "a.json": {"$schema": dialect, "type": "string"}})

    whole = schema(tmp_path, "order")

    assert whole["definitions"] == {"a": {"minLength": 1}, "a.2": {"type": "string"}}
    assert whole["properties"]["to"] == {"$ref": "#/definitions/a.2"}
    assert not passes(judge, whole, {"to": 1})


def test_a_schema_that_refers_to_itself_alone_stays_as_it_is(tmp_path: Path) -> None:
    own = {"$id": "https://example.com/tree", "properties": {"left": {"$ref": "https://example.com/tree"}}}
    write(tmp_path, {"tree.json": own, "b.json": {"const": {"$ref": "nowhere.json"}}})

    assert schema(tmp_path, "tree") == own
    assert schema(tmp_path, "b") == {"const": {"$ref": "nowhere.json"}}


def test_boolean_and_schema_with_a_used_name_are_bundled(tmp_path: Path, judge: Judge) -> None:
    main = {"allOf": [{"$ref": "a.json"}, {"$ref": "deep/a.json"}, {"$ref": "a.json#/$defs/no"}]}
    write(
        tmp_path,
        {"main.json": main, "a.json": {"type": "object", "$defs": {"no": True}}, "deep/a.json": {"minProperties": 1}},
    )

    whole = schema(tmp_path, "main")

    assert whole["$defs"] == {"a": {"type": "object", "$defs": {"no": True}}, "a.2": {"minProperties": 1}, "no": True}
    assert passes(judge, whole, {"x": 1}) is not passes(judge, whole, {})


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("../secret.json", "is outside of"),
        ("../../../../../../../../etc/passwd", "is outside of"),
        ("/etc/passwd", "is outside of"),
        ("file:///etc/passwd", "is outside of"),
        ("file://evil.example/share/x.json", "is outside of"),
        ("link.json", "is outside of"),
        ("missing.json", "does not exist; expected a file in"),
        ("deep", "does not exist; expected a file in"),
        ("bad.json", "not JSON"),
    ],
)
def test_reference_to_outside_or_missing_file_is_reported(tmp_path: Path, reference: str, reason: str) -> None:
    write(
        tmp_path,
        {
            "secret.json": {"type": "string"},
            "in/order.json": order(reference),
            "in/deep/x.json": True,
            "in/bad.json": "{oops",
        },
    )
    (tmp_path / "in" / "link.json").symlink_to(tmp_path / "secret.json")

    message = problem(tmp_path / "in", "order")

    assert message.startswith(f"{tmp_path}/in/order.json: refers to '{reference}', which ")
    assert reason in message


@pytest.mark.parametrize("reference", ["https://example.com/x.json", "http://[bad", "urn:x:y", "#/nowhere"])
def test_remote_references_are_left_to_the_judge(tmp_path: Path, judge: Judge, reference: str) -> None:
    write(tmp_path, {"order.json": order(reference)})

    verdict = judge.inspect(schema(tmp_path, "order"))

    assert verdict is not None
    assert (verdict.failure_type, verdict.reason) == (FailureType.INVALID_SCHEMA, "unresolvable_reference")


def test_published_metaschema_is_known_to_the_judge(tmp_path: Path, judge: Judge) -> None:
    write(tmp_path, {"order.json": order("http://json-schema.org/draft-07/schema#")})

    assert judge.inspect(schema(tmp_path, "order")) is None


def test_schema_with_dynamic_references_is_not_moved(tmp_path: Path, judge: Judge) -> None:
    write(tmp_path, {"order.json": order("tree.json"), "tree.json": {"properties": {"x": {"$dynamicRef": "#node"}}}})

    verdict = judge.inspect(schema(tmp_path, "order"))

    assert verdict is not None
    assert verdict.reason == "unresolvable_reference"


OLD = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "id": "https://example.com/old",
    "properties": {"n": {"$ref": "#/definitions/n"}, "back": {"$ref": "order"}},
    "definitions": {"n": {"minimum": 5, "exclusiveMinimum": True}},
}


@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-07/schema#", None])
def test_file_of_another_dialect_is_bundled_whole(tmp_path: Path, judge: Judge, dialect: str | None) -> None:
    own = {"$id": "https://example.com/order"} | ({"$schema": dialect} if dialect else {})
    write(tmp_path, {"order.json": order("https://example.com/old", **own), "beside/old.json": OLD})

    whole = schema(tmp_path, "order")

    assert passes(judge, whole, {"to": {"n": 6, "back": {"to": {"n": 6}}}})
    assert not passes(judge, whole, {"to": {"n": 5}})
    assert not passes(judge, whole, {"to": {"back": {"to": {"n": 5}}}})


def test_schemas_of_any_source_may_refer_to_those_of_a_folder(tmp_path: Path, judge: Judge) -> None:
    write(tmp_path, {"rows.jsonl": json.dumps(order("https://example.com/a#/$defs/zip"))})
    write(tmp_path / "others", {"deep/a.json": {"$id": "https://example.com/a", **ADDRESS}, "broken.json": "{"})

    dataset = opened(tmp_path / "rows.jsonl", registry=str(tmp_path / "others"))
    case = dataset.case(dataset.keys()[0])

    assert isinstance(case, Case)
    assert passes(judge, case.schema, {"to": "12345"})
    assert not passes(judge, case.schema, {"to": "1234"})
    with pytest.raises(DatasetError, match="is not a directory of schemas"):
        opened(tmp_path / "rows.jsonl", registry=str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"items": [{"$ref": "other.json"}]}, True),
        ({"items": [{"$ref": "other.json"}], "title": "\ud800"}, True),  # cannot be written as text
        ({"$ref": "#/$defs/a", "title": "\ud800"}, False),
        ({"$ref": "#/$defs/a", "description": '"$ref":"other.json"'}, False),
        ({"properties": {"$ref": {"type": "string"}}}, False),
        ({"$ref": 1}, False),
    ],
)
def test_reference_to_another_document_is_found(schema: dict[str, object], expected: bool) -> None:
    assert has_outside_references(schema) is expected
