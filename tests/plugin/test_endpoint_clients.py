"""Test the clients of OpenAI, Anthropic and Google, as applications use them, through `jsbench.endpoint`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.support import anthropic_wire, gemini_wire, openai_wire
from tests.support.anthropic_wire import typed
from tests.support.applications import LOOKING
from tests.support.bench import Bench
from tests.support.openai_wire import SECRET, chunk, usage_chunk
from tests.support.provider import DONE, Asked, Provider, Reply, json_reply, stream_reply

pytest.importorskip("openai", reason="needs the package openai")
pytest.importorskip("anthropic", reason="needs the package anthropic")
pytest.importorskip("pydantic", reason="needs the package pydantic")

CALLING = """
import asyncio
import anthropic, openai, pytest
from pydantic import BaseModel

class Number(BaseModel):
    n: int

def request(text):
    return {"model": "m", "messages": [{"role": "user", "content": text}]}

@pytest.fixture
def gpt(jsbench):
    return openai.OpenAI(base_url=jsbench.endpoint.openai_url, api_key="any")

@pytest.fixture
def claude(jsbench):
    return anthropic.Anthropic(base_url=jsbench.endpoint.anthropic_url, api_key="any")
"""
OPENAI = """
from calling import *

def test_it_parses(jsbench, gpt):
    answer = gpt.chat.completions.parse(**request("1"), response_format=Number)
    assert answer.choices[0].message.parsed == Number(n=1)
    assert jsbench.endpoint.answers[0].verdict.passed

def test_it_streams(jsbench, gpt):
    with gpt.chat.completions.stream(**request("2"), response_format=Number) as stream:
        assert "content.done" in [event.type for event in stream]
        assert stream.get_final_completion().choices[0].message.parsed == Number(n=2)
    assert jsbench.endpoint.answers[0].timing.ttft > 0

def test_it_stops_reading_when_it_has_enough(jsbench, gpt):
    shape = {"type": "json_schema", "json_schema": {"name": "n", "schema": Number.model_json_schema()}}
    with gpt.chat.completions.create(**request("5"), response_format=shape, stream=True) as stream:
        assert next(iter(stream)).choices[0].delta.content == "{"
    assert jsbench.endpoint.answers[0].instance == {"n": 5}

def test_it_calls_a_tool(jsbench, gpt):
    tool = openai.pydantic_function_tool(Number)
    answer = gpt.chat.completions.parse(**request("tool 3"), tools=[tool], tool_choice="required")
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.parsed_arguments == Number(n=3)
    assert jsbench.endpoint.answers[0].instance == {"n": 3}

def test_it_tries_again_when_the_server_is_busy(jsbench, gpt):
    answer = gpt.chat.completions.parse(**request("busy 4"), response_format=Number)
    assert answer.choices[0].message.parsed == Number(n=4)
    assert jsbench.endpoint.answers[-1].verdict.passed

def test_it_asks_many_things_at_once(jsbench):
    async def asked():
        async with openai.AsyncOpenAI(base_url=jsbench.endpoint.openai_url, api_key="any", max_retries=0) as gpt:
            each = (gpt.chat.completions.parse(**request(str(n)), response_format=Number) for n in range(30))
            return await asyncio.gather(*each)
    assert [one.choices[0].message.parsed.n for one in asyncio.run(asked())] == list(range(30))
    assert len(jsbench.endpoint.answers) == 30

def test_it_lists_the_models(gpt):
    assert [model.id for model in gpt.models.list()] == ["m"]
"""
ANTHROPIC = """
from calling import *

def test_it_parses(jsbench, claude):
    answer = claude.messages.parse(**request("1"), max_tokens=9, output_format=Number)
    assert answer.parsed_output == Number(n=1)
    assert jsbench.endpoint.answers[0].verdict.passed

def test_it_streams(jsbench, claude):
    with claude.messages.stream(**request("2"), max_tokens=9, output_format=Number) as stream:
        assert stream.get_final_message().parsed_output == Number(n=2)
    assert jsbench.endpoint.answers[0].timing.ttft > 0

def test_it_calls_a_tool(jsbench, claude):
    tool = {"name": "number", "input_schema": Number.model_json_schema()}
    answer = claude.messages.create(**request("tool 3"), max_tokens=9, tools=[tool], tool_choice={"type": "any"})
    assert answer.content[0].input == {"n": 3}
    assert jsbench.endpoint.answers[0].instance == {"n": 3}

def test_it_tries_again_when_the_server_is_busy(jsbench, claude):
    answer = claude.messages.parse(**request("busy 4"), max_tokens=9, output_format=Number)
    assert answer.parsed_output == Number(n=4)
    assert jsbench.endpoint.answers[-1].verdict.passed

def test_it_lists_the_models(claude):
    assert [model.id for model in claude.models.list()] == ["m"]
"""
GEMINI = """
import pytest
from google import genai
from pydantic import BaseModel

class Number(BaseModel):
    n: int

@pytest.fixture
def gemini(jsbench):
    with genai.Client(api_key="any", http_options={"base_url": jsbench.endpoint.gemini_url}) as client:
        yield client.models

FORMAT = {"response_mime_type": "application/json", "response_schema": Number}

def test_it_parses(jsbench, gemini):
    answer = gemini.generate_content(model="m", contents="1", config=FORMAT)
    assert answer.parsed == Number(n=1)
    assert jsbench.endpoint.answers[0].verdict.passed

def test_it_streams(jsbench, gemini):
    texts = [one.text or "" for one in gemini.generate_content_stream(model="m", contents="2", config=FORMAT)]
    assert "".join(texts) == '{"n": 2}'
    assert jsbench.endpoint.answers[0].timing.ttft > 0

