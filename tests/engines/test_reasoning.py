"""A model's reasoning, as each API and server gives it, kept apart from the answer."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.engines import secrets
from pytest_jsbench.engines.registry import find
from tests.engines import anthropic_wire, openai_wire, responses_wire
from tests.engines.asking import complete
from tests.engines.openai_wire import chunk
from tests.engines.provider import DONE, Provider, json_reply, stream_reply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.core.generations import Completion
    from pytest_jsbench.engines.base import Engine

pytest.importorskip("openai", reason="the openai engine needs the package openai")
pytest.importorskip("anthropic", reason="the anthropic engine needs the package anthropic")

TEXT = '{"city": "Oslo", "old": true}'
SAID = "Hm. Oslo."


@dataclass(slots=True)
class Conversation:
    """A server, and one engine for each way to speak to it."""

    provider: Provider
    engines: dict[tuple[str, bool], Engine] = field(default_factory=dict)

    def answer(self, wire: Any, *pieces: str) -> Completion:
        """The answer that comes in these pieces."""
        self.provider.replies = deque([stream_reply(*pieces, pause=0.01)])
        return complete(self._engine(wire, streaming=True))

    def whole(self, wire: Any, body: dict[str, Any]) -> Completion:
        """The answer that this body is."""
        self.provider.replies = deque([json_reply(body)])
        return complete(self._engine(wire, streaming=False))

    def _engine(self, wire: Any, *, streaming: bool) -> Engine:
        if (name := (wire.__name__, streaming)) not in self.engines:
            config = wire.configured(self.provider, options={"stream": streaming})
            self.engines[name] = secrets.build(find(config.name), config)
        return self.engines[name]


@pytest.fixture(scope="module")
def server() -> Iterator[Conversation]:
    with Provider() as provider:
        yield (said := Conversation(provider))
        for engine in said.engines.values():
            engine.close()


def ended(*pieces: str) -> tuple[str, ...]:
    return (*pieces, chunk(finish="stop"), DONE)


def thinking(*texts: str) -> list[dict[str, Any]]:
    """Mistral's part of a content."""
    return [{"type": "thinking", "thinking": [{"type": "text", "text": text} for text in texts]}]


def added(kind: str) -> str:
    return responses_wire.typed("response.output_item.added", output_index=0, item={"type": kind, "id": "r"})


def part(number: int) -> str:
    return responses_wire.typed("response.reasoning_summary_part.added", item_id="r", summary_index=number)


def block(kind: str, **more: Any) -> str:
    return anthropic_wire.typed("content_block_start", index=0, content_block={"type": kind, **more})


