"""What the engines of all providers have in common, in each wire format, streaming and not, and in clouds."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from pytest_jsbench.core.cases import Prompt
from pytest_jsbench.core.errors import MissingRequirement
from pytest_jsbench.core.generations import FinishReason, ResponseFormat
from pytest_jsbench.core.messages import Message
from pytest_jsbench.engines import engine_options
from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.presets import subset_of
from pytest_jsbench.engines.registry import find
from tests.support.api_servers import SPEAKERS, TEXT, THROUGH_SDKS, Speaker
from tests.support.cloud_wire import BEDROCK, MODEL, VERTEX
from tests.support.engine_calls import complete, completion_of, fault, request
from tests.support.engine_contract import SLOW, EngineContract, ServedByAModel
from tests.support.provider import Asked, Provider, Reply, keep_open, stream_reply

pytest.importorskip("urllib3", reason="provider engines need the package urllib3")


@pytest.fixture(params=SPEAKERS, ids=lambda speaker: speaker.name)
def speaker(request: pytest.FixtureRequest) -> Speaker:
    speaker: Speaker = request.param
    pytest.importorskip(speaker.package, reason=f"the {speaker.engine} engine needs its package")
    return speaker


@pytest.fixture
def engine(speaker: Speaker, provider: Provider) -> Iterator[Engine]:
    with closing(find(speaker.engine).build(speaker.config(provider))) as engine:
        yield engine


class TestContract(EngineContract):
    @pytest.fixture
    def config(self, speaker: Speaker, provider: Provider) -> EngineConfig:
        good = stream_reply(*speaker.events, pause=SLOW) if speaker.streaming else speaker.good()
        provider.replies.append(good if speaker.streaming else replace(good, silence=SLOW))
        return speaker.config(provider)


#: How a llama.cpp server is called in each API: engine, options, and path of the address.
SERVED: dict[str, tuple[str, dict[str, Any], str]] = {
    "chat": ("openai", {"extra_body": {"cache_prompt": False}}, "/v1"),
    "responses": ("openai", {"extra_body": {"cache_prompt": False}, "api": "responses"}, "/v1"),
    "messages": ("anthropic", {"extra_body": {"cache_prompt": False}}, ""),
}


@pytest.mark.slow
class TestALanguageModel(ServedByAModel):
    @pytest.fixture(params=SERVED)
    def api(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def config(self, api: str, local_config: EngineConfig) -> EngineConfig:
        name, options, path = SERVED[api]
        url = str(local_config.base_url).removesuffix("/v1") + path
        return replace(local_config, name=name, base_url=url, options=options)

    @pytest.fixture
    def engine(self, config: EngineConfig) -> Iterator[Engine]:
        with closing(find(config.name).build(config)) as engine:
            yield engine

    @pytest.fixture
    def limited(self, api: str) -> FinishReason:
        """Responses servers report a truncated answer as complete."""
        return FinishReason.STOP if api == "responses" else FinishReason.LENGTH

    def test_earlier_assistant_messages_are_accepted(self, engine: Engine) -> None:
        turns = [Message(role="user", content="Hi"), Message(role="assistant", content="Hello")]
        prompt = Prompt(messages=(*turns, Message(role="user", content="Name a city.")))
        assert complete(engine, replace(request(temperature=0, max_tokens=6), prompt=prompt)).text

    def test_the_whole_answer_is_the_streamed_one(self, config: EngineConfig, engine: Engine) -> None:
        question = request(temperature=0, max_tokens=16)
        whole = completion_of(replace(config, options={**config.options, "stream": False}), question)
        streamed = complete(engine, question)
        assert (whole.text, whole.usage) == (streamed.text, streamed.usage)
        assert whole.timing is not None
        assert streamed.timing is not None
        assert (whole.timing.ttft, streamed.timing.ttft is None) == (None, False)


#: Path of calls, by the start of the speaker's name.
PLACES = {
    "openai chat": "/v1/chat/completions",
    "openai responses": "/v1/responses",
    "anthropic-bedrock": f"/model/{MODEL}/invoke",
    "anthropic-vertex": "/v1/projects/p-1/locations/global/publishers/anthropic/models/m:streamRawPredict",
    "anthropic": "/v1/messages",
    "gemini, streaming": "/v1/models/m:streamGenerateContent?alt=sse",
    "gemini": "/v1/models/m:generateContent",
    "azure": "/openai/deployments/m/chat/completions?api-version=2025-04-01-preview",
}


def test_call_has_its_path_and_key(speaker: Speaker, provider: Provider, engine: Engine) -> None:
    provider.replies.append(speaker.good())
    assert complete(engine).text == TEXT
    (asked,) = provider.asked
    assert asked.path == next(path for name, path in PLACES.items() if speaker.name.startswith(name))
    headers = {"gemini": "x-goog-api-key", "azure": "api-key"}
    header = headers.get(speaker.engine, "authorization")
    held = [name for name, value in asked.headers.items() if speaker.secret in value]
    assert (held, asked.headers[header].removeprefix("Bearer ")) == ([header], speaker.secret)
    assert speaker.secret not in asked.path


def test_answer_without_a_stream_has_no_ttft(speaker: Speaker, provider: Provider, engine: Engine) -> None:
    provider.json(speaker.body)
    if speaker in THROUGH_SDKS and speaker.streaming:  # an application gets nothing either
        assert "the SDK found no event in an answer of content type application/json" in fault(engine).message
        return
    answer = complete(engine)
    assert answer.text == TEXT
    assert answer.timing is not None
    assert answer.timing.ttft is None


@pytest.mark.parametrize(
    ("name", "key", "variables"),
    [
        ("openai", "OPENAI_API_KEY", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"),
        ("anthropic", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"),
        ("gemini", "GOOGLE_API_KEY", "GOOGLE_API_KEY or GEMINI_API_KEY"),
        ("gemini", "GEMINI_API_KEY", "GOOGLE_API_KEY or GEMINI_API_KEY"),
    ],
)
def test_a_description_needs_no_key_but_a_check_does(
    name: str, key: str, variables: str, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory, config = find(name), EngineConfig(name=name)
    info = factory.describe(config)
    assert (info.engine, info.response_format, info.streaming) == (name, ResponseFormat.JSON_SCHEMA, True)
    for step in (factory.check, factory.build):
        with pytest.raises(MissingRequirement, match=f"needs a key: set {variables}, or name"):
            step(config)
    monkeypatch.setenv(key, "Key-of-the-user")
    factory.check(config)
    speaker = next(speaker for speaker in SPEAKERS if speaker.engine == name and not speaker.streaming)
    provider.replies.append(speaker.good())
    engine = factory.build(replace(speaker.config(provider), api_key=None))
    complete(engine)
    engine.close()
    assert "Key-of-the-user" in json.dumps(provider.asked[0].headers)


OPENAI, ANTHROPIC, GEMINI = (EngineConfig(name=name) for name in ("openai", "anthropic", "gemini"))


@pytest.mark.parametrize(
    ("config", "prices", "subset"),
    [
        (OPENAI, "openai", "openai"),
        (ANTHROPIC, "anthropic", "anthropic"),
        (GEMINI, "google", "gemini"),
        (BEDROCK, "aws", "bedrock"),
        (VERTEX, "google", "anthropic"),
    ],
)
def test_published_prices_apply_only_to_the_providers_address(config: EngineConfig, prices: str, subset: str) -> None:
    factory = find(config.name)
    assert factory.describe(config).provider == prices
    assert factory.describe(replace(config, model="m", base_url="http://h")).provider is None
    assert subset_of(config.name) == subset


@pytest.mark.parametrize(
    ("config", "package", "extra"),
    [
        *((config, "urllib3", config.name) for config in (OPENAI, ANTHROPIC, GEMINI)),
        (BEDROCK, "botocore", "bedrock"),
        (VERTEX, "google-auth", "vertex"),
    ],
)
def test_a_missing_package_is_one_line_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, config: EngineConfig, package: str, extra: str
) -> None:
    monkeypatch.setattr(engine_options, "is_installed", lambda module: module != package.replace("-", "."))
    with pytest.raises(MissingRequirement) as caught:
        find(config.name).check(config)
    expected = f"engine '{config.name}' needs the package {package}: pip install 'pytest-jsbench[{extra}]'"
    assert str(caught.value) == expected


def test_the_default_models_are_ones_that_the_sdks_know() -> None:
    from typing import get_args

    from anthropic.types import model_param
    from openai.types.shared.chat_model import ChatModel

    assert find("openai").describe(EngineConfig(name="openai")).model in get_args(ChatModel)
    model = find("anthropic").describe(EngineConfig(name="anthropic")).model
    assert f'"{model}"' in str(model_param.ModelParam).replace("'", '"')


IN_FLIGHT = 64
#: Seconds within which everything must have happened, even on a busy machine.
PATIENCE = 30.0


# our client and the SDKs': one with streams, and one without
@pytest.mark.slow
@pytest.mark.parametrize("speaker", [*SPEAKERS[:7:6], *THROUGH_SDKS[:5:4]], ids=lambda speaker: speaker.name)
def test_64_calls_are_in_flight_at_once_and_nothing_is_open_after_closing(
    provider: Provider, speaker: Speaker, engine: Engine
) -> None:
    # each round of answers is sent when that many requests have arrived, not before
    round_ = threading.Barrier(IN_FLIGHT)

    def choose(_: Asked) -> Reply:
        round_.wait(PATIENCE)
        return keep_open(speaker.good())

    provider.choose = choose
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        texts = list(pool.map(lambda _: complete(engine, request(timeout=PATIENCE)).text, range(2 * IN_FLIGHT)))
    assert texts == [TEXT] * (2 * IN_FLIGHT)
    assert len(provider.asked) == 2 * IN_FLIGHT
    engine.close()
    deadline = time.monotonic() + PATIENCE
    while provider.closed < provider.opened and time.monotonic() < deadline:
        time.sleep(0.01)
    assert provider.closed == provider.opened
