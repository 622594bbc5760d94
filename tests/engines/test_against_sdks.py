"""Compare requests and answers with the official SDKs: the same body to the same path, the same parsed answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_jsbench import open_engine
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import Completion, ResponseFormat
from pytest_jsbench.engines.base import EngineConfig
from tests.support import anthropic_wire, openai_wire
from tests.support.answer_reading import ROWS
from tests.support.api_servers import SPEAKERS, TEXT, Speaker
from tests.support.engine_calls import completion_of, fault_of, request
from tests.support.provider import Asked, Provider, Reply, json_reply, stream_reply

openai = pytest.importorskip("openai", reason="the SDK is the reference")
anthropic = pytest.importorskip("anthropic", reason="the SDK is the reference")

FORMATS = (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL, ResponseFormat.TEXT)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a caller reads from an answer."""

    text: str
    input_tokens: int | None
    output_tokens: int | None


def chat(provider: Provider, body: dict[str, Any]) -> Reading:
    client = openai.OpenAI(base_url=f"{provider.url}/v1", api_key=openai_wire.SECRET, max_retries=0)
    answer = client.chat.completions.create(**body)
    if not body.get("stream"):
        return _of_chat(answer.choices[0].message, answer.usage)
    chunks = list(answer)
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    usage = next((chunk.usage for chunk in chunks if chunk.usage), None)
    return Reading(
        text=text, input_tokens=usage and usage.prompt_tokens, output_tokens=usage and usage.completion_tokens
    )


def _of_chat(message: Any, usage: Any) -> Reading:
    calls = "".join(call.function.arguments for call in message.tool_calls or [])
    return Reading(
        text=calls or message.content, input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens
    )


def responses(provider: Provider, body: dict[str, Any]) -> Reading:
    client = openai.OpenAI(base_url=f"{provider.url}/v1", api_key=openai_wire.SECRET, max_retries=0)
    answer = client.responses.create(**body)
    if body.get("stream"):
        answer = [event.response for event in answer if event.type == "response.completed"][-1]
    usage = answer.usage
    return Reading(text=answer.output_text, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)


def messages(provider: Provider, body: dict[str, Any]) -> Reading:
    client = anthropic.Anthropic(base_url=provider.url, api_key=anthropic_wire.SECRET, max_retries=0)
    if body.pop("stream", False):
        with client.messages.stream(**body) as stream:
            answer = stream.get_final_message()
    else:
        answer = client.messages.create(**body)
    usage = answer.usage
    inputs = usage.input_tokens + (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    text = "".join(block.text for block in answer.content if block.type == "text")
    return Reading(text=text, input_tokens=inputs, output_tokens=usage.output_tokens)


SDKS: dict[str, Callable[[Provider, dict[str, Any]], Reading]] = {
    "openai chat": chat,
    "openai responses": responses,
    "anthropic": messages,
}
BESIDE = [speaker for speaker in SPEAKERS if speaker.name.partition(",")[0] in SDKS and not speaker.options]


def call_provider(provider: Provider, config: EngineConfig) -> tuple[Asked, Completion]:
    answer = completion_of(config)
    return provider.asked[-1], answer


def _good(speaker: Speaker) -> Reply:
    """Return a valid answer; anthropic's SDK ignores a block whose start it has not seen."""
    if speaker.engine != "anthropic" or not speaker.streaming:
        return speaker.good()
    block = anthropic_wire.typed("content_block_start", index=0, content_block={"type": "text", "text": ""})
    first, *rest = speaker.events
    head, start, delta = first.partition("event: content_block_delta")
    return stream_reply(head + block + start + delta, *rest)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("speaker", BESIDE, ids=lambda speaker: speaker.name)
def test_request_and_answer_match_the_sdk(speaker: Speaker, form: ResponseFormat) -> None:
    with Provider() as provider:
        provider.replies.append(_good(speaker))
        config = speaker.configured(provider, options={"stream": speaker.streaming}, response_format=form)
        ours, answer = call_provider(provider, config)
        reading = SDKS[speaker.name.partition(",")[0]](provider, dict(ours.body))
        theirs = provider.asked[-1]

    assert (ours.method, ours.path, ours.body) == (theirs.method, theirs.path, theirs.body)
    telling = ("authorization", "x-api-key", "anthropic-version", "content-type")
    assert {name: ours.headers.get(name) for name in telling} == {name: theirs.headers.get(name) for name in telling}
    usage = answer.usage
    assert reading == Reading(text=TEXT, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    assert answer.text == TEXT


def _called_chat(provider: Provider, *, streamed: bool) -> tuple[str, list[list[str]]]:
    client = openai.OpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0)
    if streamed:
        with client.chat.completions.stream(model="m", messages=ASKED) as stream:
            message = stream.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(model="m", messages=ASKED).choices[0].message
    calls = [[call.function.name, call.function.arguments] for call in message.tool_calls or []]
    return message.content or message.refusal or "", calls


def _called_responses(provider: Provider, *, streamed: bool) -> tuple[str, list[list[str]]]:
    client = openai.OpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0)
    if streamed:
        with client.responses.stream(model="m", input="a?") as stream:
            answer = stream.get_final_response()
    else:
        answer = client.responses.create(model="m", input="a?")
    calls = [[item.name, item.arguments] for item in answer.output if item.type == "function_call"]
    return answer.output_text, calls


def _called_messages(provider: Provider, *, streamed: bool) -> tuple[str, list[list[str]]]:
    client = anthropic.Anthropic(base_url=provider.url, api_key="k", max_retries=0)
    if streamed:
        with client.messages.stream(model="m", messages=ASKED, max_tokens=9) as stream:
            answer = stream.get_final_message()
    else:
        answer = client.messages.create(model="m", messages=ASKED, max_tokens=9)
    calls = [
        [block.name, json.dumps(block.input, ensure_ascii=False)]
        for block in answer.content
        if block.type == "tool_use"
    ]
    return "".join(block.text for block in answer.content if block.type == "text"), calls


