"""One reply as each wire format sends it: whole, and as a stream whose pieces are cut and shuffled at random."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pytest_jsbench.engines.providers.anthropic_messages import MESSAGES
from pytest_jsbench.engines.providers.finish_reasons import (
    CHAT_FINISH,
    GEMINI_FINISH,
    MESSAGES_FINISH,
    RESPONSES_FINISH,
    FinishReasons,
)
from pytest_jsbench.engines.providers.gemini import GENERATE_CONTENT
from pytest_jsbench.engines.providers.openai_apis import CHAT, RESPONSES
from pytest_jsbench.engines.providers.provider import WireFormat
from tests.support import anthropic_wire, gemini_wire, openai_wire, responses_wire


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A model's reply."""

    text: str = ""
    calls: Sequence[tuple[str, str]] = ()
    reasoning: str = ""
    finish: str


def cut(random: Random, text: str) -> list[str]:
    """Cut a text into non-empty pieces of random length."""
    places = sorted(random.sample(range(1, len(text)), k=min(len(text) - 1, random.randrange(6)))) if text else []
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True) if start < end]


def interleave(random: Random, *sequences: Sequence[str]) -> list[str]:
    """Mix the sequences; each keeps its own order."""
    rest = [list(sequence) for sequence in sequences if sequence]
    mixed = []
    while rest:
        chosen = random.choice(rest)
        mixed.append(chosen.pop(0))
        rest = [sequence for sequence in rest if sequence]
    return mixed


def _chat_whole(reply: Reply) -> dict[str, Any]:
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(reply.calls)
    ]
    message = {"reasoning_content": reply.reasoning, **({"tool_calls": calls} if calls else {})}
    return openai_wire.whole(reply.text or None, finish=reply.finish, message=message)


def _chat_stream(reply: Reply, random: Random) -> list[str]:
    calls = []
    for number, (name, arguments) in enumerate(reply.calls):
        first = {"index": number, "id": f"c{number}", "function": {"name": name, "arguments": ""}}
        more = [{"index": number, "function": {"arguments": piece}} for piece in cut(random, arguments)]
        calls.append([openai_wire.chunk(tool_calls=[piece]) for piece in (first, *more)])
    texts = [openai_wire.chunk(piece) for piece in cut(random, reply.text)]
    reasoning = [openai_wire.chunk(reasoning_content=piece) for piece in cut(random, reply.reasoning)]
    end = [openai_wire.chunk(finish=reply.finish), openai_wire.usage_chunk(), "data: [DONE]\n\n"]
    return [*reasoning, *interleave(random, texts, *calls), *end]


def _response(reply: Reply) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    if reply.reasoning:
        items.append({"type": "reasoning", "id": "r", "content": [{"type": "reasoning_text", "text": reply.reasoning}]})
    if reply.text:
        items.append(responses_wire.message(reply.text))
    for name, arguments in reply.calls:
        items.append({"type": "function_call", "id": f"f{len(items)}", "name": name, "arguments": arguments})
    if reply.finish in ("completed", "failed", "cancelled", "queued", "in_progress"):
        return responses_wire.whole(status=reply.finish) | {"output": items}
    return responses_wire.incomplete(reply.finish) | {"output": items}


def _responses_stream(reply: Reply, random: Random) -> list[str]:
    typed, ended = responses_wire.typed, _response(reply)
    streams = []
    for index, item in enumerate(ended["output"]):
        kind = {"message": "output_text", "reasoning": "reasoning_text"}.get(item["type"], "function_call_arguments")
        whole = item["arguments"] if "arguments" in item else item["content"][0]["text"]
        added = typed("response.output_item.added", output_index=index, item={**item, "content": [], "arguments": ""})
        pieces = [
            # some servers change an item's identifier in each event
            typed(f"response.{kind}.delta", item_id=f"i{random.random()}", output_index=index, delta=piece)
            for piece in cut(random, whole)
        ]
        last = random.choice([[], [typed("response.output_item.done", output_index=index, item=item)]])
        streams.append([added, *pieces, *last])
    status = ended["status"] if ended["status"] in ("incomplete", "failed", "cancelled") else "completed"
    kept = ended if random.random() < 0.5 else {**ended, "output": []}
    return [responses_wire.start(), *interleave(random, *streams), typed(f"response.{status}", response=kept)]


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.reasoning:
        blocks.append({"type": "thinking", "thinking": reply.reasoning})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for name, arguments in reply.calls:
        blocks.append({"type": "tool_use", "id": f"t{len(blocks)}", "name": name, "input": json.loads(arguments)})
    return blocks


