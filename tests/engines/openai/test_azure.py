from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.core.generations import DeclineReason, FaultKind
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.presets import subset_of
from pytest_jsbench.engines.registry import find, require_batches
from tests.engines import responses_wire
from tests.engines.asking import CITY, complete, decline, fault, request
from tests.engines.azure_wire import VERSION, configured
from tests.engines.contract import SLOW, EngineContract
from tests.engines.openai_wire import SECRET, chunk, error_body, usage_chunk
from tests.engines.provider import DONE, Provider, event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import Engine, EngineFactory

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")


@pytest.fixture
def engine(provider: Provider) -> Iterator[Engine]:
    engine = find("azure").build(configured(provider))
    yield engine
    engine.close()


class TestContract(EngineContract):
    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find("azure")

    @pytest.fixture
    def config(self, provider: Provider) -> EngineConfig:
        provider.stream(chunk("", role="assistant"), chunk('{"city": "Oslo"}'), chunk(finish="stop"), DONE, pause=SLOW)
        return configured(provider)


def test_the_deployment_is_in_the_path_the_version_in_the_query_and_the_key_in_its_own_header(
    provider: Provider, engine: Engine
) -> None:
    provider.stream(chunk("x", finish="stop"), DONE)
    complete(engine, request(max_tokens=7))
    (asked,) = provider.asked
    assert asked.path == f"/openai/deployments/m/chat/completions?api-version={VERSION}"
    assert (asked.headers["api-key"], asked.headers.get("authorization")) == (SECRET, None)
    assert asked.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Name a city, as JSON."}],
        "max_completion_tokens": 7,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": CITY, "strict": True},
        },
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_responses_are_below_the_resource_and_not_below_a_deployment(provider: Provider) -> None:
    provider.stream(responses_wire.start(), responses_wire.stop(responses_wire.whole(responses_wire.message("{}"))))
    engine = find("azure").build(configured(provider, options={"api": "responses"}))
    assert complete(engine).text == "{}"
    engine.close()
    assert provider.asked[0].path == f"/openai/responses?api-version={VERSION}"


def test_a_token_of_entra_id_is_sent_as_one(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "token-123")
    provider.stream(chunk("{}", finish="stop"), DONE)
    engine = find("azure").build(configured(provider, api_key=None))
    complete(engine)
    engine.close()
    headers = provider.asked[0].headers
    assert (headers["authorization"], headers.get("api-key")) == ("Bearer token-123", None)


def test_the_resource_its_key_and_the_version_come_from_the_sdks_own_variables(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{provider.url}/")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key-456")
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    provider.stream(chunk("{}", finish="stop"), DONE)
    engine = find("azure").build(EngineConfig(name="azure", model="m"))
    complete(engine)
    engine.close()
    (asked,) = provider.asked
    assert asked.path == "/openai/deployments/m/chat/completions?api-version=2024-10-21"
    assert asked.headers["api-key"] == "key-456"
    assert engine.info.details["api_version"] == "2024-10-21"
    # a deployment's name does not say which model it is
    assert engine.info.provider is None


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
    engine = find("azure").build(configured(provider, base_url=f"{provider.url}/openai/"))
    complete(engine)
    engine.close()
    assert provider.asked[0].path.startswith("/openai/deployments/")


def test_azure_has_no_batches_here_and_says_who_has() -> None:
    with pytest.raises(EngineError, match=r"--jsbench-batch: engine 'azure' has no batch API: expected .*openai"):
        require_batches(find("azure"), "azure")


def test_what_azure_filters_is_a_refusal(provider: Provider, engine: Engine) -> None:
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}
    said = error_body("The response was filtered", type=None, code="content_filter", param="prompt", innererror=inner)
    provider.json(said, status=400)
    assert decline(engine).reason is DeclineReason.REFUSAL


def test_a_deployment_that_is_not_there_is_a_bad_request(provider: Provider, engine: Engine) -> None:
    words = "The API deployment for this resource does not exist."
    provider.json({"error": {"code": "DeploymentNotFound", "message": words}}, status=404)
    error = fault(engine)
    assert (error.kind, error.message) == (FaultKind.BAD_REQUEST, words)


def test_what_azure_says_of_its_filters_is_no_part_of_the_answer(provider: Provider, engine: Engine) -> None:
    filters = {"hate": {"filtered": False, "severity": "safe"}}
    asked = {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": filters}]}
    later = {"choices": [{"index": 0, "finish_reason": None, "content_filter_results": filters, "delta": {}}]}
    answer = (chunk("{"), event(later), chunk("}", finish="stop"), usage_chunk(), DONE)
    provider.stream(event(asked), *answer)
    assert complete(engine).text == "{}"


def test_its_subset_is_the_one_that_azure_documents() -> None:
    assert subset_of("azure") == "openai@2024-08"
