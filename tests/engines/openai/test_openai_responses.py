from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import FaultKind, FinishReason, ResponseFormat, Sent, Tools
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.prompts import Prompt
from pytest_jsbench.engines.registry import find
from tests.engines.asking import CITY, complete, fault, request
from tests.engines.contract import SLOW, EngineContract, ServedContract
from tests.engines.openai_wire import SECRET
from tests.engines.provider import Provider
from tests.engines.responses_wire import configured, delta, start, stop, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import Engine, EngineConfig, EngineFactory

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")


@pytest.fixture
def engine(provider: Provider) -> Iterator[Engine]:
    provider.stream(start(), delta("{}"), stop())
    engine = find("openai").build(configured(provider))
    yield engine
    engine.close()


class TestContractWithALoopbackServer(EngineContract):
    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find("openai")

    @pytest.fixture
    def config(self, provider: Provider) -> EngineConfig:
        provider.stream(start(), delta('{"city": "Oslo"}'), stop(), pause=SLOW)
        return configured(provider)


class TestContractUnstreamed(EngineContract):
    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find("openai")

    @pytest.fixture
    def config(self, provider: Provider) -> EngineConfig:
        provider.json(whole(), silence=SLOW)
        return configured(provider, options={"stream": False})


class TestContractWithALanguageModel(ServedContract):
    """The server speaks this API, but holds to no schema in it and calls a truncated answer complete."""

    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find("openai")

    @pytest.fixture
    def config(self, local_config: EngineConfig) -> EngineConfig:
        options = {"api": "responses", "extra_body": {"cache_prompt": False}}
        return replace(local_config, name="openai", options=options)

    def test_an_answer_that_reaches_the_limit_says_so(self, engine: Engine) -> None:
        answer = complete(engine, request(max_tokens=3))
        assert answer.finish_reason is FinishReason.STOP
        assert answer.usage.output_tokens == 3

    def test_what_the_model_said_before_is_taken(self, engine: Engine) -> None:
        said = [Message(role="user", content="Hi"), Message(role="assistant", content="Hello")]
        prompt = Prompt(messages=(*said, Message(role="user", content="Name a city.")))
        assert complete(engine, replace(request(), prompt=prompt)).text

    def test_the_whole_answer_is_the_streamed_one(self, local_config: EngineConfig, engine: Engine) -> None:
        options = {"api": "responses", "extra_body": {"cache_prompt": False}, "stream": False}
        unstreamed = find("openai").build(replace(local_config, name="openai", options=options))
        asked = request(temperature=0)
        assert complete(unstreamed, asked).text == complete(engine, asked).text
        unstreamed.close()


def test_what_was_asked_is_sent_and_nothing_else(provider: Provider, engine: Engine) -> None:
    complete(engine, request(system="Be brief.", max_tokens=7, seed=7))
    (asked,) = provider.asked
    assert asked.path == "/v1/responses"
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
    assert asked.body == {
        "model": "m",
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Name a city, as JSON."},
        ],
        "max_output_tokens": 7,
        "store": False,
        "stream": True,
        "text": {"format": {"type": "json_schema", "name": "output", "schema": CITY, "strict": True}},
    }


def test_a_temperature_that_is_asked_for_is_sent(provider: Provider, engine: Engine) -> None:
    complete(engine, request(temperature=0))
    assert provider.asked[0].body["temperature"] == 0


@pytest.mark.parametrize(
    ("response_format", "sent"),
    [
        (ResponseFormat.TEXT, {}),
        (ResponseFormat.JSON_OBJECT, {"text": {"format": {"type": "json_object"}}}),
        (
            ResponseFormat.TOOL,
            {
                "tools": [{"type": "function", "name": "output", "parameters": CITY, "strict": True}],
                "tool_choice": {"type": "function", "name": "output"},
            },
        ),
    ],
)
def test_each_response_format_is_sent_in_its_own_way(
    provider: Provider, response_format: ResponseFormat, sent: dict[str, Any]
) -> None:
    provider.stream(delta("x"), stop())
    engine = find("openai").build(configured(provider, response_format=response_format))
    tools = Tools(schemas={"output": None}, allowed=("output",), required=True)
    expected = tools if response_format is ResponseFormat.TOOL else None
    assert complete(engine).sent == Sent(response_format=response_format, tools=expected)
    body = provider.asked[0].body
    assert {name: body[name] for name in ("text", "tools", "tool_choice") if name in body} == sent
    engine.close()


def test_engine_options_reach_the_server(provider: Provider) -> None:
    options = {
        "strict": False,
        "schema_name": "city",
        "max_tokens_field": "max_tokens",
        "extra_body": {"reasoning": {"effort": "low"}, "store": True},
        "extra_headers": {"X-Title": "bench"},
        "stream": False,
    }
    provider.json(whole())
    engine = find("openai").build(configured(provider, options=options))
    complete(engine, request(max_tokens=5))
    (asked,) = provider.asked
    assert asked.body["text"]["format"] == {"type": "json_schema", "name": "city", "schema": CITY, "strict": False}
    assert asked.body["max_tokens"] == 5
    assert "max_output_tokens" not in asked.body
    assert asked.body["reasoning"] == {"effort": "low"}
    assert asked.body["store"] is True
    assert asked.headers["x-title"] == "bench"
    assert "stream" not in asked.body
    engine.close()


def test_a_report_tells_the_two_apart(provider: Provider) -> None:
    describe = find("openai").describe
    assert describe(configured(provider)).details["api"] == "responses"
    assert "api" not in describe(configured(provider, options={"api": "chat"})).details


@pytest.mark.parametrize("api", ["respones", "", 1, None, ["chat"]])
def test_another_api_is_refused_with_the_two_that_there_are(provider: Provider, api: object) -> None:
    said = re.escape(f"option 'api' of engine 'openai' is chat or responses, not {api!r}")
    with pytest.raises(EngineError, match=said):
        find("openai").check(configured(provider, options={"api": api}))


def test_a_schema_that_no_request_can_carry_is_a_fault_of_the_engine(provider: Provider, engine: Engine) -> None:
    error = fault(engine, request({"const": "\ud800"}))
    assert error.kind is FaultKind.ENGINE
    assert not provider.asked
