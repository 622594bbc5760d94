"""
Answers of each API and of servers with their own variants, and the outcome of each.

A line of `answers.jsonl` contains what is sent (`body`, or the pieces of a stream) and `outcome`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.generations import Completion, ResponseFormat
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.engine_options import REASONING_OPTIONS
from pytest_jsbench.engines.providers.openai_apis import CHAT
from pytest_jsbench.engines.registry import find
from tests.support.answer_reading import ROWS, WIRES, as_row, events, outcome
from tests.support.conversation import PROMPT
from tests.support.engine_calls import request


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['wire']}, {row['name']}" for row in ROWS])
def test_answer_has_the_expected_outcome(row: dict[str, Any]) -> None:
    result = outcome(WIRES[row["wire"]], events(*row["events"]) if "events" in row else row["body"])

    assert as_row(result) == row["outcome"]
    timing = result.timing if isinstance(result, Completion) else None
    if timing is not None and timing.reasoning_time is not None:
        # reasoning inside the content begins with the first token
        end = timing.gct if "in the content" in row["name"] else timing.ttft
        assert end is not None
        assert 0 < timing.reasoning_time <= end


BODIES = [json.loads(line) for line in Path(__file__).with_name("bodies.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("row", BODIES, ids=[row["name"] for row in BODIES])
def test_body_has_only_the_requested_fields(row: dict[str, Any]) -> None:
    fields = {"model": "m", "base_url": "http://h", "api_key": "k", "options": {}, **row["config"]}
    chosen = ResponseFormat(fields["response_format"]) if "response_format" in fields else None
    config = EngineConfig(**{**fields, "response_format": chosen})
    conversing = row["asked"].get("conversation", False)
    asked = request(**{name: value for name, value in row["asked"].items() if name != "conversation"})

    settings = find(config.name).settings(config)  # type: ignore[attr-defined]

    assert settings.wire.to_body(settings, replace(asked, prompt=PROMPT) if conversing else asked) == row["body"]
    reasoning = {name: value for name, value in fields["options"].items() if name in REASONING_OPTIONS}
    details = find(config.name).describe(config).details
    assert {name: value for name, value in details.items() if name in REASONING_OPTIONS} == reasoning


CHOICE = {"index": 0, "message": {"content": "{}"}, "finish_reason": "stop"}
LLAMA = {"timings": {"prompt_n": 5, "prompt_ms": 120.0, "predicted_n": 2, "predicted_ms": 40}}
CEREBRAS = {"time_info": {"queue_time": 0.5, "prompt_time": 0.1, "completion_time": 0.2}}
GROQ = {"usage": {"prompt_tokens": 5, "completion_tokens": 2, "queue_time": 0.01, "prompt_time": 0.02}}


@pytest.mark.parametrize(
    ("said", "times"),
    [
        (LLAMA, (None, 0.12, 0.04)),
        (CEREBRAS, (0.5, 0.1, 0.2)),
        (GROQ, (0.01, 0.02, None)),
        ({"timings": {"prompt_ms": "1", "predicted_ms": -1}, "time_info": 3}, (None, None, None)),
        ({"time_info": {"queue_time": 1e300, "prompt_time": True}}, (None, None, None)),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_server_times_are_kept(said: dict[str, Any], times: tuple[float | None, ...], *, streamed: bool) -> None:
    chunk = {"choices": [{**CHOICE, "delta": CHOICE["message"]}], **said}
    sent = events(f"data: {json.dumps(chunk)}\n\n", "data: [DONE]\n\n") if streamed else {"choices": [CHOICE], **said}

    result = outcome(CHAT, sent)

    assert isinstance(result, Completion)
    assert result.timing is not None
    kept = result.timing.server_queue, result.timing.server_prefill, result.timing.server_decode
    assert kept == pytest.approx(times)
