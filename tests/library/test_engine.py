from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench import (
    Case,
    CaseKey,
    Completion,
    Declined,
    EngineConfig,
    JSBenchError,
    OpenEngine,
    Request,
    Usage,
    evaluate,
)
from pytest_jsbench import open_engine as opened
from pytest_jsbench.adaptation import Adapted, Inexpressible
from pytest_jsbench.core.generations import CallError, DeclineReason, FaultKind, FinishReason, ResponseFormat
from pytest_jsbench.engines.base import TokenCounter
from pytest_jsbench.testing import request

ORDER = Case(
    key=CaseKey(task="orders", id="one"),
    schema={"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]},
)


def echo(asked: Request) -> str:
    return json.dumps({"asked": asked.prompt.messages[-1].content, "schema": asked.schema})


def test_generate_uses_the_default_or_a_given_prompt() -> None:
    with opened(echo, model="mine", temperature=0.5) as engine:
        answer = engine.generate(ORDER)
        assert isinstance(answer, Completion)
        content = json.loads(answer.text)
        assert content["schema"] == ORDER.schema
        assert "minimum" in content["asked"]
        assert (answer.finish_reason, answer.timing is not None) == (FinishReason.UNKNOWN, True)
        other = engine.generate(ORDER, "Say it.")
        assert isinstance(other, Completion)
        assert json.loads(other.text)["asked"] == "Say it."
        assert (engine.info.engine, engine.info.model) == ("function", "mine")
        assert engine.params.temperature == 0.5
        assert engine.calls == 2


def test_a_coroutine_function_answers_too() -> None:
    async def answers(asked: Request) -> str:
        return asked.key.id

    with opened(answers) as engine:
        answer = engine.generate(ORDER)
        assert engine.info.model == "answers"

    assert isinstance(answer, Completion)
    assert answer.text == "one"


def test_invalid_result_of_a_function_is_a_call_error() -> None:
    def gives(asked: Request) -> Any:
        return {"n": 1}

    def breaks(asked: Request) -> str:
        raise LookupError("nowhere")

    with opened(gives) as engine, pytest.raises(CallError, match="returned a dict; expected a string"):
        engine.generate(ORDER)
    with opened(breaks) as engine, pytest.raises(CallError, match="LookupError: nowhere"):
        engine.generate(ORDER)
    with pytest.raises(JSBenchError, match="remove the settings: base_url, stop"):
        opened(gives, base_url="http://x", stop=[1])


def test_engine_adds_up_the_reported_tokens() -> None:
    usages = iter([Usage(input_tokens=5, output_tokens=2), Usage(input_tokens=7), Usage()])

    def answers(asked: Request) -> Completion:
        return Completion(text="{}", finish_reason=FinishReason.STOP, timing=None, usage=next(usages))

    with opened(answers) as engine:
        assert engine.usage == Usage()
        for _ in range(3):
            engine.generate(request())

    assert engine.usage == Usage(input_tokens=12, output_tokens=2)


def test_schema_is_adapted_to_the_subset() -> None:
    with opened(echo, adapt="narrow:openai") as engine:
        adapted = engine.adapt(ORDER.schema)
        answer = engine.generate(ORDER)
        hopeless = {"type": "object", "minProperties": 1}
        assert isinstance(engine.adapt(hopeless), Inexpressible)
        declined = engine.generate(Case(key=ORDER.key, schema=hopeless))

    assert isinstance(adapted, Adapted)
    assert adapted.changes
    assert isinstance(answer, Completion)
    assert json.loads(answer.text)["schema"] == adapted.schema
    assert isinstance(declined, Declined)
    assert declined.reason is DeclineReason.UNSUPPORTED_SCHEMA
    assert engine.calls == 1


def test_an_engine_gets_a_copy_of_the_schema() -> None:
    def spoils(asked: Request) -> str:
        asked.schema.clear()  # type: ignore[union-attr]
        return "{}"

    with opened(spoils) as engine:
        engine.generate(ORDER)

    assert ORDER.schema


def test_tokens_are_counted_by_the_engine_or_estimated() -> None:
    with opened(echo) as engine:
        length = engine.count_tokens("four bytes each")
        with pytest.raises(JSBenchError, match="'function' cannot tokenize"):
            engine.tokenize("x")

    assert (length.tokens, length.exact) == (4, False)


def test_an_engine_has_its_options_by_name(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text(json.dumps({"one": "{}"}))

    with opened("scripted", answers=tmp_path / "answers.json", response_format="text", max_tokens=7) as engine:
        answer = engine.generate(ORDER)

    assert isinstance(answer, Completion)
    assert answer.text == "{}"
    assert engine.info.response_format is ResponseFormat.TEXT
    assert engine.params.max_tokens == 7
    assert repr(engine).startswith("<engine scripted, model ")


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"engine": "opnai"}, "did you mean 'openai'"),
        ({"engine": "scripted", "response_format": "yaml"}, "response_format is 'yaml'; expected one of text"),
        ({"engine": "scripted", "adapt": "narrow"}, "adapt=narrow: engine 'scripted' has no default subset"),
        (
            {"engine": echo, "adapt": "narrow:unknown"},
            r"adapt is 'narrow:unknown'; expected verbatim, narrow\[:SUBSET\] or relax\[:SUBSET\]",
        ),
        ({"engine": 3}, "engine is an int; expected its name, a factory, or a function of a request"),
        ({"engine": echo, "temperature": "hot"}, "open_engine: temperature is 'hot'; expected a number of at least 0"),
        ({"engine": "scripted", "base_url": ["http://:key@h"]}, "base_url is a list; expected a non-empty string"),
        ({"engine": "scripted", "api_key_env": ""}, "api_key_env is ''; expected a non-empty string"),
        ({"engine": "scripted", "adapt": 5}, "adapt is 5"),
        (
            {"engine": "scripted", "modl": "m"},
            "open_engine has no argument 'modl', and engine 'scripted' has no such option: did you mean 'model'",
        ),
        ({"engine": "scripted", "concurrency": 4}, r"no such option: pass it to evaluate\(…\)"),
        ({"engine": "scripted"}, "needs answers: answers=FILE, or"),
    ],
)
def test_engine_that_cannot_be_opened_is_one_line(named: dict[str, Any], message: str) -> None:
    with pytest.raises(JSBenchError, match=message) as refused:
        opened(**named)

    assert "--jsbench" not in str(refused.value)
    assert ":key@" not in repr(refused.value.found)


