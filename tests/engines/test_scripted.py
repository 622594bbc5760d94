from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import DeclineReason, FaultKind, FinishReason, ResponseFormat, Sent, Usage
from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.registry import find
from tests.support.engine_calls import complete, decline, fault, request
from tests.support.engine_contract import SLOW, EngineContract


@pytest.fixture
def script(tmp_path: Path) -> Any:
    """Return a function that writes an answers file and builds the engine for it."""

    def write(answers: object) -> Engine:
        text = answers if isinstance(answers, str) else json.dumps(answers)
        return find("scripted").build(configured(tmp_path, text))

    return write


def configured(folder: Path, text: str) -> EngineConfig:
    path = folder / "answers.json"
    path.write_text(text, "utf-8")
    return EngineConfig(name="scripted", options={"answers": str(path)})


class TestContract(EngineContract):
    @pytest.fixture
    def config(self, tmp_path: Path) -> EngineConfig:
        return configured(tmp_path, json.dumps({"*": {"text": "{}", "ttft": SLOW / 2, "delay": SLOW}}))


def test_an_answer_is_found_by_task_and_id_then_by_id_then_for_all(script: Any) -> None:
    engine = script({"simple::city": "1", "city": "2", "*": "3"})
    assert complete(engine, request(task="simple", case_id="city")).text == "1"
    assert complete(engine, request(task="other", case_id="city")).text == "2"
    assert complete(engine, request(task="other", case_id="town")).text == "3"


def test_case_without_a_scripted_answer_is_an_engine_fault(script: Any) -> None:
    error = fault(script({"town": "{}"}))
    assert error.kind is FaultKind.ENGINE
    assert error.message.startswith("no answer for simple::city in ")


def test_scripted_answer_sets_all_fields(script: Any) -> None:
    answer = complete(
        script({
            "city": {
                "instance": {"city": "Åre"}, "finish_reason": "length", "ttft": 0.02, "delay": 0.05,
                "usage": {"input_tokens": 3, "output_tokens": 4, "cached_tokens": 2},
            }
        })
    )  # fmt: skip
    assert answer.text == '{"city": "Åre"}'
    assert answer.finish_reason is FinishReason.LENGTH
    assert answer.usage == Usage(input_tokens=3, output_tokens=4, cached_tokens=2)
    assert answer.sent == Sent(response_format=ResponseFormat.JSON_SCHEMA)
    assert answer.timing is not None
    assert answer.timing.ttft is not None
    assert answer.timing.ttft >= 0.02
    assert answer.timing.tgt >= 0.05


def test_function_answer_has_an_unknown_finish_reason(script: Any) -> None:
    answer = complete(script({"*": "prose"}))
    assert answer.timing is not None
    assert (answer.text, answer.usage, answer.timing.ttft) == ("prose", Usage(), None)


@pytest.mark.parametrize("reason", list(DeclineReason))
def test_scripted_decline_has_reason_and_message(script: Any, reason: DeclineReason) -> None:
    declined = decline(script({"*": {"decline": reason, "message": "no oneOf"}}))
    assert (declined.reason, declined.message) == (reason, "no oneOf")


@pytest.mark.parametrize("kind", list(FaultKind))
def test_scripted_fault_has_kind_and_message(script: Any, kind: FaultKind) -> None:
    answer = {"fault": kind, "message": "down", "status": 503, "retry_after": 0.5}
    error = fault(script({"*": answer}))
    assert (error.kind, error.message, error.status, error.retry_after) == (kind, "down", 503, 0.5)


def test_scripted_fault_ends_after_its_number_of_tries(script: Any) -> None:
    engine = script({"*": {"fault": "rate_limited", "times": 2, "text": "{}"}})
    for repeat in (0, 1):
        assert fault(engine, request(repeat=repeat)).kind is FaultKind.RATE_LIMITED
        assert fault(engine, request(repeat=repeat)).kind is FaultKind.RATE_LIMITED
        assert complete(engine, request(repeat=repeat)).text == "{}"


def test_list_gives_an_answer_per_repeat(script: Any) -> None:
    engine = script({"*": ["first", {"text": "second"}]})
    texts = [complete(engine, request(repeat=repeat)).text for repeat in range(4)]
    assert texts == ["first", "second", "second", "second"]


def test_slow_scripted_answer_is_a_timeout(script: Any) -> None:
    started = time.perf_counter()
    error = fault(script({"*": {"text": "{}", "ttft": 0.01, "delay": 30}}), request(timeout=0.05))
    assert error.kind is FaultKind.TIMEOUT
    assert 0.05 <= time.perf_counter() - started < 20


def test_json_lines_give_repeats_in_order(script: Any) -> None:
    lines = [
        {"task": "simple", "id": "city", "text": "1"},
        {"task": "simple", "id": "city", "text": "2"},
        {"id": "*", "instance": []},
    ]
    engine = script("\n\n".join(json.dumps(line) for line in lines))
    assert complete(engine, request(repeat=0)).text == "1"
    assert complete(engine, request(repeat=1)).text == "2"
    assert complete(engine, request(case_id="town")).text == "[]"