ASKED = [{"role": "user", "content": "a?"}]
CALLING = {"chat": _called_chat, "responses": _called_responses, "messages": _called_messages}
#: Answers in the providers' own form; the other rows are variants of other servers, which the SDKs cannot parse.
OFFICIAL = {
    "chat": {
        *("a tool's arguments", "a tool's arguments in pieces", "two calls and a text 1", "two calls and a text 5"),
        *("ended by stop", "ended by length", "ended by content_filter", "refusal 3", "stream: a sum in each chunk"),
        *("stream: a role first, with empty text", "stream: no choices at first", "stream: usage before the end"),
        *("reasoning: chat, reasoning_content", "reasoning in one piece: chat, reasoning_content"),
    },
    "responses": {
        *(f"answer {number}" for number in (3, 4, 5, 6, 7, 9, 11)),
        *("two calls and a text 2", "reasoning in one piece: responses, a summary"),
    },
    "messages": {
        *(f"answer {number}" for number in (1, 2, 3, 4, 5, 6)),
        *("two calls and a text 3", "cached input tokens", "reasoning in one piece: messages"),
    },
}


READABLE = [row for row in ROWS if row["name"] in OFFICIAL.get(row["wire"], ())]


@pytest.mark.parametrize("row", READABLE, ids=[f"{row['wire']}, {row['name']}" for row in READABLE])
def test_sdk_reads_the_same_text_calls_and_refusal(row: dict[str, Any]) -> None:
    with Provider() as provider:
        provider.replies.append(stream_reply(*row["events"]) if "events" in row else json_reply(row["body"]))
        reading = CALLING[row["wire"]](provider, streamed="events" in row)

    outcome = row["outcome"]
    calls = outcome.get("calls", [])
    text = outcome.get("beside", "") if calls else outcome.get("text", outcome.get("message"))
    assert reading == (text, calls)


def test_each_official_answer_is_a_row() -> None:
    rows = {(row["wire"], row["name"]) for row in ROWS}
    assert {(wire, name) for wire, names in OFFICIAL.items() for name in names} <= rows


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
@pytest.mark.parametrize("speaker", BESIDE, ids=lambda speaker: speaker.name)
def test_an_sdk_reads_the_same_error(speaker: Speaker, status: int) -> None:
    with Provider() as provider:
        provider.replies += 2 * [json_reply(speaker.error("that is it"), status=status)]
        ours = fault_of(speaker.config(provider))
        with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as theirs:
            SDKS[speaker.name.partition(",")[0]](provider, dict(provider.asked[0].body))

    assert ours.status == theirs.value.status_code == status
    assert "that is it" in ours.message
    assert "that is it" in theirs.value.message


VARIABLES = {
    "OPENAI_API_KEY": "key-of-the-environment",
    "OPENAI_ORG_ID": "org-1",
    "OPENAI_PROJECT_ID": "proj-1",
    "OPENAI_CUSTOM_HEADERS": "X-Own: a: b\nX-Other:c",
    "ANTHROPIC_API_KEY": "key-of-the-environment",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Own: a: b\nX-Other:c",
}


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_sdk_variables_have_the_sdks_meaning(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(asked: Asked) -> Reply:
        whole = anthropic_wire.whole(anthropic_wire.TEXT) if "messages" in asked.path else openai_wire.whole()
        return json_reply(whole)

    with Provider() as provider:
        provider.choose = reply
        for variable, value in VARIABLES.items():
            monkeypatch.setenv(variable, value)
        base = provider.url if name == "anthropic" else f"{provider.url}/v1"
        monkeypatch.setenv(f"{name.upper()}_BASE_URL", base)
        ours, _ = call_provider(provider, EngineConfig(name=name, model="m", options={"stream": False}))
        if name == "openai":
            openai.OpenAI().chat.completions.create(**ours.body)
        else:
            anthropic.Anthropic().messages.create(**ours.body)
        theirs = provider.asked[-1]

    named = ("authorization", "x-api-key", "openai-organization", "openai-project", "x-own", "x-other")
    assert {header: ours.headers.get(header) for header in named} == {
        header: theirs.headers.get(header) for header in named
    }
    assert ours.path == theirs.path
    assert ours.headers["x-own"] == "a: b"


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_sdk_client_sets_address_key_headers_and_query(name: str) -> None:
    with Provider() as provider:
        provider.json(openai_wire.whole() if name == "openai" else anthropic_wire.whole(anthropic_wire.TEXT))
        base = f"{provider.url}/v1" if name == "openai" else provider.url
        more = {"default_headers": {"X-Own": "mine"}, "default_query": {"team": "a b"}}
        sdk = openai.OpenAI if name == "openai" else anthropic.Anthropic
        with open_engine(name, model="m", client=sdk(api_key="key-of-the-client", base_url=base, **more)) as engine:
            answer = engine.generate(request())
    assert isinstance(answer, Completion)
    assert answer.text == '{"city": "Oslo"}'
    headers = provider.asked[0].headers
    assert (headers["authorization"], headers["x-own"]) == ("Bearer key-of-the-client", "mine")
    assert provider.asked[0].path.endswith("?team=a+b")
    assert not any("stainless" in header for header in headers)


def test_invalid_client_is_rejected_by_name() -> None:
    with pytest.raises(EngineError, match=r"client is a dict and has no attribute .base_url.; expected openai\.OpenAI"):
        open_engine("openai", client={})