def test_a_call_that_breaks_names_arguments_and_no_options() -> None:
    def broken(_: Request) -> str:
        raise CallError(FaultKind.BAD_REQUEST, "set --jsbench-engine-option stream=false, or --jsbench-max-tokens")

    with opened(broken) as engine, pytest.raises(CallError) as failed:
        engine.generate(ORDER)

    assert str(failed.value) == failed.value.message == "set stream=false, or max_tokens"


def test_sampling_settings_are_recorded_as_by_the_plugin() -> None:
    with opened(echo, temperature=0.0, seed=0) as engine:
        assert engine.variant.user_settings == {"engine": "function", "temperature": 0.0, "seed": 0}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("Say it.",), "OpenEngine.generate: request is 'Say it.'; expected a case with a schema, or a Request"),
        ((ORDER, [{"role": "user"}]), "OpenEngine.generate: prompt is a list; expected a Prompt, or its text"),
    ],
)
def test_invalid_request_is_one_line(asked: Any, message: str) -> None:
    with opened(echo) as engine, pytest.raises(JSBenchError) as refused:
        engine.generate(*asked)
    assert str(refused.value) == message


def test_closed_engine_raises_and_is_not_called() -> None:
    with opened(echo) as engine:
        pass

    for use in (lambda: engine.generate(ORDER), lambda: evaluate(engine, [ORDER], output=None)):
        with pytest.raises(JSBenchError, match="engine 'function' is closed: call it inside its `with`, or open it"):
            use()


class Counting:
    """An engine that counts tokens, and records that it was closed."""

    closed = 0

    def __init__(self, config: EngineConfig) -> None:
        self.info = request_info(config)

    def generate(self, asked: Request) -> Completion:
        return Completion(text="{}", finish_reason=FinishReason.STOP, timing=None)

    def count_tokens(self, prompt: object) -> int:
        return 41

    def tokenize(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def close(self) -> None:
        Counting.closed += 1


def request_info(config: EngineConfig) -> Any:
    from pytest_jsbench import EngineInfo

    return EngineInfo(engine="counting", model="m", response_format=ResponseFormat.TEXT, streaming=False)


def test_custom_engine_counts_tokens_itself_and_is_closed() -> None:
    before = Counting.closed
    with opened(f"{__name__}:Counting") as engine:
        assert isinstance(engine.engine, TokenCounter)
        assert engine.count_tokens("x").exact
        assert engine.count_tokens("x").tokens == 41
        assert list(engine.tokenize("ab")) == [97, 98]

    assert isinstance(engine, OpenEngine)
    assert Counting.closed > before
