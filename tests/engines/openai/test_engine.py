from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.core.generations import FaultKind, ResponseFormat, Sent, Tools
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.providers.openai import DEFAULT_MODEL
from pytest_jsbench.engines.registry import find
from tests.engines.asking import CITY, complete, fault, request
from tests.engines.contract import SLOW, EngineContract, ServedContract
from tests.engines.openai_wire import SECRET, chunk, configured, whole
from tests.engines.provider import DONE, Provider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import Engine, EngineFactory

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")


@pytest.fixture
def engine(provider: Provider) -> Iterator[Engine]:
    engine = find("openai").build(configured(provider))
    yield engine
    engine.close()


@pytest.fixture
def unstreamed(provider: Provider) -> Iterator[Engine]:
    engine = find("openai").build(configured(provider, options={"stream": False}))
    yield engine
    engine.close()


class TestContractWithALoopbackServer(EngineContract):
    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find("openai")

    @pytest.fixture
    def config(self, provider: Provider) -> EngineConfig:
        provider.stream(chunk("", role="assistant"), chunk('{"city": "Oslo"}'), chunk(finish="stop"), DONE, pause=SLOW)
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
    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find("openai")

    @pytest.fixture
    def config(self, local_config: EngineConfig) -> EngineConfig:
        return replace(local_config, name="openai", options={"extra_body": {"cache_prompt": False}})


def test_what_was_asked_is_sent_and_nothing_else(provider: Provider, engine: Engine) -> None:
    provider.stream(chunk("x", finish="stop"), DONE)
    complete(engine, request(system="Be brief.", max_tokens=7))
    (asked,) = provider.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
    assert asked.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Name a city, as JSON."},
        ],
        "max_tokens": 7,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": CITY, "strict": True},
        },
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_sampling_is_sent_only_when_it_is_asked_for(provider: Provider, engine: Engine) -> None:
    provider.stream(chunk("x", finish="stop"), DONE)
    complete(engine, request(temperature=0, seed=7))
    assert provider.asked[0].body["temperature"] == 0
    assert provider.asked[0].body["seed"] == 7


@pytest.mark.parametrize(
    ("response_format", "sent"),
    [
        (ResponseFormat.TEXT, {}),
        (ResponseFormat.JSON_OBJECT, {"response_format": {"type": "json_object"}}),
        (
            ResponseFormat.TOOL,
            {
                "tools": [{"type": "function", "function": {"name": "output", "parameters": CITY, "strict": True}}],
                "tool_choice": {"type": "function", "function": {"name": "output"}},
            },
        ),
    ],
)
def test_each_response_format_is_sent_in_its_own_way(
    provider: Provider, response_format: ResponseFormat, sent: dict[str, Any]
) -> None:
    provider.stream(chunk("x", finish="stop"), DONE)
    engine = find("openai").build(configured(provider, response_format=response_format))
    tools = Tools(schemas={"output": None}, allowed=("output",), required=True)
    expected = tools if response_format is ResponseFormat.TOOL else None
    assert complete(engine).sent == Sent(response_format=response_format, tools=expected)
    body = provider.asked[0].body
    assert {name: body[name] for name in ("response_format", "tools", "tool_choice") if name in body} == sent
    engine.close()


def test_engine_options_reach_the_server(provider: Provider) -> None:
    options = {
        "strict": False,
        "schema_name": "city",
        "max_tokens_field": "n_predict",
        "extra_body": {"provider": {"require_parameters": True}},
        "extra_headers": {"X-Title": "bench"},
        "stream": False,
    }
    provider.json(whole())
    engine = find("openai").build(configured(provider, options=options))
    complete(engine, request(max_tokens=5))
    (asked,) = provider.asked
    assert asked.body["response_format"]["json_schema"] == {"name": "city", "schema": CITY, "strict": False}
    assert asked.body["n_predict"] == 5
    assert asked.body["provider"] == {"require_parameters": True}
    assert asked.headers["x-title"] == "bench"
    assert "stream" not in asked.body
    assert engine.info.details["strict"] is False
    engine.close()


@pytest.mark.parametrize("schema", [{"const": "\ud800"}, {"const": float("nan")}])
def test_a_schema_that_no_request_can_carry_is_a_fault_of_the_engine(
    provider: Provider, engine: Engine, schema: dict[str, Any]
) -> None:
    provider.stream(chunk("{}", finish="stop"), DONE)
    error = fault(engine, request(schema))
    assert error.kind is FaultKind.ENGINE
    assert error.message.startswith("the request cannot be made")
    assert not provider.asked


def test_at_openai_the_model_and_the_limit_have_their_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    factory, config = find("openai"), EngineConfig(name="openai")
    factory.check(config)
    info = factory.describe(config)
    assert (info.engine, info.model) == ("openai", DEFAULT_MODEL)
    assert (info.response_format, info.streaming) == (ResponseFormat.JSON_SCHEMA, True)
    assert set(info.details) == {"strict"}


def test_a_description_needs_no_key_but_a_check_does() -> None:
    factory, config = find("openai"), EngineConfig(name="openai")
    assert factory.describe(config).model == DEFAULT_MODEL
    with pytest.raises(MissingRequirement, match="needs a key: set OPENAI_API_KEY"):
        factory.check(config)
    with pytest.raises(MissingRequirement, match="needs a key: set OPENAI_API_KEY"):
        factory.build(config)


def test_the_default_model_is_one_the_sdk_knows() -> None:
    from typing import get_args

    from openai.types.shared.chat_model import ChatModel

    assert DEFAULT_MODEL in get_args(ChatModel)


def test_another_server_needs_a_model_and_no_key(provider: Provider) -> None:
    factory = find("openai")
    with pytest.raises(EngineError, match=r"--jsbench-model is needed with http"):
        factory.check(EngineConfig(name="openai", base_url=provider.url))
    provider.stream(chunk("{}", finish="stop"), DONE)
    engine = factory.build(EngineConfig(name="openai", model="m", base_url=provider.url))
    complete(engine)
    assert provider.asked[0].headers["authorization"] == "Bearer none"
    engine.close()


def test_published_prices_hold_at_home_only(provider: Provider) -> None:
    factory = find("openai")
    assert factory.describe(EngineConfig(name="openai")).provider == "openai"
    assert factory.describe(configured(provider)).provider is None
