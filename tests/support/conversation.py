"""A conversation of an application: instructions, a question, two calls with their results, and an answer."""

from __future__ import annotations

from typing import Any

from pytest_jsbench.core.cases import Prompt
from pytest_jsbench.core.messages import read_messages


def call(name: str, arguments: str, function: str = "find_order") -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": function, "arguments": arguments}}


TURNS: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Where are orders 7 and 8?"}, {"type": "text", "text": "?"}]},
    {"role": "assistant", "content": None, "tool_calls": [call("call_7", '{"id": 7}'), call("call_8", '{"id": 8}')]},
    {"role": "tool", "tool_call_id": "call_8", "name": "find_order", "content": "lost"},
    {"role": "tool", "tool_call_id": "call_7", "content": '{"city": "Oslo"}'},
    {"role": "assistant", "content": "One is in Oslo.", "refusal": None},
    {"role": "user", "content": "In which city? As JSON."},
]
#: The messages as they are sent to OpenAI and recorded.
WRITTEN: list[dict[str, Any]] = [
    TURNS[0],
    {"role": "user", "content": "Where are orders 7 and 8?\n?"},
    TURNS[2],
    {"role": "tool", "content": "lost", "tool_call_id": "call_8"},
    {"role": "tool", "content": '{"city": "Oslo"}', "tool_call_id": "call_7"},
    {"role": "assistant", "content": "One is in Oslo."},
    TURNS[6],
]
PROMPT = Prompt(messages=read_messages(TURNS))
