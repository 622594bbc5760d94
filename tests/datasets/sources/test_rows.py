from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import Case, Expected, safe_name
from pytest_jsbench.core.messages import Message
from pytest_jsbench.datasets.documents import LARGEST_SCHEMA
from tests.support.dataset_reading import keys, problem, read, schema

STRING = {"type": "string"}


def lines(tmp_path: Path, *rows: Any) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows))
    return path


def test_row_is_a_schema_or_contains_one_with_name_and_task(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        STRING,
        True,
        {"id": "a", "schema": STRING},
        {"unique_id": "b", "id": 7, "json_schema": json.dumps(STRING), "task": "hard"},
        {"id": 7, "schema": False},
    )

    assert keys(path) == ["rows::line-1", "rows::line-2", "rows::a", "rows::7", "hard::b"]
    assert [schema(path, name) for name in ("line-1", "line-2", "a", "b", "7")] == [STRING, True, STRING, STRING, False]
    assert keys(path, tasks=("rows",), limit=1) == ["rows::line-1"]


@pytest.mark.parametrize("several", [{"type": ["object", "null"]}, {"type": ["array", "null"], "maxItems": 2}])
def test_schema_with_a_list_of_types_is_read(tmp_path: Path, several: dict[str, Any]) -> None:
    path = lines(tmp_path, several, {"id": "inside", "schema": several}, {"id": "text", "schema": json.dumps(several)})

    assert [schema(path, name) for name in ("line-1", "inside", "text")] == [several] * 3


def test_a_row_may_bring_its_prompt_or_messages_its_reference_and_tags(tmp_path: Path) -> None:
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name one."}]
    path = lines(
        tmp_path,
        {"id": "a", "schema": STRING, "prompt": "Name {schema}.", "reference": [None], "tags": ["eu", "x"]},
        {"id": "b", "schema": STRING, "messages": talk, "prompt": None},
    )

    prompted, talking = read(path, "a"), read(path, "b")

    assert isinstance(prompted, Case)
    assert isinstance(talking, Case)
    assert prompted.messages == (Message(role="user", content="Name {schema}."),)
    assert (prompted.reference, prompted.tags) == ([None], ("eu", "x"))
    assert talking.messages == (Message(role="system", content="Be brief."), Message(role="user", content="Name one."))
    assert (talking.reference, talking.tags) == (None, ())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"{oops", "not JSON: "),
        (b"[1]", "a JSON array is not a JSON Schema; expected an object, true or false"),
        (b"\xff\xfe{}", "cannot be read: not UTF-8"),
        (b'{"a": "', " line 3: not JSON: Unterminated string starting at column 7"),
        (b'{"a": ' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply to be read as JSON"),
        ({"schema": "{oops"}, "not JSON: "),
        ({"schema": "[]"}, "a JSON array is not a JSON Schema"),
        ({"schema": 3}, "a JSON number is not a JSON Schema"),
        (
            {"prompt": "x", "unique_id": None},
            "prompt and unique_id without a schema; expected a field json_schema or schema",
        ),
        (
            {"record_id": None, "json_schema": True, "question": 1, "context": "", "ground_truth": {}},
            "expected question and context as text",
        ),
        ({"schema": True, "prompt": "x", "messages": []}, "both prompt and messages; expected one of them"),
        ({"schema": True, "prompt": 3}, "prompt is a JSON number; expected text"),
        (
            {"schema": True, "messages": []},
            "messages is an empty list; expected a list of objects with role and content",
        ),
        (
            {"schema": True, "messages": [{"role": "tool", "tool_call_id": "a", "content": "lost"}]},
            "messages[0].tool_call_id is 'a'; expected a call before this result",
        ),
        ({"schema": True, "messages": ["hi"]}, "messages[0].role is None"),
        (
            {"schema": True, "messages": [{"role": "user", "content": [1]}]},
            "messages[0].content[0].type is None; expected 'text'",
        ),
        (b'{"schema": true, "prompt": "\\ud800"}', "prompt contains a lone surrogate"),
        ({"schema": True, "tags": "eu"}, "tags are not a list of texts"),
    ],
)
def test_broken_row_becomes_a_case_with_file_and_line(tmp_path: Path, row: Any, message: str) -> None:
    path = lines(tmp_path, True, b"", row, {"id": "last", "schema": STRING})

    assert keys(path) == ["rows::line-1", "rows::line-3", "rows::last"]
    assert problem(path, "line-3").startswith(f"{path} line 3: ")
    assert message in problem(path, "line-3")
    assert schema(path, "last") == STRING


