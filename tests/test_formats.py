from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.formats import EVALUATION, METRICS
from pytest_jsbench.records.metadata import RunMetadata, parse_line
from pytest_jsbench.records.records import Record
from tests.support import examples

LINE = json.loads(json.dumps(examples.record("a").to_dict()))


def changed(place: str, value: Any) -> Any:
    """Return the record with another value at one place."""
    data = json.loads(json.dumps(LINE))
    *steps, last = (int(step) if step.isdigit() else step for step in place.split("."))
    container = data
    for step in steps:
        container = container[step]
    container[last] = value
    return data


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("repeat", -1, "repeat is -1: expected int >= 0"),
        ("repeat", 10**60, "repeat is 100000000000000000000000000000000000000…: expected int <= 1000000"),
        ("repeat", "1", 'repeat is "1": expected int, got str'),
        ("repeat", True, "repeat is true: expected int, got bool"),
        ("schema", "{}", 'schema is "{}": expected bool | object | null, got str'),
        ("generation.text", 5, "generation.text is 5: expected str, got int"),
        ("generation.timing.tgt", "1", 'generation.timing.tgt is "1"'),
        ("verdict.message", None, "verdict.message is null: expected str, got null"),
        ("task", 7, "task is 7: expected str, got int"),
        ("generation", 5, "generation is 5: expected object | null, got int"),
        ("generation.usage.input_tokens", "x", 'generation.usage.input_tokens is "x": expected int | null, got str'),
        ("generation.usage.input_tokens", 10**60, "expected int <= 9007199254740991"),
        ("generation.timing.tgt", -0.1, "generation.timing.tgt is -0.1: expected float >= 0.0"),
        ("generation.timing.tgt", 1e308, "expected float <= 1000000000.0"),
        ("generation.sent", [], "generation.sent is an array: expected object | null, got array"),
        ("prompt.messages.0.role", "bot", "prompt.messages[0].role is \"bot\": invalid enum value 'bot'"),
        ("verdict.violations", {}, "verdict.violations is an object: expected array, got object"),
        ("verdict.passed", False, "verdict is an object: passed is false, but failure_type is None"),
        ("task", "\x1b[31m" * 1000, "is not a valid name; expected letters, digits and any of . _ + = @ -"),
        ("tags", ["\n::error ::x", 1], "tags[1] is 1: expected str, got int"),
    ],
)
def test_field_of_a_wrong_type_is_reported_with_its_place(place: str, value: Any, said: str) -> None:
    with pytest.raises(RecordError) as caught:
        Record.from_dict(changed(place, value))

    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).isprintable()


def test_missing_required_field_is_reported() -> None:
    for name in ("task", "repeat", "schema_digest", "prompt", "generation", "verdict"):
        with pytest.raises(RecordError, match=f"the whole has no {name}"):
            Record.from_dict({key: value for key, value in LINE.items() if key != name})
    EVALUATION.check({"metrics": {"anything": 1}})
    METRICS.check({"pass_rate": None})


def test_field_whose_name_is_a_number_is_reported_with_its_place() -> None:
    (problem,) = METRICS.problems({"pass_at": {"1": "x"}})

    assert problem == 'pass_at.1 is "x", which is not of types "null", "number"'


@pytest.mark.parametrize("lone", [chr(0xD800), chr(0xDCFF), chr(0xDFFF)])
def test_lone_surrogate_is_accepted_wherever_text_is_allowed(lone: str) -> None:
    run = json.loads(json.dumps(examples.metadata().to_dict()))
    header = {"type": "run", "version": "1.0", "run": {**run, "comparers": {lone: "ignore"}}}
    sent = {"response_format": "tool", "schema": None}
    tools = changed("generation.sent", sent | {"tools": {"schemas": {lone: {}}, "allowed": [], "required": False}})

    metadata, record = parse_line(header), Record.from_dict(tools)
    assert isinstance(metadata, RunMetadata)
    assert metadata.comparers == {lone: "ignore"}
    assert record.to_dict()["generation"]["sent"]["tools"]["schemas"] == {lone: {}}
    with pytest.raises(RecordError, match="repeat is"):
        Record.from_dict({**tools, "repeat": "1"})
    with pytest.raises(RecordError, match="is not a valid name"):
        Record.from_dict(changed("task", lone))
    with pytest.raises(RecordError, match="lone surrogate"):
        Record.from_dict({**LINE, lone: 1})
