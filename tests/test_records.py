from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from pytest_jsbench.errors import RecordError
from pytest_jsbench.generations import FaultKind
from pytest_jsbench.records import AnsweredBy, AskedBy, Record, RunMetadata
from tests import examples

RECORDS = [
    examples.record(),
    examples.record(verdict=examples.VIOLATED, generation=examples.completion(ttft=None, tokens=None)),
    examples.record(verdict=examples.HALLUCINATED, schema={"type": "object"}),
    examples.record(generation=examples.batched()),
    examples.record(verdict=examples.UNSUPPORTED, generation=examples.declined()),
    examples.record(verdict=examples.BROKEN, generation=examples.failed()),
    examples.record(verdict=examples.BROKEN, generation=examples.failed(FaultKind.HANG)),
    examples.record(verdict=examples.DECIDED_WRONGLY, generation=examples.decided("v0", "i1")),
    examples.record(verdict=examples.EXCLUDED),
    replace(
        examples.record(),
        asked_by=AskedBy(test="tests/test_a.py::test_it", terms="sha256:0"),
        answered_by=AnsweredBy(engine="local", model="m"),
    ),
]


def line_validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(files("pytest_jsbench.formats").joinpath("records.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_survives_json(record: Record) -> None:
    assert Record.from_dict(json.loads(json.dumps(record.to_dict()))) == record


@pytest.mark.parametrize("record", RECORDS)
def test_a_line_conforms_to_the_published_schema(record: Record) -> None:
    line_validator().validate(record.to_dict())


def test_the_header_conforms_to_the_published_schema() -> None:
    line_validator().validate({"type": "run", "records_version": "1.0", "run": examples.metadata().to_dict()})


@pytest.mark.parametrize(
    "broken",
    [
        {"verdict": {}},
        {"generation": {"type": "guess"}},
        {"prompt": {"messages": []}},
        {"schema_digest": "md5:0"},
    ],
)
def test_the_published_schema_refuses_what_is_not_a_record(broken: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        line_validator().validate(examples.record().to_dict() | broken)


def test_a_reader_ignores_fields_of_a_later_version() -> None:
    data = examples.record().to_dict() | {"mood": "fine"}

    assert Record.from_dict(data) == examples.record()


@pytest.mark.parametrize(
    "broken",
    [{}, {"verdict": {}}, examples.record().to_dict() | {"generation": {"type": "guess"}}],
)
def test_what_is_not_a_record_is_said_so(broken: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match="not a record of pytest-jsbench"):
        Record.from_dict(broken)


def test_metadata_survive_json() -> None:
    metadata = examples.metadata(details={"bounded": True})

    assert RunMetadata.from_dict(json.loads(json.dumps(metadata.to_dict()))) == metadata


def test_metadata_without_an_engine_are_refused() -> None:
    with pytest.raises(RecordError, match="not the header of a run"):
        RunMetadata.from_dict({"run_id": "x"})