def test_a_schema_of_fifty_megabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with path.open("wb") as file:
        file.write(b'{"id": "huge", "schema": {"enum": ["')
        file.truncate(50_000_000)
        file.seek(0, 2)
        file.write(b'"]}}\n{"id": "small", "schema": true}\n')

    assert keys(path) == ["rows::line-1", "rows::small"]
    assert problem(path, "line-1").endswith("line 1: cannot be read: 50,000,005 bytes; expected at most 10,000,000")
    assert schema(path, "small") is True


def test_a_row_just_small_enough_is_read(tmp_path: Path) -> None:
    text = b'{"title": "' + b"x" * (LARGEST_SCHEMA - 13) + b'"}'

    assert len(schema(lines(tmp_path, text, True), "line-1")["title"]) == LARGEST_SCHEMA - 13


@pytest.mark.parametrize("name", ["a/b", "x" * 10_000, "名前", "\ud800"])
def test_a_row_of_any_id_and_task_is_read_by_a_safe_name(tmp_path: Path, name: str) -> None:
    path = lines(tmp_path, {"id": name, "schema": STRING, "task": name}, {"id": "plain", "schema": True})

    assert keys(path)[0] == f"{safe_name(name)}::{safe_name(name)}"
    assert schema(path, safe_name(name)) == STRING


def test_a_byte_order_mark_and_other_line_ends_are_no_part_of_a_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "schema": true}\r\n\r\n{"id": "b", "schema": {"title": "\xe2\x80\xa8"}}')

    assert keys(path) == ["rows::a", "rows::b"]
    assert schema(path, "a") is True
    assert schema(path, "b") == {"title": "\u2028"}


def test_a_file_that_shrank_since_is_a_broken_case(tmp_path: Path) -> None:
    path = lines(tmp_path, True, {"id": "a", "schema": STRING})
    from tests.support.dataset_reading import opened

    dataset = opened(path)
    path.write_bytes(b"true\n")

    assert "not JSON" in getattr(dataset.case(dataset.keys()[1]), "problem", "")


def test_row_with_schema_as_text_has_its_expected_instance_parsed(tmp_path: Path) -> None:
    text = json.dumps(STRING)
    path = lines(
        tmp_path,
        {"id": "text", "schema": text, "expected": '{"a": 1}'},
        {"id": "none", "schema": text, "expected": None},
        {"id": "null", "schema": STRING, "expected": None},
        {"id": "broken", "schema": text, "expected": "{"},
    )

    cases = {name: read(path, name) for name in ("text", "none", "null")}

    assert {name: isinstance(case, Case) and case.expected for name, case in cases.items()} == {
        "text": Expected(value={"a": 1}),
        "none": None,
        "null": Expected(value=None),
    }
    assert "not JSON" in problem(path, "broken")


def test_schema_is_shown_without_comparers_even_without_expected_value(tmp_path: Path) -> None:
    named = {"type": "string", "x-jsbench-compare": {"casefold": True}}
    text = json.dumps(named)
    escaped = text.replace("-compare", "\\u002dcompare")
    rows = [{"id": "b", "schema": named, "expected": "B"}, {"id": "c", "schema": text}, {"id": "d", "schema": escaped}]
    path = lines(tmp_path, named, {"id": "a", "schema": named}, *rows)

    assert [schema(path, name) for name in ("line-1", "a", "b", "c", "d")] == [STRING] * 5