def test_it_calls_a_tool(jsbench, gemini):
    def number(n: int) -> None:
        "Take a number."
    config = {
        "tools": [number],
        "tool_config": {"function_calling_config": {"mode": "ANY"}},
        "automatic_function_calling": {"disable": True},
    }
    answer = gemini.generate_content(model="m", contents="tool 3", config=config)
    assert answer.function_calls[0].args == {"n": 3}
    assert jsbench.endpoint.answers[0].instance == {"n": 3}

def test_another_model_is_asked(jsbench, gemini):
    answer = gemini.generate_content(model="other", contents="4", config=FORMAT)
    assert answer.model_version == "other"
"""
REFUSED = """
from calling import *

def test_openai_s_client_reads_what_the_server_refuses(gpt):
    with pytest.raises(openai.BadRequestError) as refused:
        gpt.chat.completions.parse(**request("refuse"), response_format=Number)
    assert (refused.value.code, refused.value.request_id) == ("too_bad", "r-1")

def test_openai_s_client_reads_what_breaks_off(gpt):
    with pytest.raises(openai.APIConnectionError):
        with gpt.chat.completions.stream(**request("break"), response_format=Number) as stream:
            stream.get_final_completion()
"""


def echo(provider: Provider, asked: Asked) -> Reply:
    """Answer with the requested number in the format of the API; report overload first if requested."""
    if "contents" in asked.body:
        return by_google(asked)
    last = asked.body["messages"][-1]["content"].split()
    claude = asked.path == "/v1/messages"
    if last[0] == "busy" and [one.body for one in provider.asked].count(asked.body) == 1:
        busy = (anthropic_wire if claude else openai_wire).error_body("busy")
        return json_reply(busy, status=529 if claude else 503, headers={"retry-after": "0.01"})
    if last[0] == "refuse":
        refusal = openai_wire.error_body("no", code="too_bad")
        return json_reply(refusal, status=400, headers={"x-request-id": "r-1"})
    if last[0] == "break":
        return stream_reply(chunk('{"n'), cut=True)
    return (by_anthropic if claude else by_openai)(asked, json.dumps({"n": int(last[-1])}), tool=last[0] == "tool")


def by_google(asked: Asked) -> Reply:
    """Answer with the requested number in the format of Gemini's API."""
    last = asked.body["contents"][-1]["parts"][0]["text"].split()
    text = json.dumps({"n": int(last[-1])})
    if ":streamGenerateContent?" in asked.path:
        return stream_reply(*map(gemini_wire.delta, text), gemini_wire.stop(), pause=0.02)
    if last[0] != "tool":
        model = asked.path.rpartition("/")[2].partition(":")[0]
        return json_reply({**gemini_wire.whole(gemini_wire.part(text)), "modelVersion": model})
    return json_reply(gemini_wire.whole({"functionCall": {"name": "number", "args": json.loads(text)}}))


def by_openai(asked: Asked, text: str, *, tool: bool) -> Reply:
    if asked.body.get("stream"):
        return stream_reply(*map(chunk, text), chunk(finish="stop"), usage_chunk(), DONE, pause=0.02)
    if not tool:
        return json_reply(openai_wire.whole(text))
    call = {"id": "c", "type": "function", "function": {"name": "Number", "arguments": text}}
    return json_reply(openai_wire.whole(None, finish="tool_calls", message={"tool_calls": [call]}))


def by_anthropic(asked: Asked, text: str, *, tool: bool) -> Reply:
    if asked.body.get("stream"):
        begun = typed("content_block_start", index=0, content_block={"type": "text", "text": ""}) + typed("ping")
        pieces = (anthropic_wire.delta(letter) for letter in text)
        ended = typed("content_block_stop", index=0) + anthropic_wire.stop()
        return stream_reply(anthropic_wire.start(), begun, *pieces, ended)
    if not tool:
        return json_reply(anthropic_wire.whole({"type": "text", "text": text}))
    call = {"type": "tool_use", "id": "t", "name": "number", "input": json.loads(text)}
    return json_reply(anthropic_wire.whole(call, reason="tool_use"))


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        provider.choose = partial(echo, provider)
        yield provider


def run(bench: Bench, *args: str) -> pytest.RunResult:
    bench.write({"calling.py": CALLING})
    return bench.run_only("test_one.py", *args)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "url", "tests", "count"),
    [("openai", "{}/v1", OPENAI, 7), ("anthropic", "{}", ANTHROPIC, 5), ("gemini", "{}", GEMINI, 4)],
)
def test_a_provider_s_own_client_is_answered_live_and_from_recordings(
    bench: Bench, provider: Provider, monkeypatch: pytest.MonkeyPatch, engine: str, url: str, tests: str, count: int
) -> None:
    if engine == "gemini":
        pytest.importorskip("google.genai", reason="needs the package google-genai")
    monkeypatch.setenv(f"{engine.upper()}_API_KEY", SECRET)
    bench.write({"test_one.py": tests})
    named = (f"--jsbench-engine={engine}", "--jsbench-model=m", f"--jsbench-base-url={url.format(provider.url)}")

    run(bench, *named, "--jsbench-record=kept").assert_outcomes(passed=count)
    provider.asked.clear()
    again = run(bench, "--jsbench-replay=kept")

    again.assert_outcomes(passed=count)
    assert provider.asked == []
    assert "unasked" not in again.stdout.str()


def test_refused_or_truncated_answer_is_the_clients_own_error(
    bench: Bench, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    bench.write({"test_one.py": LOOKING + REFUSED})

    result = run(bench, "--jsbench-engine=openai", "--jsbench-model=m", f"--jsbench-base-url={provider.url}/v1")

    result.assert_outcomes(passed=2)
