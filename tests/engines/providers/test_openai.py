"""What is said of OpenAI's own servers, of others that speak the same, and of an Azure resource."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.providers.openai import DEFAULT_MODEL
from pytest_jsbench.engines.registry import find
from tests.engines import responses_wire
from tests.engines.asking import complete, completion_of
from tests.engines.azure_wire import VERSION, configured
from tests.engines.openai_wire import chunk, usage_chunk
from tests.engines.provider import DONE, Provider, event
from tests.engines.reading import body_of

if TYPE_CHECKING:
    from pytest_jsbench.engines.base import Engine

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")


def test_at_azure_the_limit_has_openais_own_name(provider: Provider) -> None:
    body = body_of(configured(provider), max_tokens=7)
    assert (body["max_completion_tokens"], "max_tokens" in body) == (7, False)


def test_responses_are_below_the_resource_and_not_below_a_deployment(provider: Provider) -> None:
    provider.stream(responses_wire.start(), responses_wire.stop(responses_wire.whole(responses_wire.message("{}"))))
    engine = find("azure").build(configured(provider, options={"api": "responses"}))
    assert complete(engine).text == "{}"
    engine.close()
    assert provider.asked[0].path == f"/openai/responses?api-version={VERSION}"


def test_a_token_of_entra_id_is_sent_as_one(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "token-123")
    provider.stream(chunk("{}", finish="stop"), DONE)
    completion_of(configured(provider, api_key=None))
    headers = provider.asked[0].headers
    assert (headers["authorization"], headers.get("api-key")) == ("Bearer token-123", None)


def test_the_resource_its_key_and_the_version_come_from_the_sdks_own_variables(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    # a deployment's name does not say which model it is
    assert info.provider is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_url": None}, "engine 'azure' needs the resource's address: set AZURE_OPENAI_ENDPOINT, or "),
        ({"options": {}}, "needs the API's version: --jsbench-engine-option api_version=2025-04-01-preview, or set "),
        ({"model": None}, "--jsbench-model is needed with http://h/openai"),
    ],
)
def test_what_is_missing_is_one_line_before_any_call(changes: dict[str, Any], message: str) -> None:
    config = EngineConfig(name="azure", model="m", base_url="http://h", options={"api_version": VERSION})
    with pytest.raises(EngineError) as caught:
        find("azure").check(replace(config, **changes))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_is_asked_for_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://resource.openai.azure.com")
    with pytest.raises(MissingRequirement, match="needs a key: set AZURE_OPENAI_API_KEY"):
        find("azure").check(EngineConfig(name="azure", model="m", options={"api_version": VERSION}))


def test_the_address_without_versions_is_sent_to_the_other_engine() -> None:
    url = "https://resource.openai.azure.com/openai/v1"
    config = EngineConfig(name="azure", model="m", base_url=f"{url}/", options={"api_version": VERSION})
    with pytest.raises(EngineError, match=f"--jsbench-engine=openai --jsbench-base-url={url}$"):
        find("azure").check(config)


def test_an_address_that_has_the_path_already_does_not_get_it_twice(provider: Provider) -> None:
    provider.stream(chunk("{}", finish="stop"), DONE)
    completion_of(configured(provider, base_url=f"{provider.url}/openai/"))
    assert provider.asked[0].path.startswith("/openai/deployments/")


def test_what_azure_says_of_its_filters_is_no_part_of_the_answer(provider: Provider, engine: Engine) -> None:
    filters = {"hate": {"filtered": False, "severity": "safe"}}
    asked = {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": filters}]}
    later = {"choices": [{"index": 0, "finish_reason": None, "content_filter_results": filters, "delta": {}}]}
    answer = (chunk("{"), event(later), chunk("}", finish="stop"), usage_chunk(), DONE)
    provider.stream(event(asked), *answer)
    assert complete(engine).text == "{}"


def test_at_openai_the_model_and_the_limit_have_their_own_names() -> None:
    info = find("openai").describe(EngineConfig(name="openai"))
    assert (info.model, set(info.details)) == (DEFAULT_MODEL, {"strict"})
    assert body_of(EngineConfig(name="openai"), max_tokens=7)["max_completion_tokens"] == 7


def test_another_server_needs_a_model_and_no_key(provider: Provider) -> None:
    factory = find("openai")
    with pytest.raises(EngineError, match=r"--jsbench-model is needed with http"):
        factory.check(EngineConfig(name="openai", base_url=provider.url))
    provider.stream(chunk("{}", finish="stop"), DONE)
    engine = factory.build(EngineConfig(name="openai", model="m", base_url=provider.url))
    complete(engine)
    assert "authorization" not in provider.asked[0].headers
    engine.close()
