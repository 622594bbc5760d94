from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.core.generations import FaultKind, FinishReason, ResponseFormat, Sent, Tools
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.providers.messages import DEFAULT_MODEL
from pytest_jsbench.engines.registry import find
from tests.engines.anthropic_wire import SECRET, TEXT, configured, delta, start, stop, whole
from tests.engines.asking import CITY, complete, fault, request
from tests.engines.contract import SLOW, EngineContract, ServedContract
from tests.engines.provider import Provider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import Engine, EngineFactory

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")


@pytest.fixture
def engine(provider: Provider) -> Iterator[Engine]:
    engine = find("anthropic").build(configured(provider))
    yield engine
    engine.close()


@pytest.fixture
def unstreamed(provider: Provider) -> Iterator[Engine]:
    engine = find("anthropic").build(configured(provider, options={"stream": False}))
    yield engine
    engine.close()


class TestContractWithALoopbackServer(EngineContract):
    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find("anthropic")

    @pytest.fixture
    def config(self, provider: Provider) -> EngineConfig:
        provider.stream(start(), delta('{"city": "Oslo"}'), stop(), pause=SLOW)
        return configured(provider)


class TestContractUnstreamed(EngineContract):
    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find("anthropic")

    @pytest.fixture
    def config(self, provider: Provider) -> EngineConfig:
        provider.json(whole(TEXT), silence=SLOW)
        return configured(provider, options={"stream": False})


class TestContractWithALanguageModel(ServedContract):
    """The server speaks this API, but holds to no schema in it."""

    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find("anthropic")

    @pytest.fixture
    def config(self, local_config: EngineConfig) -> EngineConfig:
        assert local_config.base_url is not None
        return replace(
            local_config,
            name="anthropic",
            base_url=local_config.base_url.removesuffix("/v1"),
            options={"extra_body": {"cache_prompt": False}},
        )


def test_what_was_asked_is_sent_and_nothing_else(provider: Provider, engine: Engine) -> None:
    provider.stream(start(), delta("x"), stop())
    complete(engine, request(system="Be brief.", max_tokens=7, seed=7))
    (asked,) = provider.asked
    assert asked.path == "/v1/messages"
    # which of the two is the SDK's choice
    assert f"Bearer {SECRET}" == asked.headers.get("authorization", f"Bearer {asked.headers.get('x-api-key')}")
    assert asked.body == {
        "model": "m",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Name a city, as JSON."}],
        "max_tokens": 7,
        "output_config": {"format": {"type": "json_schema", "schema": CITY}},
        "stream": True,
    }


def test_a_temperature_that_is_asked_for_is_sent(provider: Provider, engine: Engine) -> None:
    provider.stream(start(), delta("x"), stop())
    complete(engine, request(temperature=0))
    assert provider.asked[0].body["temperature"] == 0


def test_a_tool_is_strict_and_the_only_choice(provider: Provider) -> None:
    config = configured(provider, response_format=ResponseFormat.TOOL, options={"schema_name": "city"})
    engine = find("anthropic").build(config)
    provider.stream(
        start(), delta(kind="input_json_delta", partial_json=""), delta(kind="input_json_delta", partial_json='{"a"'),
        delta(kind="input_json_delta", partial_json=": 1}"), stop("tool_use"),
    )  # fmt: skip
    answer = complete(engine)
    assert answer.text == '{"a": 1}'
    assert answer.finish_reason is FinishReason.STOP
    tools = Tools(schemas={"city": None}, allowed=("city",), required=True)
    assert answer.sent == Sent(response_format=ResponseFormat.TOOL, tools=tools)
    body = provider.asked[0].body
    assert body["tools"] == [{"name": "city", "input_schema": CITY, "strict": True}]
    assert body["tool_choice"] == {"type": "tool", "name": "city", "disable_parallel_tool_use": True}
    assert "output_config" not in body
    engine.close()


def test_free_text_is_asked_for_without_a_schema(provider: Provider) -> None:
    provider.json(whole(TEXT))
    options = {"stream": False, "extra_body": {"thinking": {"type": "disabled"}}, "extra_headers": {"x-a": "b"}}
    config = configured(provider, response_format=ResponseFormat.TEXT, options=options)
    engine = find("anthropic").build(config)
    complete(engine)
    (asked,) = provider.asked
    assert set(asked.body) == {"model", "messages", "max_tokens", "thinking"}
    assert asked.headers["x-a"] == "b"
    engine.close()


@pytest.mark.parametrize("schema", [{"const": "\ud800"}, {"const": float("nan")}])
def test_a_schema_that_no_request_can_carry_is_a_fault_of_the_engine(
    provider: Provider, engine: Engine, schema: dict[str, Any]
) -> None:
    provider.stream(start(), delta("{}"), stop())
    assert fault(engine, request(schema)).kind is FaultKind.ENGINE
    assert not provider.asked


def test_a_long_answer_may_be_asked_for_in_one_piece(provider: Provider, unstreamed: Engine) -> None:
    provider.json(whole(TEXT))
    assert complete(unstreamed, request(max_tokens=60_000)).text == '{"city": "Oslo"}'


def test_a_token_in_place_of_a_key_is_sent_as_one(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-123")
    provider.stream(start(), delta("{}"), stop())
    engine = find("anthropic").build(EngineConfig(name="anthropic", model="m", base_url=provider.url))
    complete(engine)
    headers = provider.asked[0].headers
    assert headers["authorization"] == "Bearer token-123"
    assert "x-api-key" not in headers
    engine.close()


def test_a_key_is_asked_for_before_any_call() -> None:
    factory, config = find("anthropic"), EngineConfig(name="anthropic")
    assert factory.describe(config).model == DEFAULT_MODEL
    with pytest.raises(MissingRequirement, match="needs a key: set ANTHROPIC_API_KEY"):
        factory.check(config)


def test_the_default_model_is_one_the_sdk_knows() -> None:
    from anthropic.types import model_param

    assert f'"{DEFAULT_MODEL}"' in str(model_param.ModelParam).replace("'", '"')


def test_json_without_a_schema_is_not_offered() -> None:
    config = EngineConfig(name="anthropic", response_format=ResponseFormat.JSON_OBJECT)
    with pytest.raises(EngineError, match="no response format 'json_object'"):
        find("anthropic").describe(config)


def test_published_prices_hold_at_home_only(provider: Provider) -> None:
    factory = find("anthropic")
    assert factory.describe(EngineConfig(name="anthropic")).provider == "anthropic"
    assert factory.describe(configured(provider)).provider is None