RESPONSE = responses_wire.stop(responses_wire.whole(responses_wire.message(TEXT)))
STREAMS: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "chat, reasoning_content": (
        openai_wire,
        ended(chunk(reasoning_content="Hm. "), chunk(reasoning_content="Oslo."), chunk(TEXT)),
        SAID,
    ),
    "chat, reasoning": (openai_wire, ended(chunk(reasoning="Hm. "), chunk(reasoning="Oslo."), chunk(TEXT)), SAID),
    "chat, the same in both fields": (
        openai_wire,
        ended(chunk(reasoning_content=SAID, reasoning=SAID), chunk(TEXT)),
        SAID,
    ),
    "chat, parts of the content": (
        openai_wire,
        ended(chunk(thinking("Hm. ")), chunk(thinking("Oslo.")), chunk([{"type": "text", "text": TEXT}])),
        SAID,
    ),
    "responses, all of it": (
        responses_wire,
        (added("reasoning"), responses_wire.delta("Hm. ", "reasoning_text"),
         responses_wire.delta("Oslo.", "reasoning_text"), responses_wire.delta(TEXT), RESPONSE),
        SAID,
    ),
    "responses, a summary of two parts": (
        responses_wire,
        (added("reasoning"), part(0), responses_wire.delta("Hm.", "reasoning_summary_text"),
         part(1), responses_wire.delta("Oslo.", "reasoning_summary_text"), responses_wire.delta(TEXT), RESPONSE),
        "Hm.\n\nOslo.",
    ),
    "responses, nothing shown": (
        responses_wire, (added("reasoning"), responses_wire.delta(TEXT), RESPONSE), "",
    ),
    "messages": (
        anthropic_wire,
        (anthropic_wire.start(), block("thinking", thinking=""),
         anthropic_wire.delta(kind="thinking_delta", thinking="Hm. "),
         anthropic_wire.delta(kind="thinking_delta", thinking="Oslo."),
         anthropic_wire.delta(kind="signature_delta", signature="c2ln"),
         anthropic_wire.delta(TEXT), anthropic_wire.stop()),
        SAID,
    ),
    "messages, nothing shown": (
        anthropic_wire,
        (anthropic_wire.start(), block("redacted_thinking", data="ZGF0YQ=="), anthropic_wire.delta(TEXT),
         anthropic_wire.stop()),
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wire", "pieces", "said"), STREAMS.values(), ids=STREAMS)
def test_reasoning_in_a_stream_is_kept_apart_and_timed(
    server: Conversation, wire: Any, pieces: tuple[str, ...], said: str
) -> None:
    answer = server.answer(wire, *pieces)
    assert (answer.text, answer.reasoning) == (TEXT, said)
    timing = answer.timing
    assert timing is not None
    assert timing.ttft is not None
    assert timing.reasoning_time is not None
    assert 0 < timing.reasoning_time < timing.ttft


SUMMARY = {
    "type": "reasoning",
    "id": "r",
    "summary": [{"type": "summary_text", "text": word} for word in ("Hm.", "Oslo.")],
}
SHOWN = {**SUMMARY, "content": [{"type": "reasoning_text", "text": SAID}]}
WHOLE: dict[str, tuple[Any, dict[str, Any], str]] = {
    "chat, reasoning_content": (openai_wire, openai_wire.whole(TEXT, message={"reasoning_content": SAID}), SAID),
    "chat, reasoning": (openai_wire, openai_wire.whole(TEXT, message={"reasoning": SAID}), SAID),
    "chat, parts of the content": (
        openai_wire, openai_wire.whole([*thinking("Hm. ", "Oslo."), {"type": "text", "text": TEXT}]), SAID,
    ),
    "responses, a summary": (
        responses_wire, responses_wire.whole(SUMMARY, responses_wire.message(TEXT)), "Hm.\n\nOslo.",
    ),
    "responses, all of it": (responses_wire, responses_wire.whole(SHOWN, responses_wire.message(TEXT)), SAID),
    "messages": (
        anthropic_wire,
        anthropic_wire.whole({"type": "thinking", "thinking": SAID}, {"type": "text", "text": TEXT}),
        SAID,
    ),
    "none": (openai_wire, openai_wire.whole(TEXT), ""),
}  # fmt: skip


@pytest.mark.parametrize(("wire", "body", "said"), WHOLE.values(), ids=WHOLE)
def test_reasoning_in_one_piece_is_kept_apart_and_not_timed(
    server: Conversation, wire: Any, body: dict[str, Any], said: str
) -> None:
    answer = server.whole(wire, body)
    assert (answer.text, answer.reasoning) == (TEXT, said)
    assert answer.timing is not None
    assert answer.timing.reasoning_time is None


@pytest.mark.parametrize(
    ("pieces", "timed"),
    [
        (["<think>", "Hm.", "</think>\n", TEXT], True),
        (["Hm.", " Oslo.</think>", TEXT], True),
        (["<think>Hm.</think><think></think>", "\n", TEXT], True),
        (["[THINK]Hm.", "[/THINK]", TEXT], True),
        (["<think>Hm.", " {"], False),
        (['{"city": "', '</think>", "old": true}'], False),
        (["Sure: ", TEXT], False),
    ],
)
def test_reasoning_in_the_content_stays_in_the_text_and_its_time_ends_where_the_answer_begins(
    server: Conversation, pieces: list[str], *, timed: bool
) -> None:
    answer = server.answer(openai_wire, *ended(*map(chunk, pieces)))
    assert (answer.text, answer.reasoning) == ("".join(pieces), "")
    assert answer.timing is not None
    assert (answer.timing.reasoning_time is not None) is timed
    assert (answer.timing.reasoning_time or 0) <= (answer.timing.gct or 0)


def test_a_secret_in_reasoning_is_replaced(server: Conversation) -> None:
    answer = server.whole(openai_wire, openai_wire.whole(TEXT, message={"reasoning": f"It is {openai_wire.SECRET}."}))
    assert answer.reasoning == f"It is {'*' * len(openai_wire.SECRET)}."
    assert not answer.secret_replaced
