"""Settings for OpenAI's own servers, compatible servers, and Azure resources."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from pytest_jsbench.adaptation.subsets import SUBSETS
from pytest_jsbench.core.errors import MissingRequirement, RecordError
from pytest_jsbench.core.generations import FaultKind, ResponseFormat
from pytest_jsbench.engines import engine_secrets, presets
from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.presets import PRESET_NAMES, ProviderPreset, preset_of, subset_of
from pytest_jsbench.engines.providers.openai import Api
from pytest_jsbench.engines.registry import find, names
from pytest_jsbench.formats import Format
from tests.support import responses_wire
from tests.support.answer_reading import body_of
from tests.support.engine_calls import CITY, complete, completion_of, fault_of, request
from tests.support.openai_wire import AZURE_VERSION, chunk, usage_chunk
from tests.support.openai_wire import azure as configured
from tests.support.provider import DONE, Provider, event

pytest.importorskip("urllib3", reason="provider engines need the package urllib3")


def test_azure_responses_path_has_no_deployment(provider: Provider) -> None:
    provider.stream(responses_wire.start(), responses_wire.stop(responses_wire.whole(responses_wire.message("{}"))))
    assert completion_of(configured(provider, options={"api": "responses"})).text == "{}"
    assert provider.asked[0].path == f"/openai/responses?api-version={AZURE_VERSION}"


def test_a_token_of_entra_id_is_sent_as_one(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "token-123")
    provider.stream(chunk("{}", finish="stop"), DONE)
    completion_of(configured(provider, api_key=None))
    headers = provider.asked[0].headers
    assert (headers["authorization"], headers.get("api-key")) == ("Bearer token-123", None)


def test_azure_reads_the_sdks_environment_variables(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{provider.url}/")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key-456")
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    provider.stream(chunk("{}", finish="stop"), DONE)
    config = EngineConfig(name="azure", model="m")
    completion_of(config)
    (asked,) = provider.asked
    assert asked.path == "/openai/deployments/m/chat/completions?api-version=2024-10-21"
    assert asked.headers["api-key"] == "key-456"
    info = find("azure").describe(config)
    assert info.details["api_version"] == "2024-10-21"
    # a deployment's name does not identify the model
    assert info.provider is None


def test_azure_path_is_not_added_twice(provider: Provider) -> None:
    provider.stream(chunk("{}", finish="stop"), DONE)
    completion_of(configured(provider, base_url=f"{provider.url}/openai/"))
    assert provider.asked[0].path.startswith("/openai/deployments/")


def test_azure_filter_results_are_not_part_of_the_answer(provider: Provider, engine: Engine) -> None:
    filters = {"hate": {"filtered": False, "severity": "safe"}}
    asked = {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": filters}]}
    later = {"choices": [{"index": 0, "finish_reason": None, "content_filter_results": filters, "delta": {}}]}
    answer = (chunk("{"), event(later), chunk("}", finish="stop"), usage_chunk(), DONE)
    provider.stream(event(asked), *answer)
    assert complete(engine).text == "{}"


def test_other_server_needs_a_model_but_no_key(provider: Provider) -> None:
    provider.stream(chunk("{}", finish="stop"), DONE)
    completion_of(EngineConfig(name="openai", model="m", base_url=provider.url))
    assert "authorization" not in provider.asked[0].headers


ALL = presets.presets()
KEY = "a-key-of-this-provider-alone"
TEXT = '{"city": "Oslo", "old": true}'


def preset_config(name: str, provider: Provider, **changes: Any) -> EngineConfig:
    """Return a configuration of the preset for our server."""
    config = EngineConfig(name=name, model="m", base_url=f"{provider.url}/v1", api_key=KEY)
    return replace(config, **changes)


def test_the_file_has_the_published_shape() -> None:
    text = files("pytest_jsbench.engines").joinpath("presets.toml").read_text("utf-8")
    Format("presets").check(tomllib.loads(text))


@pytest.mark.parametrize(
    "entry",
    [
        {"base_urls": "http://h"},
        {"date": "last week"},
        {"sources": []},
        {"formats": {"chat": ["xml"]}},
        {"formats": {}},
        {"seed_field": True},
        {"base_url": "h"},
    ],
)
def test_invalid_preset_is_rejected_by_schema_and_reader(entry: dict[str, Any]) -> None:
    whole_entry = {
        "title": "T", "base_url": "https://h/v1", "date": "2026-11", "sources": ["https://h/docs"],
        "formats": {"chat": ["text"]},
    }  # fmt: skip
    Format("presets").check({"t": whole_entry})
    with pytest.raises(RecordError):
        Format("presets").check({"t": {**whole_entry, **entry}})
    assert presets._read("t", whole_entry).formats == {"chat": (ResponseFormat.TEXT,)}
    with pytest.raises(ValueError, match=next(iter(entry))):
        presets._read("t", {**whole_entry, **entry})


def test_preset_names_are_known_without_the_file() -> None:
    assert {preset.name for preset in ALL} == PRESET_NAMES
    assert set(names()) > PRESET_NAMES


def test_other_engines_do_not_read_the_presets_file(monkeypatch: pytest.MonkeyPatch) -> None:
    presets._presets.cache_clear()
    monkeypatch.setattr(tomllib, "loads", lambda _: pytest.fail("the file was read"))
    assert preset_of("openai") is None
    assert find("openai").describe(EngineConfig(name="openai")).details.get("preset") is None
    assert names()


@pytest.mark.parametrize("preset", ALL, ids=lambda preset: preset.name)
def test_presets_name_an_existing_subset_and_published_prices(preset: ProviderPreset) -> None:
    assert preset.subset is None or preset.subset in SUBSETS
    data = pytest.importorskip("genai_prices.data", reason="prices need the package genai-prices")
    assert preset.prices is None or preset.prices in {provider.id for provider in data.providers}


@pytest.mark.parametrize("preset", ALL, ids=lambda preset: preset.name)
def test_presets_send_only_supported_parameters(preset: ProviderPreset, provider: Provider) -> None:
    body = body_of(preset_config(preset.name, provider), seed=7, max_tokens=9)
    chosen = preset.formats["chat"][0]
    streams = chosen not in preset.unstreamed
    expected = {
        "model": "m",
        "messages": [{"role": "user", "content": "Name a city, as JSON."}],
        preset.max_tokens_field: 9,
        **({str(preset.seed_field): 7} if preset.seed_field else {}),
        **({"stream": True} if streams else {}),
        **({"stream_options": {"include_usage": True}} if streams and preset.stream_options else {}),
        **preset.extra_body,
    }
    response_format = body.pop("response_format")
    assert body == expected
    strict = preset.strict is True
    shape = {"name": "output", "schema": CITY, "strict": strict}
    schema = {"type": "json_schema", "json_schema": shape}
    assert response_format == (schema if chosen is ResponseFormat.JSON_SCHEMA else {"type": chosen.value})


@pytest.mark.parametrize("preset", ALL, ids=lambda preset: preset.name)
def test_presets_use_their_providers_address_and_key(preset: ProviderPreset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openais-own-key-is-for-openai")
    config = EngineConfig(name=preset.name, model="m")
    factory = find(preset.name)
    if preset.key is not None:
        monkeypatch.delenv(preset.key, raising=False)
        with pytest.raises(MissingRequirement, match=rf"engine '{preset.name}' needs a key: set {preset.key}, "):
            factory.check(config)
        monkeypatch.setenv(preset.key, "a-short-key")
        assert "a-short-key" not in engine_secrets.find_secrets(config).mask_message("my a-short-key")
    engine = factory.build(config)
    client = engine._client  # type: ignore[attr-defined]
    assert client.address.url == preset.base_url
    assert client._headers.get("authorization") == (None if preset.key is None else "Bearer a-short-key")
    assert engine.info.provider == preset.prices
    assert engine.info.details["preset"] == f"{preset.name}@{preset.date}"
    engine.close()


def test_preset_with_another_address_has_no_prices_and_an_optional_key(provider: Provider) -> None:
    config = preset_config("groq", provider, api_key=None)
    find("groq").check(config)
    assert find("groq").describe(config).provider is None


def test_deepseek_supports_schemas_in_responses(provider: Provider) -> None:
    info = find("deepseek").describe(preset_config("deepseek", provider, options={"api": Api.RESPONSES.value}))
    assert info.response_format is ResponseFormat.JSON_SCHEMA
    assert find("deepseek").describe(preset_config("deepseek", provider)).response_format is ResponseFormat.JSON_OBJECT


def test_subset_is_the_providers() -> None:
    assert [subset_of(name) for name in ("openai", "anthropic", "groq", "gemini-openai", "vllm", "local")] == [
        "openai", "anthropic", "groq", "gemini", None, None,
    ]  # fmt: skip


def test_lm_studio_error_about_the_format_is_not_an_unsupported_schema(provider: Provider) -> None:
    config = preset_config(
        "lmstudio", provider, options={"formats": "json_object"}, response_format=ResponseFormat.JSON_OBJECT
    )
    provider.json({"error": "'response_format.type' must be 'json_schema' or 'text'"}, status=400)
    error = fault_of(config)
    assert error.kind is FaultKind.BAD_REQUEST
    assert "does not support json_object: change --jsbench-response-format" in error.message


@pytest.fixture
def llama(local_config: EngineConfig) -> EngineConfig:
    return replace(local_config, name="llamacpp", options={})


@pytest.mark.slow
@pytest.mark.parametrize("response_format", preset_of("llamacpp").formats["chat"])  # type: ignore[union-attr]
def test_llama_cpp_accepts_the_formats_of_its_preset(llama: EngineConfig, response_format: ResponseFormat) -> None:
    tokens = 40 if response_format is ResponseFormat.TOOL else 12
    question = request({"const": {}}, max_tokens=tokens, temperature=0)
    answer = completion_of(replace(llama, response_format=response_format), question)
    assert answer.text
    if response_format is ResponseFormat.JSON_SCHEMA:
        assert json.loads(answer.text) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reasoning"),
    [
        ("vllm", {"reasoning_budget": 16}),
        ("lmstudio", {}),
        ("ollama", {"reasoning_effort": "none"}),
        ("sglang", {}),
        ("llamacpp", {"reasoning_effort": "low", "reasoning_budget": 16}),
    ],
)
def test_llama_cpp_accepts_requests_for_other_servers(
    llama: EngineConfig, name: str, reasoning: dict[str, Any]
) -> None:
    options = {"extra_body": {"cache_prompt": False}, **reasoning}
    question = request({"const": {}}, max_tokens=12, temperature=0)
    assert json.loads(completion_of(replace(llama, name=name, options=options), question).text) == {}