def test_a_line_ends_where_json_lines_do_and_not_within_a_text(script: Any) -> None:
    text = "a\u2028b\x85c"
    lines = [{"id": "city", "text": text}, {"id": "*", "text": ""}]
    engine = script("\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
    assert complete(engine).text == text


def test_a_single_line_is_a_line(script: Any) -> None:
    assert complete(script('{"id": "city", "text": "{}"}')).text == "{}"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"a": {"txt": "x"}}, "a: unknown field 'txt': did you mean 'text'?"),
        ({"a": {}}, "expected one of text, instance, calls, decline, fault"),
        ({"a": 3}, "expected a string or an object, found 3"),
        ({"a": {"text": "x", "instance": 1}}, "'text' and 'instance' exclude each other"),
        ({"a": {"fault": "sever"}}, "unknown fault 'sever': did you mean 'server'?"),
        ({"a": {"decline": "no"}}, "unknown decline 'no'"),
        ({"a": {"text": "x", "finish_reason": "end"}}, "unknown finish_reason 'end'"),
        ({"a": {"fault": "server", "times": 2}}, "'times' requires a fault and an answer after the fault"),
        ({"a": {"text": "x", "times": 2}}, "'times' requires a fault and an answer after the fault"),
        ({"a": {"text": "x", "delay": -1}}, "'delay' must be a number of seconds, found -1"),
        ({"a": {"text": "x", "status": "5"}}, "'status' must be a whole number above 0"),
        ({"a": {"text": 5}}, "'text' must be a string, found 5"),
        (
            {"a": {"text": "x", "usage": {"tokens": 5}}},
            "'usage' must be an object with the fields cache_write_1h_tokens",
        ),
        ({"a": {"text": "x", "usage": {"input_tokens": "5"}}}, "'input_tokens' must be a whole number"),
        ("{", "not JSON: Expecting property name"),
        ('{\n "a": "x",\n "b": \n}', "not JSON: Expecting value at line 4 column 1"),
        ('{"id": "a", "text": "x"}\n{"id": ', "line 2: not JSON"),
        ('{"text": "x"}\n{"id": "a", "text": "y"}', 'line 1: expected an object with an "id"'),
        ('{"id": "a"}', "expected one of text, instance, calls, decline, fault"),
        ({"a": []}, "a: expected an answer for each repeat, found an empty list"),
        ("[]", 'line 1: expected an object with an "id"'),
    ],
)
def test_invalid_answers_file_is_rejected_by_name(tmp_path: Path, answers: Any, message: str) -> None:
    text = answers if isinstance(answers, str) else json.dumps(answers)
    with pytest.raises(EngineError) as caught:
        find("scripted").check(configured(tmp_path, text))
    assert message in str(caught.value)
    assert "answers.json" in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    config = EngineConfig(name="scripted", options={"answers": str(tmp_path / "no.json")})
    with pytest.raises(EngineError, match=r"no\.json: cannot be read: No such file"):
        find("scripted").check(config)
    assert find("scripted").describe(config).model == "scripted"


def test_missing_answers_option_is_reported() -> None:
    with pytest.raises(EngineError, match=r"needs answers: --jsbench-engine-option answers=FILE"):
        find("scripted").check(EngineConfig(name="scripted"))


FUNCTIONS = """
from pytest_jsbench import CallError, Completion, Stopwatch
from pytest_jsbench.core.generations import Declined, DeclineReason, FaultKind, FinishReason

def echo(request):
    return f"{request.key} {request.repeat}"

def described(request):
    return {"instance": request.schema["required"], "finish_reason": "length"}

def completed(request):
    return Completion(text="{}", finish_reason=FinishReason.STOP, timing=Stopwatch().stop())

def declined(request):
    return Declined(reason=DeclineReason.REFUSAL, message="no")

def limited(request):
    raise CallError(FaultKind.RATE_LIMITED, "slow", retry_after=2)

def broken(request):
    raise KeyError("tpyo")

def hungry(request):
    raise MemoryError

def nothing(request):
    return None

constant = 3
"""


@pytest.fixture
def function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "jsbench_answering.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "jsbench_answering", raising=False)

    def build(name: str) -> Engine:
        options = {"answers": f"jsbench_answering:{name}"}
        return find("scripted").build(EngineConfig(name="scripted", options=options))

    return build


def test_function_may_return_any_kind_of_answer(function: Any) -> None:
    assert complete(function("echo"), request(repeat=2)).text == "simple::city 2"
    described = complete(function("described"))
    assert (described.text, described.finish_reason) == ('["city", "old"]', FinishReason.LENGTH)
    assert complete(function("completed")).text == "{}"
    assert decline(function("declined")).message == "no"
    assert fault(function("limited")).retry_after == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", "the answers function raised KeyError: 'tpyo'"),
        ("nothing", "the answer for simple::city: expected a string or an object, found None"),
    ],
)
def test_exception_in_a_function_is_an_engine_fault(function: Any, name: str, message: str) -> None:
    error = fault(function(name))
    assert (error.kind, error.message) == (FaultKind.ENGINE, message)


def test_memory_error_of_a_function_is_not_a_call_error(function: Any) -> None:
    with pytest.raises(MemoryError):
        function("hungry").generate(request())


@pytest.mark.parametrize(
    ("name", "message"),
    [("eco", "did you mean 'echo'"), ("constant", "is an int; expected a function that takes a request")],
)
def test_invalid_function_is_rejected(function: Any, name: str, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        function(name)
