from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.formats import EVALUATION, HEADER, METRICS, RECORD
from pytest_jsbench.records.records import Record
from tests import examples

LINE = json.loads(json.dumps(examples.record("a").to_dict()))


def changed(place: str, value: Any) -> Any:
    """The record with another value at a place."""
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
        ("repeat", -1, "repeat is -1, which is less than the minimum of 0"),
        ("repeat", 10**60, "repeat is 1000000000000000000000000000000000000000"[:49] + "…"),
        ("repeat", "1", 'repeat is "1", which is not of type "integer"'),
        ("repeat", True, 'repeat is true, which is not of type "integer"'),
        ("schema", "{}", 'schema is "{}", which is not of types '),
        ("generation.text", 5, "generation.text is 5"),
        ("generation.timing.tgt", "1", 'generation.timing.tgt is "1"'),
        ("verdict.message", None, 'verdict.message is null, which is not of type "string"'),
        ("task", 7, 'task is 7, which is not of type "string"'),
        ("generation", 5, "generation is 5, which is nothing that may stand there"),
        ("generation.usage.input_tokens", "x", 'generation.usage.input_tokens is "x", which is not of types'),
        ("generation.usage.input_tokens", 10**60, "which is greater than the maximum of 9007199254740991"),
        ("generation.timing.tgt", -0.1, "which is less than the minimum of 0"),
        ("generation.timing.tgt", 1e308, "which is greater than the maximum of 1000000000"),
        ("generation.sent", [], "generation.sent is an array, which is nothing that may stand there"),
        ("prompt.messages.0.role", "bot", 'prompt.messages.0.role is "bot", which is not one of "system", "developer"'),
        ("verdict.violations", {}, 'verdict.violations is an object, which is not of type "array"'),
        ("task", "\x1b[31m" * 1000, ""),
        ("tags", ["\n::error ::x", 1], 'tags.1 is 1, which is not of type "string"'),
    ],
)
def test_what_is_not_as_it_was_published_is_one_line_with_its_place(place: str, value: Any, said: str) -> None:
    if not said:
        RECORD.check(changed(place, value))
        return
    with pytest.raises(RecordError) as caught:
        RECORD.check(changed(place, value))

    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_what_a_later_version_adds_is_left_alone_everywhere() -> None:
    data = json.loads(json.dumps(LINE))
    added = [data, data["generation"], data["generation"]["usage"], data["generation"]["timing"], data["verdict"]]
    for one in (*added, data["generation"]["sent"], data["prompt"]["messages"][0]):
        one["of_tomorrow"] = {"n": 1}

    RECORD.check(data)

    assert Record.from_dict(data) == Record.from_dict(LINE)


def test_what_an_older_version_did_not_have_is_not_asked_for() -> None:
    RECORD.check({"type": "record", "task": "a", "id": "b"})
    HEADER.check({"type": "run", "run": {"engine": "x"}})
    EVALUATION.check({"metrics": {"anything": 1}})
    METRICS.check({"pass_rate": None})


@pytest.mark.parametrize("lone", [chr(0xD800), chr(0xDCFF), chr(0xDFFF)])
def test_a_lone_surrogate_may_stand_wherever_a_text_may_and_what_is_wrong_beside_it_is_named(lone: str) -> None:
    run = json.loads(json.dumps(examples.metadata().to_dict()))
    header = {"type": "run", "version": "1.0", "run": {**run, "comparers": {lone: "ignore"}}}
    tools = changed("generation.sent", {"response_format": "tool", "tools": {"schemas": {lone: {}}, "required": False}})

    assert not [problem for problem in HEADER.problems(header) if "surrogate" in problem]
    assert not [problem for problem in RECORD.problems(tools) if "surrogate" in problem]
    assert list(RECORD.problems({**tools, "repeat": "1"})) != list(RECORD.problems(tools))
    with pytest.raises(RecordError, match="repeat is"):
        RECORD.check({**changed("task", lone), "repeat": "1"})
