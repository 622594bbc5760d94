from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from pytest_jsbench.core.cases import Expected
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.generations import FaultKind, GenerationParams, ResponseFormat, Sent
from pytest_jsbench.runs.own_outcomes import Cause, End, OwnOutcome
from pytest_jsbench.runs.records import RECORDS_VERSION, AnsweredBy, AskedBy, Attempt, Record, RunMetadata
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
        asked_by=AskedBy(test="tests/test_a.py::test_it", terms="sha256:0", line=3),
        answered_by=AnsweredBy(engine="local", model="m"),
        params=GenerationParams(max_tokens=64, temperature=0.0, seed=5, timeout=3.0),
        generation=replace(
            examples.completion(),
            sent=Sent(response_format=ResponseFormat.TEXT, asked_otherwise="seed was 4, is 5"),
        ),
    ),
]


RECORDS.append(replace(RECORDS[0], variant="gpt-5+low.v1"))
REFUSED = OwnOutcome(end=End.FAILED, cause=Cause.TYPE_REFUSED, field="n", message="too large")
RECORDS += [replace(RECORDS[0], test_outcome=outcome) for outcome in (OwnOutcome(end=End.PASSED), REFUSED)]


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
    line_validator().validate({"type": "run", "records_version": RECORDS_VERSION, "run": examples.metadata().to_dict()})


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


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("task", 7, "task is not a string"),
        ("repeat", "1", "repeat is not a whole number"),
        ("repeat", True, "repeat is not a whole number"),
        ("schema", "{}", "schema is not an object or a boolean or null"),
        ("timing", {"tgt": "1"}, "tgt is not a number"),
        ("text", 5, "text is not a string"),
        ("usage", {"input_tokens": "30"}, "input_tokens is not a whole number or null"),
        ("message", None, "message is not a string"),
    ],
)
def test_a_field_of_another_type_is_named(field: str, value: object, said: str) -> None:
    data = examples.record(verdict=examples.VIOLATED).to_dict()
    holder = next(part for part in (data, data["generation"], data["verdict"]) if field in part)
    holder[field] = value

    with pytest.raises(RecordError, match=said):
        Record.from_dict(data)


@pytest.mark.parametrize(
    ("field", "value"), [("model", 5), ("dataset", "x"), ("started_at", "yesterday"), ("plan", {"simple": "abc"})]
)
def test_a_header_with_a_field_of_another_type_is_refused(field: str, value: object) -> None:
    with pytest.raises(RecordError, match="not the header of a run"):
        RunMetadata.from_dict(examples.metadata().to_dict() | {field: value})


def test_metadata_survive_json() -> None:
    metadata = examples.metadata(details={"bounded": True})

    assert RunMetadata.from_dict(json.loads(json.dumps(metadata.to_dict()))) == metadata


def test_metadata_without_an_engine_are_refused() -> None:
    with pytest.raises(RecordError, match="not the header of a run"):
        RunMetadata.from_dict({"run_id": "x"})


def test_the_header_of_a_run_of_variants_survives_json_and_conforms() -> None:
    metadata = examples.variants(
        a={"params": {"max_tokens": 50, "seed": 1}, "shots": 2}, b={"model": "n", "response_format": "text"}
    )
    header = json.loads(json.dumps(metadata.to_dict()))

    line_validator().validate({"type": "run", "records_version": RECORDS_VERSION, "run": header})
    found = RunMetadata.from_dict(header)
    assert found == metadata
    assert [found.of_variant(name).shots for name in "ab"] == [2, 0]


def test_a_run_without_variants_is_written_as_before() -> None:
    written = examples.metadata().to_dict().keys() | RECORDS[0].to_dict().keys()

    assert written.isdisjoint({"variant", "variants"})


@pytest.mark.parametrize("name", ["a b", "x/../y", "a::b", "", "\x1b[31m", "n" * 201, 5])
def test_what_is_no_name_of_a_variant_is_refused(name: object) -> None:
    run = {**examples.variants(a={}).to_dict()}
    run["variants"] = [{**run["variants"][0], "variant": name}]

    with pytest.raises(RecordError):
        RunMetadata.from_dict(run)
    if name:
        with pytest.raises(RecordError, match="is no variant"):
            Record.from_dict({**RECORDS[0].to_dict(), "variant": name})


def test_two_variants_of_one_name_are_refused() -> None:
    run = examples.variants(a={}).to_dict()

    with pytest.raises(RecordError, match="that of another"):
        RunMetadata.from_dict({**run, "variants": run["variants"] * 2})


def test_a_plan_that_all_variants_share_is_written_once() -> None:
    metadata = examples.variants(a={}, b={"model": "n"})
    shared = [Attempt(RECORDS[0].key, repeat, name) for name in "ab" for repeat in (0, 1)]

    alike, unlike = metadata.with_plan(shared), metadata.with_plan(shared[:3])

    assert alike.plan == {"simple": ["order", "order"]}
    assert [one["plan"] for one in alike.to_dict()["variants"]] == [None, None]
    assert unlike.plan is None
    assert [len(unlike.of_variant(name).planned() or ()) for name in "ab"] == [2, 1]
    assert [len(one.planned() or ()) for one in (alike, unlike)] == [4, 3]
    assert metadata.planned() is None


def test_a_record_s_comparers_are_read_where_there_are_some_and_refused_where_they_are_none() -> None:
    data = examples.record("a").to_dict()

    assert Record.from_dict(data | {"expected": {"value": None}}).expected == Expected(value=None)
    with pytest.raises(RecordError, match="near: 1; expected tolerance"):
        Record.from_dict(data | {"expected": {"value": 1, "comparers": {"/items": {"near": 1}}}})
