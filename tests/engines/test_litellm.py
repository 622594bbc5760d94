"""These run where litellm is: `tox -e litellm`. It cannot be installed beside the engine openai."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    DeclineReason,
    FaultKind,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.engines import litellm, requirements, secrets
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
from tests.conversation import PROMPT, WRITTEN
from tests.engines import anthropic_wire, openai_wire
from tests.engines.asking import CITY, complete, decline, fault, request
from tests.engines.contract import SLOW, EngineContract
from tests.engines.injected import FAULTS, Injected
from tests.engines.provider import Provider
from tests.engines.speakers import SPEAKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import Engine, EngineFactory

SECRET = openai_wire.SECRET
TIGHT = {"type": "object", "properties": {"city": {"type": "string", "minLength": 2}}, "required": ["city"]}

# it warns of its own types while it imports them, in the midst of its first calls
pytestmark = pytest.mark.filterwarnings("ignore")
needs_litellm = pytest.mark.skipif(not requirements.is_installed("litellm"), reason="needs the package litellm")


def configured(provider: Provider, model: str = "openai/m", **changes: Any) -> EngineConfig:
    suffix = "/v1" if model.startswith("openai/") else ""
    config = EngineConfig(name="litellm", model=model, base_url=f"{provider.url}{suffix}", api_key=SECRET)
    return replace(config, **changes)


@pytest.fixture
def engine(provider: Provider) -> Iterator[Engine]:
    engine = find("litellm").build(configured(provider))
    yield engine
    engine.close()


@needs_litellm
class TestContract(EngineContract):
    @pytest.fixture
    def factory(self) -> EngineFactory:
        return find("litellm")

    @pytest.fixture
    def config(self, provider: Provider) -> EngineConfig:
        provider.json(openai_wire.whole(), silence=SLOW)
        return configured(provider)


@needs_litellm
def test_what_was_asked_is_sent_and_nothing_else(provider: Provider, engine: Engine) -> None:
    provider.json(openai_wire.whole())
    answer = complete(engine, request(max_tokens=7, temperature=0, seed=3))
    (asked,) = provider.asked
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
    assert asked.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Name a city, as JSON."}],
        "max_tokens": 7,
        "temperature": 0,
        "seed": 3,
        "response_format": {"type": "json_schema", "json_schema": {"name": "output", "schema": CITY, "strict": True}},
    }
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (20, 9)
    assert answer.sent is not None
    assert (answer.sent.response_format, answer.sent.schema) == (ResponseFormat.JSON_SCHEMA, None)


@needs_litellm
def test_a_conversation_with_tools_is_given_to_litellm_as_openai_has_it(provider: Provider, engine: Engine) -> None:
    provider.json(openai_wire.whole())
    complete(engine, replace(request(), prompt=PROMPT))
    # it knows itself where OpenAI's own role is known; some versions leave out a content that is null
    asked = [{"content": None, **turn} for turn in provider.asked[0].body["messages"]]
    assert asked == [{**WRITTEN[0], "role": "system"}, *WRITTEN[1:]]


def _converse() -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"text": '{"city": "Oslo"}'}]}
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    return {"output": {"message": message}, "stopReason": "end_turn", "usage": usage}


TOOL_USE = {"type": "tool_use", "id": "t", "name": "json_tool_call", "input": {"city": "Oslo"}}
BEDROCK = {"aws_region_name": "eu-west-1", "aws_access_key_id": "AKIATEST", "aws_secret_access_key": "never-sent-01"}


@needs_litellm
@pytest.mark.parametrize(
    ("model", "reply", "extra", "response_format", "rewritten"),
    [
        ("openai/m", openai_wire.whole(), {}, ResponseFormat.JSON_SCHEMA, False),
        # it writes the length into a description
        ("anthropic/claude-haiku-4-5", anthropic_wire.whole(anthropic_wire.TEXT), {}, ResponseFormat.JSON_SCHEMA, True),
        ("anthropic/claude-3-5-haiku-latest", anthropic_wire.whole(TOOL_USE), {}, ResponseFormat.TOOL, False),
        ("bedrock/anthropic.claude-3-haiku-20240307-v1:0", _converse(), BEDROCK, ResponseFormat.TOOL, False),
        (
            "ollama/m",
            {"model": "m", "response": '{"city": "Oslo"}', "done": True},
            {},
            ResponseFormat.JSON_SCHEMA,
            False,
        ),
    ],
)
def test_the_record_says_what_litellm_made_of_the_schema(
    provider: Provider,
    model: str,
    reply: dict[str, Any],
    extra: dict[str, str],
    response_format: ResponseFormat,
    rewritten: bool,
) -> None:
    provider.json(reply)
    engine = find("litellm").build(configured(provider, model, options={"extra_body": extra}))
    answer = complete(engine, request(TIGHT))
    engine.close()
    assert json.loads(answer.text) == {"city": "Oslo"}
    assert answer.sent is not None
    assert answer.sent.response_format is response_format
    assert (answer.sent.schema is not None) is rewritten
    if rewritten:
        assert json.dumps(answer.sent.schema) in json.dumps(provider.asked[0].body)


@pytest.mark.parametrize(
    ("body", "response_format"),
    [
        ({"messages": [{"content": {"schema": TIGHT}}]}, ResponseFormat.TEXT),
        ({"response_format": {"type": "json_object"}}, ResponseFormat.JSON_OBJECT),
        ({"generationConfig": {"responseMimeType": "application/json"}}, ResponseFormat.JSON_OBJECT),
        ({"generationConfig": {"responseSchema": TIGHT}}, ResponseFormat.JSON_SCHEMA),
        ({"output_config": {"format": {"type": "json_schema", "schema": TIGHT}}}, ResponseFormat.JSON_SCHEMA),
        ({"tools": [{"function": {"name": "f", "parameters": TIGHT}}]}, ResponseFormat.TOOL),
        (
            '{"outputConfig": {"textFormat": {"structure": {"jsonSchema": {"schema": "true"}}}}}',
            ResponseFormat.JSON_SCHEMA,
        ),
        (None, ResponseFormat.TEXT),
    ],
)
def test_how_a_schema_reached_a_provider_is_read_from_the_request(
    body: object, response_format: ResponseFormat
) -> None:
    assert litellm.read_sent(body, TIGHT).response_format is response_format


@needs_litellm
def test_a_schema_that_litellm_left_out_is_said_to_be(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litellm, "read_sent", lambda *_: Sent(response_format=ResponseFormat.TEXT))
    provider.json(openai_wire.whole())
    for asked, left_out in ((ResponseFormat.JSON_SCHEMA, True), (ResponseFormat.TEXT, False)):
        engine = find("litellm").build(replace(configured(provider, "openai/m"), response_format=asked))
        answer = complete(engine, request(TIGHT))
        engine.close()
        assert answer.sent is not None
        assert answer.sent.left_out is left_out


@needs_litellm
def test_a_parameter_that_the_provider_does_not_take_is_refused_and_not_dropped(provider: Provider) -> None:
    engine = find("litellm").build(configured(provider, "replicate/meta/m"))
    error = fault(engine)
    engine.close()
    assert error.kind is FaultKind.BAD_REQUEST
    assert "replicate does not support parameters: ['response_format']" in error.message
    assert not provider.asked


#: it has no bound, and reads whatever comes
BOUNDED = tuple(injected for injected in FAULTS if "oversized" not in injected.name)
#: litellm says 400 of it
_OTHERWISE = {"an error inside a 200": FaultKind.BAD_REQUEST}


@needs_litellm
@pytest.mark.parametrize("injected", BOUNDED, ids=lambda each: each.name)
def test_a_fault_is_what_it_is_behind_litellm_too(provider: Provider, injected: Injected) -> None:
    speaker = next(speaker for speaker in SPEAKERS if speaker.name == "openai chat, in one piece")
    speaker = replace(speaker, configured=lambda provider, **_: configured(provider))
    provider.replies.append(injected.serve(speaker))
    engine = secrets.build(find("litellm"), speaker.config(provider))
    try:
        found = engine.generate(request(timeout=2.0 if injected.slow else 20.0))
    except CallError as error:
        found_kind: object = error.kind
        told = error.message
    else:
        found_kind = found.reason if isinstance(found, Declined) else None
        told = found.text if isinstance(found, Completion) else found.message
    engine.close()
    assert found_kind == _OTHERWISE.get(injected.name, injected.expected), told
    assert SECRET not in told
    assert len(provider.asked) == 1


@needs_litellm
def test_a_provider_that_asks_to_wait_is_waited_for(provider: Provider, engine: Engine) -> None:
    provider.json(openai_wire.error_body("slow down"), status=429, headers={"retry-after": "7"})
    error = fault(engine)
    assert (error.kind, error.retry_after) == (FaultKind.RATE_LIMITED, 7.0)


@needs_litellm
def test_what_a_filter_stops_is_a_refusal(provider: Provider, engine: Engine) -> None:
    said = openai_wire.error_body("The response was filtered by content management policy", code="content_filter")
    provider.json(said, status=400)
    assert decline(engine).reason is DeclineReason.REFUSAL


@needs_litellm
def test_litellm_prints_nothing_and_logs_no_key(
    provider: Provider, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        provider.json(openai_wire.error_body(f"no, {SECRET}"), status=401)
        engine = secrets.build(find("litellm"), configured(provider))
        assert fault(engine).kind is FaultKind.AUTH
        engine.close()
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if SECRET in record.getMessage()] == []


def test_a_model_is_named_with_its_provider() -> None:
    with pytest.raises(EngineError, match="--jsbench-model is needed with engine 'litellm': PROVIDER/MODEL"):
        find("litellm").describe(EngineConfig(name="litellm"))


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "is_installed", lambda _: False)
    with pytest.raises(MissingRequirement) as caught:
        find("litellm").check(EngineConfig(name="litellm", model="a/b"))
    expected = "engine 'litellm' needs the package litellm: pip install 'pytest-jsbench[litellm]'"
    assert str(caught.value) == expected
