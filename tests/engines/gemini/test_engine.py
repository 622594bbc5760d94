from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.core.generations import FaultKind, ResponseFormat, Sent, Tools
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.providers.gemini import DEFAULT_MODEL
from pytest_jsbench.engines.registry import find
from tests.engines.asking import CITY, complete, fault, request
from tests.engines.contract import SLOW, EngineContract
from tests.engines.gemini_wire import SECRET, TEXT, chunk, configured, delta, stop, whole
from tests.engines.provider import Provider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import Engine, EngineFactory

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")


@pytest.fixture
def engine(provider: Provider) -> Iterator[Engine]:
    engine = find("gemini").build(configured(provider))
    yield engine
    engine.close()


class TestContractStreamed(EngineContract):
    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find("gemini")

    @pytest.fixture
    def config(self, provider: Provider) -> EngineConfig:
        provider.stream(delta('{"city": '), delta('"Oslo"}'), stop(), pause=SLOW)
        return configured(provider)


class TestContractUnstreamed(EngineContract):
    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find("gemini")

    @pytest.fixture
    def config(self, provider: Provider) -> EngineConfig:
        provider.json(whole(TEXT), silence=SLOW)
        return configured(provider, options={"stream": False})


def test_what_was_asked_is_sent_and_nothing_else(provider: Provider, engine: Engine) -> None:
    provider.stream(delta("x"), stop())
    complete(engine, request(system="Be brief.", max_tokens=7, seed=7, temperature=0))
    (asked,) = provider.asked
    assert asked.path == "/v1/models/m:streamGenerateContent?alt=sse"
    assert asked.headers["x-goog-api-key"] == SECRET
    assert SECRET not in asked.path
    assert asked.body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Name a city, as JSON."}]}],
        "generationConfig": {
            "maxOutputTokens": 7,
            "temperature": 0,
            "seed": 7,
            "responseMimeType": "application/json",
            "responseJsonSchema": CITY,
        },
    }


#: names that the SDK would take for its own in another case, and values that it would convert
ODD = {
    "type": "object",
    "properties": {"max_output_tokens": {"const": None}, "maxOutputTokens": {"enum": ["a", "Å"]}, "_url": {}},
    "$defs": {"generation_config": {"type": "null"}},
}


def test_a_schema_reaches_the_server_as_it_is(provider: Provider, engine: Engine) -> None:
    provider.stream(delta("x"), stop())
    complete(engine, request(ODD))
    assert provider.asked[0].body["generationConfig"]["responseJsonSchema"] == ODD


def asked_with(provider: Provider, **changes: Any) -> dict[str, Any]:
    """The body of a call of an engine that is configured so."""
    provider.json(whole(TEXT))
    engine = find("gemini").build(configured(provider, **{"options": {"stream": False}, **changes}))
    complete(engine)
    engine.close()
    body: dict[str, Any] = provider.asked[-1].body
    return body


def test_a_tool_is_the_only_choice_and_its_arguments_are_the_answer(provider: Provider) -> None:
    call = {"functionCall": {"name": "city", "args": {"city": "Åre", "n": 1}}, "thoughtSignature": "c2ln"}
    provider.stream(chunk(call), stop())
    config = configured(provider, response_format=ResponseFormat.TOOL, options={"schema_name": "city"})
    engine = find("gemini").build(config)
    answer = complete(engine)
    engine.close()
    assert answer.text == '{"city": "Åre", "n": 1}'
    tools = Tools(schemas={"city": None}, allowed=("city",), required=True)
    assert answer.sent == Sent(response_format=ResponseFormat.TOOL, tools=tools)
    body = provider.asked[0].body
    assert body["tools"] == [{"functionDeclarations": [{"name": "city", "parametersJsonSchema": CITY}]}]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["city"]}}
    assert set(body["generationConfig"]) == {"maxOutputTokens"}


def test_json_and_free_text_are_asked_for_without_a_schema(provider: Provider) -> None:
    json, text = (
        asked_with(provider, response_format=form)["generationConfig"]
        for form in (ResponseFormat.JSON_OBJECT, ResponseFormat.TEXT)
    )
    assert json == {"maxOutputTokens": text["maxOutputTokens"], "responseMimeType": "application/json"}
    assert set(text) == {"maxOutputTokens"}


def test_fields_of_ones_own_stand_beside_those_of_the_engine(provider: Provider) -> None:
    body = {
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 0}, "maxOutputTokens": 9},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    }
    options = {"stream": False, "extra_body": body, "extra_headers": {"x-a": "b"}, "extra_query": {"q": "1 2"}}
    sent = asked_with(provider, options={**options, "api_version": "v1beta"})
    assert sent["safetySettings"] == body["safetySettings"]
    assert sent["generationConfig"] == {
        "maxOutputTokens": 9,
        "thinkingConfig": {"thinkingBudget": 0},
        "responseMimeType": "application/json",
        "responseJsonSchema": CITY,
    }
    assert provider.asked[0].headers["x-a"] == "b"
    assert provider.asked[0].path == "/v1beta/models/m:generateContent?q=1+2"


def test_an_extra_generation_config_that_is_no_object_is_refused() -> None:
    config = EngineConfig(name="gemini", options={"extra_body": {"generationConfig": 5}})
    with pytest.raises(EngineError, match="generationConfig is a JSON object"):
        find("gemini").describe(config)


@pytest.mark.parametrize("schema", [{"const": "\ud800"}, {"const": float("nan")}])
def test_a_schema_that_no_request_can_carry_is_a_fault_of_the_engine(
    provider: Provider, engine: Engine, schema: dict[str, Any]
) -> None:
    provider.stream(delta("{}"), stop())
    assert fault(engine, request(schema)).kind is FaultKind.ENGINE
    assert not provider.asked


def test_a_key_is_asked_for_before_any_call() -> None:
    factory, config = find("gemini"), EngineConfig(name="gemini")
    assert factory.describe(config).model == DEFAULT_MODEL
    with pytest.raises(MissingRequirement, match="needs a key: set GOOGLE_API_KEY or GEMINI_API_KEY, or name"):
        factory.check(config)


@pytest.mark.parametrize("variable", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
def test_a_key_is_found_in_either_variable(provider: Provider, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "Key-of-the-user")
    asked_with(provider, api_key=None)
    assert provider.asked[0].headers["x-goog-api-key"] == "Key-of-the-user"


def test_the_environment_sends_no_call_to_another_google_api(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.setenv(variable, "true")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v1alpha")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    asked_with(provider)
    assert provider.asked[0].path == "/v1/models/m:generateContent"
    assert provider.asked[0].headers["x-goog-api-key"] == SECRET


def test_without_its_extra_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.util.find_spec", absent)
    with pytest.raises(MissingRequirement) as caught:
        find("gemini").check(EngineConfig(name="gemini"))
    assert str(caught.value) == "engine 'gemini' needs the package urllib3: pip install 'pytest-jsbench[gemini]'"


def test_published_prices_hold_at_home_only(provider: Provider) -> None:
    factory = find("gemini")
    assert factory.describe(EngineConfig(name="gemini")).provider == "google"
    assert factory.describe(configured(provider)).provider is None
