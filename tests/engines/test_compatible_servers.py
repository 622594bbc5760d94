"""Streams of chat completions as servers other than OpenAI's send them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.generations import FaultKind, FinishReason, Usage
from pytest_jsbench.engines.registry import find
from tests.engines.asking import complete, fault
from tests.engines.openai_wire import SECRET, USAGE, chunk, configured, usage_chunk
from tests.engines.provider import DONE, Provider, dripping, event, stream_reply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.base import Engine

pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")

TEXT = '{"city": "Åre"}'
ALL = Usage(input_tokens=20, output_tokens=9, cached_tokens=16, reasoning_tokens=4)
NONE = Usage()


def bare(**data: Any) -> str:
    return event({"id": "c", "object": "chat.completion.chunk", "model": "m", **data})


def two(finish: str | None = None, usage: Any = None) -> tuple[str, str]:
    return chunk('{"city": ', finish=finish, usage=usage), chunk('"Åre"}', finish=finish, usage=usage)


END = chunk(finish="stop")
STREAMS: dict[str, tuple[tuple[str, ...], Usage]] = {
    "no usage, no done": ((*two(), END), NONE),
    "a role first, with empty text": ((chunk("", role="assistant"), *two(), END, usage_chunk(), DONE), ALL),
    "a role first, with none": ((chunk(role="assistant"), *two(), END, usage_chunk(), DONE), ALL),
    "all in the last chunk": ((chunk(TEXT, finish="stop", usage=USAGE, role="assistant"), DONE), ALL),
    "the rest in the last chunk": ((two()[0], chunk('"Åre"}', finish="stop"), DONE), NONE),
    "a sum in each chunk": (
        (*two(usage={**USAGE, "completion_tokens": 1}), chunk(finish="stop", usage=USAGE), DONE),
        ALL,
    ),
    "usage before the end": ((*two(), usage_chunk(), END, DONE), ALL),
    "no choices at first": ((bare(choices=[], prompt_filter_results=[]), *two(), END, DONE), NONE),
    "null for no choices": ((*two(), END, bare(choices=None, usage=USAGE), DONE), ALL),
    "null for no delta": ((*two(), bare(choices=[{"index": 0, "delta": None, "finish_reason": "stop"}]), DONE), NONE),
    "no index": (
        (bare(choices=[{"delta": {"content": TEXT}}]), bare(choices=[{"delta": {}, "finish_reason": "stop"}])),
        NONE,
    ),
    "an empty finish reason until the end": ((*two(finish=""), END, DONE), NONE),
    "comments": ((": OPENROUTER PROCESSING\n\n", *two(), ": ping\n\n", END, DONE), NONE),
    "carriage returns and no spaces": (
        tuple(part.replace("\n", "\r\n").replace("data: ", "data:") for part in (*two(), END, DONE)),
        NONE,
    ),
    "thoughts of their own": ((chunk(reasoning_content="Hm, {"), *two(), END, DONE), NONE),
    "something after the end": ((*two(), END, DONE, chunk("more")), NONE),
    "a second choice": ((bare(choices=[{"index": 1, "delta": {"content": "no"}}]), *two(), END, DONE), NONE),
}


@pytest.fixture
def engine(provider: Provider) -> Iterator[Engine]:
    engine = find("openai").build(configured(provider))
    yield engine
    engine.close()


@pytest.mark.parametrize("in_drops", [False, True], ids=["", "a byte at a time"])
@pytest.mark.parametrize(("parts", "usage"), STREAMS.values(), ids=STREAMS)
def test_every_servers_stream_is_the_same_answer(
    provider: Provider, engine: Engine, parts: tuple[str, ...], usage: Usage, *, in_drops: bool
) -> None:
    reply = stream_reply(*parts)
    provider.replies.append(dripping(reply, pause=0) if in_drops else reply)
    answer = complete(engine)
    assert (answer.text, answer.finish_reason, answer.usage) == (TEXT, FinishReason.STOP, usage)
    assert answer.timing is not None
    assert answer.timing.ttft is not None


def test_thoughts_of_their_own_start_no_clock(provider: Provider, engine: Engine) -> None:
    provider.stream(chunk(reasoning_content="Hm."), chunk(reasoning="Hm."), *two(), END, DONE, pause=0.15)
    timing = complete(engine).timing
    assert timing is not None
    assert timing.ttft is not None
    assert timing.ttft >= 0.29


ERRORS: dict[str, tuple[str, FaultKind]] = {
    "openai": (event({"error": {"type": "server_error", "message": "gone"}}), FaultKind.SERVER),
    "openrouter": (
        bare(error={"code": 429, "message": "gone"}, choices=[{"index": 0, "delta": {}, "finish_reason": "error"}]),
        FaultKind.RATE_LIMITED,
    ),
    "openrouter, in the choice": (
        bare(choices=[{"index": 0, "delta": {}, "error": {"code": 503, "message": "gone"}}]),
        FaultKind.SERVER,
    ),
    "vllm, flat": (
        event({"object": "error", "message": "gone", "type": "InternalServerError", "param": None, "code": 500}),
        FaultKind.SERVER,
    ),
    "llama.cpp": (event({"error": {"code": 500, "message": "gone", "type": "server_error"}}), FaultKind.SERVER),
    "gemini": (event([{"error": {"code": 503, "message": "gone", "status": "UNAVAILABLE"}}]), FaultKind.SERVER),
    "text": (event({"error": "gone"}), FaultKind.BAD_RESPONSE),
}


@pytest.mark.parametrize("end", ["", DONE], ids=["", "done"])
@pytest.mark.parametrize(("error", "kind"), ERRORS.values(), ids=ERRORS)
def test_every_servers_error_in_mid_stream_is_a_fault(
    provider: Provider, engine: Engine, error: str, kind: FaultKind, end: str
) -> None:
    provider.stream(two()[0], error, end) if end else provider.stream(two()[0], error)
    found = fault(engine)
    assert (found.kind, found.message) == (kind, "gone")


def test_a_flat_error_inside_a_200_is_a_fault(provider: Provider) -> None:
    provider.json({"object": "error", "message": f"gone, {SECRET}", "type": "NotFoundError", "code": 404})
    engine = find("openai").build(configured(provider, options={"stream": False}))
    error = fault(engine)
    assert (error.kind, error.message) == (FaultKind.BAD_REQUEST, "gone, [key]")
    engine.close()


@pytest.mark.parametrize("reset", [False, True], ids=["hanging", "reset"])
def test_a_connection_that_does_not_end_after_the_last_words_costs_no_answer(
    provider: Provider, engine: Engine, *, reset: bool
) -> None:
    reply = stream_reply(*two(), END, DONE, cut=True)
    provider.replies.append(replace(reply, hang=not reset, reset=reset))
    for _ in range(2):
        answer = complete(engine)
        assert answer.text == TEXT
        assert answer.timing is not None
        assert answer.timing.tgt < 5
