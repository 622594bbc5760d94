from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_jsbench import JudgePolicy, assert_conforms, judge
from pytest_jsbench.errors import ContractError

NUMBER = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}


@dataclass
class Count:
    n: int


@pytest.mark.parametrize("answer", ['{"n": 1}', b'{"n": 1}', {"n": 1}, '```json\n{"n": 1}\n```'])
def test_an_answer_that_conforms_is_given_back_as_its_json_value(answer: object) -> None:
    assert assert_conforms(NUMBER, answer) == {"n": 1}


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        (
            '{"n": -1}',
            [
                "schema_violation: $.n: -1 is less than the minimum of 0",
                "  minimum at $.n [schema /properties/n/minimum]",
                '  answer: {"n": -1}',
            ],
        ),
        ({"n": 1, "m": 2}, ["hallucination", "  not in the schema: $.m"]),
        ("n is 1", ["syntax_error (prose)"]),
        ({"n": float("nan")}, ["syntax_error"]),
        (b"\xff", ["syntax_error"]),
    ],
)
def test_one_that_does_not_fails_with_the_judge_s_message(answer: object, lines: list[str]) -> None:
    with pytest.raises(AssertionError) as failed:
        assert_conforms(NUMBER, answer)

    text = str(failed.value)
    assert text.startswith(lines[0])
    assert all(line in text.splitlines() or text.startswith(line) for line in lines)


def test_the_policy_says_how_strictly() -> None:
    assert assert_conforms(NUMBER, {"n": 1, "m": 2}, policy=JudgePolicy(extra_fields="allow")) == {"n": 1, "m": 2}


def test_a_schema_may_be_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "number.json").write_text(json.dumps(NUMBER))
    monkeypatch.chdir(tmp_path)

    assert assert_conforms("number.json", {"n": 1}) == {"n": 1}


@pytest.mark.skipif(importlib.util.find_spec("pydantic") is None, reason="needs the package pydantic")
def test_a_schema_may_be_a_type_and_an_answer_an_object_of_one() -> None:
    assert assert_conforms(Count, '{"n": 1}') == {"n": 1}
    assert assert_conforms(NUMBER, Count(n=1)) == {"n": 1}
    with pytest.raises(AssertionError, match=r"schema_violation: \$\.n: -1"):
        assert_conforms(NUMBER, Count(n=-1))


@pytest.mark.parametrize(
    ("answer", "found"), [({"n": {1}}, "a dict, is no JSON value: Object of type set"), (object(), "a object, is no")]
)
def test_an_answer_that_no_json_stands_for_is_the_caller_s_mistake(answer: object, found: str) -> None:
    with pytest.raises(ContractError, match=f"^the answer, {found}.*; expected text, bytes, "):
        assert_conforms(NUMBER, answer)


def test_a_schema_that_is_not_there_is_looked_for_from_the_working_folder() -> None:
    with pytest.raises(ContractError, match=r"cannot read the schema .*assert_conforms at the working folder\)$"):
        assert_conforms("nowhere.json", {})


def test_hostile_text_reaches_no_terminal() -> None:
    with pytest.raises(AssertionError) as failed:
        assert_conforms(NUMBER, {"n": "\x1b[2J\u202e", "\x07": 1})

    assert not {"\x1b", "\u202e", "\x07"} & set(str(failed.value))


def test_judge_and_assert_conforms_take_what_the_marker_takes(tmp_path: Path) -> None:
    path = tmp_path / "number.json"
    path.write_text(json.dumps(NUMBER))

    for schema in (NUMBER, path, str(path)):
        assert judge(schema, '{"n": -1}').keyword == "minimum"
        assert assert_conforms(schema, '{"n": 1}') == {"n": 1}


@pytest.mark.skipif(importlib.util.find_spec("pydantic") is None, reason="needs the package pydantic")
def test_judge_takes_a_type() -> None:
    assert judge(Count, '{"n": 1}').passed
    assert judge(list[Count], '[{"n": "one"}]').keyword == "type"


def test_json_text_in_the_place_of_a_schema_is_told_from_a_path() -> None:
    with pytest.raises(ContractError, match=r"^a text is the path of a schema file; of JSON text give"):
        judge(' {"type": "object"}', "1")
