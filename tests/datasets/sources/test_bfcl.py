"""Rows of the Berkeley Function Calling Leaderboard (BFCL): questions, functions and acceptable calls."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bfcl as agreement
from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.tool_offers import ToolOffer
from pytest_jsbench.datasets.registry import is_published
from pytest_jsbench.verdicts import FailureType, Judge
from tests.support.bfcl_rows import BOOK, GUEST, OSLO, ROME, WEATHER, write_suite
from tests.support.dataset_reading import keys, opened, problem, read, write


def case(source: Path, name: str) -> Case:
    found = read(source, name)
    assert isinstance(found, Case), found
    return found


def offer(source: Path, name: str) -> ToolOffer:
    found = case(source, name).offer
    assert found is not None
    return found


def verdict_of(source: Path, name: str, *calls: tuple[str, Any]) -> FailureType | None:
    with Judge() as judge:
        return agreement.decide_calls(case(source, name), list(calls), judge).failure_type


def weather(**arguments: Any) -> tuple[str, Any]:
    return "weather_get", arguments


def test_each_category_is_a_task(tmp_path: Path) -> None:
    assert keys(write_suite(tmp_path)) == [
        "irrelevance::irrelevance_0",
        "live_parallel_multiple::live_parallel_multiple_0",
        "live_relevance::live_relevance_0",
        "multiple::multiple_0",
        "parallel::parallel_0",
        "simple_python::simple_python_0",
        "simple_python::simple_python_1",
        "simple_python::simple_python_2",
    ]


def test_one_file_and_a_pattern_find_the_answers_too(tmp_path: Path) -> None:
    root = write_suite(tmp_path)
    assert len(offer(root / "BFCL_v4_parallel.json", "parallel_0").expected or ()) == 2
    assert keys(root / "BFCL_v4_live_*.json") == [
        "live_parallel_multiple::live_parallel_multiple_0",
        "live_relevance::live_relevance_0",
    ]


def test_the_questions_are_published_so_contradictory_rows_are_skipped(tmp_path: Path) -> None:
    root = write_suite(tmp_path)
    for source in (root, root / "BFCL_v4_multiple.json", root / "BFCL_v4_*.json"):
        assert is_published(str(source))


def test_a_function_is_offered_as_bfcl_eval_sends_it(tmp_path: Path) -> None:
    found = case(write_suite(tmp_path), "multiple_0")
    assert [message.to_dict() for message in found.messages] == [{"role": "user", "content": "Question multiple_0?"}]
    assert found.offer is not None
    book, forecast = found.offer.tools
    assert (book.name, forecast.name) == ("book", "weather_get")
    assert forecast.description == "Get the weather. Note that the provided function is in Python 3 syntax."
    assert isinstance(forecast.parameters, dict)
    assert isinstance(book.parameters, dict)
    assert forecast.parameters["type"] == "object"
    assert forecast.parameters["properties"]["limit"] == {
        "type": "number",
        "description": "Lowest temperature. This is a float type value.",
    }
    properties = book.parameters["properties"]
    assert [properties[name]["type"] for name in ("guest", "dishes", "place", "note")] == [
        "object",
        "array",
        "array",
        "string",
    ]
    assert properties["place"]["items"] == {"type": "number"}
    assert "optional" not in properties["note"]


def test_irrelevance_expects_no_call_and_relevance_any_call(tmp_path: Path) -> None:
    root = write_suite(tmp_path)
    assert offer(root, "irrelevance_0").expected == ()
    assert (offer(root, "live_relevance_0").expected, offer(root, "live_relevance_0").some_call) == (None, True)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"city": "Oslo"}, None),
        ({"city": "OSLO NORWAY", "days": 3, "limit": 5, "unit": "celsius"}, None),
        ({"city": "Oslo", "days": 4}, FailureType.WRONG_ARGUMENTS),
        ({"city": "Oslo", "days": "3"}, FailureType.SCHEMA_VIOLATION),
        ({"city": "Oslo", "tags": ["dry"]}, FailureType.WRONG_ARGUMENTS),
        ({"days": 3}, FailureType.SCHEMA_VIOLATION),
        ({"city": "Oslo", "wind": 3}, FailureType.HALLUCINATION),
        ({"city": "Oslo", "unit": None}, FailureType.SCHEMA_VIOLATION),
        ({"city": "Oslo", "unit": "Celsius"}, FailureType.SCHEMA_VIOLATION),
    ],
)
def test_arguments_have_acceptable_values(tmp_path: Path, arguments: Any, fault: FailureType | None) -> None:
    assert verdict_of(write_suite(tmp_path), "simple_python_0", weather(**arguments)) is fault


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"city": "rome", "tags": ["hot-day", "DRY"], "hours": [8, 20]}, None),
        ({"city": "Rome", "tags": [], "hours": []}, None),
        ({"city": "Rome", "tags": ["Dry", "Hot day"]}, FailureType.WRONG_ARGUMENTS),
        ({"city": "Rome", "hours": [8]}, FailureType.WRONG_ARGUMENTS),
    ],
)
def test_lists_have_the_acceptable_items_in_order(tmp_path: Path, arguments: Any, fault: FailureType | None) -> None:
    assert verdict_of(write_suite(tmp_path), "simple_python_1", weather(**arguments)) is fault


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"guest": {"name": "ann lee", "seats": 2}, "note": "by the window"}, None),
        ({"guest": {"name": "Ann Lee"}, "place": [59.9, 10.7], "note": ""}, None),
        ({"guest": {"name": "Ann Lee"}, "dishes": [{"dish": "soup", "count": 2}, {"dish": "Cake"}]}, None),
        ({"guest": {"name": "Ann Lee"}, "dishes": [{"dish": "Cake"}, {"dish": "Soup", "count": 2}]}, "wrong"),
        ({"guest": {"name": "Ann Lee"}, "dishes": [{"dish": "Soup", "count": 2}]}, "wrong"),
        ({"guest": {"seats": 2}}, "wrong"),
        ({"guest": {"name": "Ann Lee", "seats": 3}}, "wrong"),
    ],
)
def test_objects_have_acceptable_members(tmp_path: Path, arguments: Any, fault: str | None) -> None:
    expected = None if fault is None else FailureType.WRONG_ARGUMENTS
    assert verdict_of(write_suite(tmp_path), "simple_python_2", ("book", arguments)) is expected


def test_parallel_calls_have_no_order(tmp_path: Path) -> None:
    root = write_suite(tmp_path)
    oslo, rome = weather(city="Oslo"), weather(city="Rome")
    assert verdict_of(root, "parallel_0", rome, oslo) is None
    assert verdict_of(root, "parallel_0", oslo, oslo) is FailureType.WRONG_ARGUMENTS
    assert verdict_of(root, "parallel_0", oslo) is FailureType.NO_CALL
    assert verdict_of(root, "parallel_0", oslo, rome, rome) is FailureType.WRONG_TOOL


def test_a_value_of_another_type_than_declared_is_compared_exactly(tmp_path: Path) -> None:
    truth = [{"weather.get": {"city": [None, "Oslo"]}}]
    root = write_suite(tmp_path, [("simple_python", [WEATHER], truth)])
    assert verdict_of(root, "simple_python_0", weather(city="Oslo")) is None
    assert verdict_of(root, "simple_python_0", weather(city="oslo")) is FailureType.WRONG_ARGUMENTS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"city": ["Oslo"], "unit": ["fahrenheit"]}, "no acceptable value of 'unit' has the declared type"),
        ({"city": [True]}, "no acceptable value of 'city' has the declared type"),
        ({"city": ["Oslo"], "hours": [["eight"]]}, "no acceptable value of 'hours' has the declared type"),
        ({"city": ["Oslo"], "days": [True]}, "no acceptable value of 'days' has the declared type"),
        ({"city": ["Oslo"], "wind": [1]}, "'wind' is not a parameter"),
        ({"days": [1]}, "'city' is required, and has no acceptable value"),
    ],
)
def test_a_row_that_contradicts_its_own_schema_is_excluded(tmp_path: Path, arguments: Any, message: str) -> None:
    root = write_suite(tmp_path, [("simple_python", [WEATHER], [{"weather.get": arguments}])])
    found = problem(root, "simple_python_0")
    assert "no acceptable call of 'weather_get' conforms to the function's own schema: " in found
    assert message in found


def test_an_acceptable_value_that_differs_loosely_from_a_declared_one_is_no_contradiction(tmp_path: Path) -> None:
    truth = [{"weather.get": {"city": ["Oslo"], "unit": ["Celsius"]}}]
    root = write_suite(tmp_path, [("simple_python", [WEATHER], truth)])
    assert verdict_of(root, "simple_python_0", weather(city="Oslo", unit="celsius")) is None


@pytest.mark.parametrize(
    ("row", "answer", "message"),
    [
        ([1], None, "the row is a JSON array; expected an object"),
        ({"id": "a", "function": [], "question": [[]]}, None, "tools is empty; expected at least one tool"),
        ({"id": "a", "function": "f"}, None, "function is a JSON string; expected a list"),
        ({"id": "a", "function": [{"name": "f"}]}, None, "function[0] has no parameters"),
        ({"id": "a", "function": [WEATHER, WEATHER]}, None, "two functions have the name 'weather_get'"),
        ({"id": "a", "function": [WEATHER], "question": [[], []]}, None, "question is 2 turns"),
        ({"id": "a", "function": [WEATHER], "question": "?"}, None, "question is a JSON string"),
        ({"id": "a", "function": [WEATHER], "question": [[]]}, None, "messages is an empty list"),
        ({"id": "a", "function": [WEATHER]}, {"id": "b"}, "no answer to this row in possible_answer/"),
        ({"id": "a", "function": [WEATHER]}, {"id": "a"}, "ground_truth is not a list of calls"),
        ({"id": "a", "function": [WEATHER]}, {"id": "a", "ground_truth": [{}]}, "one call each"),
        ({"id": "a", "function": [WEATHER]}, {"id": "a", "ground_truth": [{"book": {}}]}, "of the row: 'book'"),
        (
            {"id": "a", "function": [{"name": "f", "parameters": {"properties": {"x": "string"}, "required": [{}]}}]},
            {"id": "a", "ground_truth": [{"f": {"x": 1}}]},
            "the acceptable values of 'x' are a JSON number; expected a list",
        ),
        (
            {"id": "a", "function": [WEATHER]},
            {"id": "a", "ground_truth": [{"weather.get": {"city": "Oslo"}}]},
            "the acceptable values of 'city' are a JSON string; expected a list",
        ),
        (
            {"id": "a", "function": [BOOK]},
            {"id": "a", "ground_truth": [{"book": {"guest": [{"name": "Ann"}]}}]},
            "the acceptable values of 'name' are a JSON string; expected a list",
        ),
    ],
)
def test_a_wrong_row_is_reported(tmp_path: Path, row: Any, answer: Any, message: str) -> None:
    category = "irrelevance" if answer is None else "multiple"
    files = {f"BFCL_v4_{category}.json": json.dumps(row)}
    if answer is not None:
        files["possible_answer/BFCL_v4_multiple.json"] = json.dumps(answer)
    found = problem(write(tmp_path, files))
    assert f"BFCL_v4_{category}.json line 1: " in found
    assert message in found


def test_other_categories_are_skipped_with_a_note(tmp_path: Path) -> None:
    root = write_suite(tmp_path)
    write(root, {"BFCL_v4_simple_java.json": "{}", "BFCL_v4_multi_turn_base.json": "{}"})
    write(root, {"multi_turn_func_doc/math_api.json": "{}\n{}", "unused_datasets/question/BFCL_v4_rest.json": "{}"})
    listing = opened(root)
    why = "skipped, as only single-turn rows with Python functions are read"
    assert listing.notes == tuple(
        f"{root / name}: {why}" for name in ("BFCL_v4_multi_turn_base.json", "BFCL_v4_simple_java.json")
    )
    assert len(listing.keys()) == 8


def test_own_files_in_a_directory_of_their_own_are_read(tmp_path: Path) -> None:
    root = write(write_suite(tmp_path), {"mine/own.json": {"type": "object"}})
    assert "mine::own" in keys(root)


@pytest.mark.parametrize(
    ("files", "published"),
    [
        ({"BFCL_v4_parallel.json": "{}"}, True),
        ({"deeper/BFCL_v4_parallel.json": "{}"}, False),
        ({"BFCL_version_notes.json": {"type": "object"}, "own.json": {"type": 5}}, False),
    ],
)
def test_only_a_directory_of_questions_is_published(tmp_path: Path, files: dict[str, Any], published: bool) -> None:
    assert is_published(str(write(tmp_path, files))) is published


def test_a_pattern_of_questions_is_published(tmp_path: Path) -> None:
    assert is_published(str(tmp_path / "BFCL_v4_live_*.json"))


def test_the_answers_alone_are_skipped_with_a_note(tmp_path: Path) -> None:
    listing = opened(write_suite(tmp_path) / "possible_answer" / "BFCL_v4_parallel.json")
    assert not listing.keys()
    assert "it has the answers; set the directory of the questions above it" in listing.notes[0]


def test_another_file_in_the_directory_is_a_schema_as_before(tmp_path: Path) -> None:
    root = write(write_suite(tmp_path), {"own.json": {"type": "object"}})
    assert f"{root.name}::own" in keys(root)


@pytest.mark.skipif(importlib.util.find_spec("bfcl_eval") is None, reason="needs bfcl-eval, for its checker")
def test_verdicts_agree_with_the_checker_of_bfcl_eval(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("bfcl_eval")
    assert spec is not None
    assert spec.origin is not None
    root = write_suite(tmp_path)
    with Judge() as judge:
        found = agreement.compare(root, agreement.load_checker(Path(spec.origin).parent), judge)
    assert found.compared > 100
    assert found.accepted["right, first values"] == 6
    # bfcl-eval checks neither `enum` nor the types in lists and objects, and rejects 3.0 as an integer
    assert {fault for _, fault in found.only_theirs} == {"schema_violation"}
    assert set(found.only_ours) == {"an integer as float"}


def test_the_kinds_of_answers_have_one_right_answer_at_least() -> None:
    row = {"function": [WEATHER, BOOK]}
    answer = {"ground_truth": [{"weather.get": OSLO}, {"weather.get": ROME}, {"book": GUEST}]}
    kinds = dict(agreement.answer_kinds(row, answer))
    assert [name for name, _ in kinds["right, first values"]] == ["weather_get", "weather_get", "book"]
    assert kinds["right, without optional"][1] == ("weather_get", {"city": "Rome"})
    assert {"null", "another value", "other case", "calls in another order", "a call twice"} <= kinds.keys()
