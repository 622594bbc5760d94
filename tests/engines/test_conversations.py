"""Conversations with tools, as each API is asked them over HTTP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_jsbench.core.generations import DeclineReason, ResponseFormat
from pytest_jsbench.engines.registry import find
from tests.conversation import PROMPT, TURNS, WRITTEN
from tests.engines import openai_wire
from tests.engines.asking import complete, completion_of, decline, request
from tests.engines.provider import Asked, Provider, Reply, json_reply
from tests.engines.speakers import SPEAKERS, Speaker

#: where no role of OpenAI's own is known
SYSTEM = {"role": "system", "content": "Be brief."}
CHAT = {"messages": [SYSTEM, *WRITTEN[1:]]}
RESPONSES = {
    "input": [
        SYSTEM,
        WRITTEN[1],
        {"type": "function_call", "call_id": "call_7", "name": "find_order", "arguments": '{"id": 7}'},
        {"type": "function_call", "call_id": "call_8", "name": "find_order", "arguments": '{"id": 8}'},
        {"type": "function_call_output", "call_id": "call_8", "output": "lost"},
        {"type": "function_call_output", "call_id": "call_7", "output": '{"city": "Oslo"}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One is in Oslo."}]},
        TURNS[6],
    ]
}
MESSAGES: dict[str, Any] = {
    "system": "Be brief.",
    "messages": [
        WRITTEN[1],
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "call_7", "name": "find_order", "input": {"id": 7}},
                {"type": "tool_use", "id": "call_8", "name": "find_order", "input": {"id": 8}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_8", "content": "lost"},
                {"type": "tool_result", "tool_use_id": "call_7", "content": '{"city": "Oslo"}'},
            ],
        },
        WRITTEN[5],
        TURNS[6],
    ],
    # a conversation with calls is refused without tools
    "tools": [{"name": "find_order", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "none"},
}
_SIGNED = {"thoughtSignature": "skip_thought_signature_validator"}
GEMINI = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Where are orders 7 and 8?\n?"}]},
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "find_order", "args": {"id": 7}}, **_SIGNED},
                {"functionCall": {"name": "find_order", "args": {"id": 8}}, **_SIGNED},
            ],
        },
        {
            # in the order of the calls: nothing else says which is whose
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "find_order", "response": {"city": "Oslo"}}},
                {"functionResponse": {"name": "find_order", "response": {"output": "lost"}}},
            ],
        },
        {"role": "model", "parts": [{"text": "One is in Oslo."}]},
        {"role": "user", "parts": [{"text": "In which city? As JSON."}]},
    ],
}
#: by the speaker's name, which begins so
BODIES: dict[str, dict[str, Any]] = {
    "openai chat": CHAT,
    "openai responses": RESPONSES,
    "anthropic": MESSAGES,
    "gemini": GEMINI,
    "azure": {"messages": WRITTEN},
}


@pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda speaker: speaker.name)
def test_a_conversation_with_tools_is_asked_in_the_words_of_each_api(provider: Provider, speaker: Speaker) -> None:
    pytest.importorskip(speaker.package, reason=f"the {speaker.engine} engine needs its package")
    provider.choose = lambda _: speaker.good()
    completion_of(speaker.config(provider), replace(request(), prompt=PROMPT))

    (asked,) = provider.asked
    expected = next(body for name, body in BODIES.items() if speaker.name.startswith(name))
    assert {name: asked.body.get(name) for name in expected} == expected
    assert "tools" in expected or "tools" not in asked.body


def anthropic_asked(provider: Provider, options: dict[str, Any], **changes: Any) -> Any:
    speaker = next(speaker for speaker in SPEAKERS if speaker.name == "anthropic, in one piece")
    pytest.importorskip(speaker.package, reason="the anthropic engine needs its package")
    provider.choose = lambda _: speaker.good()
    completion_of(
        speaker.configured(provider, options={"stream": False, **options}, **changes), replace(request(), prompt=PROMPT)
    )
    return provider.asked[-1].body


def test_the_tools_of_the_user_or_of_the_schema_take_the_place_of_the_called_ones(provider: Provider) -> None:
    tools = [{"name": "find_order", "description": "Finds it.", "input_schema": {"type": "object"}}]

    own = anthropic_asked(provider, {"extra_body": {"tools": tools}})
    of_schema = anthropic_asked(provider, {}, response_format=ResponseFormat.TOOL)

    assert (own["tools"], own["tool_choice"]) == (tools, {"type": "none"})
    assert [tool["name"] for tool in of_schema["tools"]] == ["output"]
    assert of_schema["tool_choice"]["name"] == "output"


@pytest.mark.parametrize("rendered", ["<user>Where?<assistant><tool>lost", None], ids=["left out", "unknown"])
def test_a_server_of_llama_cpp_whose_template_leaves_calls_out_is_not_asked(
    provider: Provider, rendered: str | None
) -> None:
    pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")

    def choose(asked: Asked) -> Reply:
        if asked.path == "/apply-template":
            return json_reply({"prompt": rendered} if rendered else {"error": "what?"}, status=200 if rendered else 404)
        return json_reply(openai_wire.whole())

    provider.choose = choose
    config = openai_wire.configured(provider, name="llamacpp", options={"stream": False})
    engine = find("llamacpp").build(config)
    asked = replace(request(), prompt=PROMPT)
    if rendered is None:
        complete(engine, asked)
    else:
        declined = decline(engine, asked)
        assert declined.reason is DeclineReason.UNSUPPORTED_MESSAGES
        assert declined.message.startswith(
            "the model's chat template does not show that the assistant called 'find_order'; nothing was sent"
        )
    complete(engine)
    engine.close()

    paths = ["/apply-template", *["/v1/chat/completions"] * (1 if rendered else 2)]
    assert [one.path for one in provider.asked] == paths