def _messages_whole(reply: Reply) -> dict[str, Any]:
    return anthropic_wire.whole(*_blocks(reply), reason=reply.finish)


_OF_BLOCK = {"thinking": ("thinking_delta", "thinking"), "text": ("text_delta", "text")}


def _messages_stream(reply: Reply, random: Random) -> list[str]:
    typed = anthropic_wire.typed
    streams = []
    for index, block in enumerate(_blocks(reply)):
        kind, field = _OF_BLOCK.get(block["type"], ("input_json_delta", "partial_json"))
        whole = json.dumps(block["input"], ensure_ascii=False) if "input" in block else block[field]
        emptied: dict[str, Any] = {"input": {}} if "input" in block else {field: ""}
        begun = {**block, **emptied}
        pieces = [
            typed("content_block_delta", index=index, delta={"type": kind, field: piece})
            for piece in ([] if whole == "{}" else cut(random, whole))
        ]
        start = typed("content_block_start", index=index, content_block=begun)
        streams.append([start, *pieces, typed("content_block_stop", index=index)])
    usage = {**anthropic_wire.INPUT, "output_tokens": 9}
    end = typed("message_delta", delta={"stop_reason": reply.finish}, usage=usage) + typed("message_stop")
    return [anthropic_wire.start(), *interleave(random, *streams), end]


def _parts(reply: Reply, text: str) -> list[dict[str, Any]]:
    thought = [gemini_wire.part(reply.reasoning, thought=True)] if reply.reasoning else []
    calls = [{"functionCall": {"name": name, "args": json.loads(arguments)}} for name, arguments in reply.calls]
    return [*thought, *([gemini_wire.part(text)] if text else []), *calls]


def _gemini_whole(reply: Reply) -> dict[str, Any]:
    return gemini_wire.whole(*_parts(reply, reply.text), finish=reply.finish)


def _gemini_stream(reply: Reply, random: Random) -> list[str]:
    thought = [gemini_wire.delta(piece, thought=True) for piece in cut(random, reply.reasoning)]
    texts = [gemini_wire.delta(piece) for piece in cut(random, reply.text)]
    calls = [gemini_wire.chunk(part) for part in _parts(reply, "") if "functionCall" in part]
    return [*thought, *texts, *calls, gemini_wire.stop(reply.finish)]


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """A wire format, and how it sends a reply."""

    wire: WireFormat
    finish: FinishReasons
    stop: str
    whole: Callable[[Reply], dict[str, Any]]
    stream: Callable[[Reply, Random], list[str]]


SPEAKERS: Mapping[str, Speaker] = {
    "chat": Speaker(wire=CHAT, finish=CHAT_FINISH, stop="stop", whole=_chat_whole, stream=_chat_stream),
    "responses": Speaker(
        wire=RESPONSES, finish=RESPONSES_FINISH, stop="completed", whole=_response, stream=_responses_stream
    ),
    "messages": Speaker(
        wire=MESSAGES, finish=MESSAGES_FINISH, stop="end_turn", whole=_messages_whole, stream=_messages_stream
    ),
    "gemini": Speaker(
        wire=GENERATE_CONTENT, finish=GEMINI_FINISH, stop="STOP", whole=_gemini_whole, stream=_gemini_stream
    ),
}
