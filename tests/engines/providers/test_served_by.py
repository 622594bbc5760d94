from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_jsbench.core.generations import Completion, ServedBy
from pytest_jsbench.core.secret_masking import Secrets
from pytest_jsbench.engines.engine_secrets import mask_generation
from tests.support.answer_reading import WIRES, events, outcome

MESSAGE = {"role": "assistant", "content": "{}"}
DELTA = {"index": 0, "delta": {"content": "{}"}, "finish_reason": "stop"}
CHAT = {"model": "gpt-4o-2024-08-06", "system_fingerprint": "fp_1", "provider": "DeepInfra"}
RESPONSE = {"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "{}"}]}]}
CLAUDE = {"content": [{"type": "text", "text": "{}"}], "stop_reason": "end_turn"}
GEMINI = {"candidates": [{"content": {"parts": [{"text": "{}"}]}, "finishReason": "STOP"}]}


def sse(*each: dict[str, Any]) -> Any:
    return events(*(f"data: {json.dumps(event)}\n\n" for event in each))


@pytest.mark.parametrize(
    ("wire", "sent", "expected"),
    [
        (
            "chat",
            {"choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}], **CHAT},
            ServedBy(model="gpt-4o-2024-08-06", fingerprint="fp_1", provider="DeepInfra"),
        ),
        ("chat", sse({"choices": [DELTA], "model": "m-1"}, {"choices": [], "model": "m-2"}), ServedBy(model="m-1")),
        ("responses", {**RESPONSE, "model": "gpt-5.1-2026"}, ServedBy(model="gpt-5.1-2026")),
        (
            "responses",
            sse({"type": "response.completed", "response": {**RESPONSE, "model": "gpt-5.1-2026"}}),
            ServedBy(model="gpt-5.1-2026"),
        ),
        ("messages", {**CLAUDE, "model": "claude-5-20261001"}, ServedBy(model="claude-5-20261001")),
        (
            "messages",
            sse(
                {"type": "message_start", "message": {"model": "claude-5-20261001"}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "{}"}},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            ),
            ServedBy(model="claude-5-20261001"),
        ),
        ("gemini", {**GEMINI, "modelVersion": "gemini-3-001"}, ServedBy(model="gemini-3-001")),
        ("gemini", sse({**GEMINI, "modelVersion": "gemini-3-001"}), ServedBy(model="gemini-3-001")),
        ("gemini", GEMINI, None),
        ("chat", sse({"choices": [DELTA], "model": {"a": 1}, "provider": "\x1b[2Ja" * 99}), "hostile"),
    ],
)
def test_answer_states_which_model_served_it(wire: str, sent: Any, expected: ServedBy | str | None) -> None:
    result = outcome(WIRES[wire], sent)

    assert isinstance(result, Completion)
    if expected == "hostile":
        assert result.served_by is not None
        assert result.served_by.model == ""
        assert result.served_by.provider.isprintable()
        assert len(result.served_by.provider) <= 200
    else:
        assert result.served_by == expected


def test_secret_in_the_name_of_a_server_is_masked() -> None:
    result = outcome(WIRES["chat"], sse({"choices": [DELTA], "model": "m", "provider": "for sk-a1b2c3d4e5f6g7h8"}))
    assert isinstance(result, Completion)

    masked = mask_generation(result, Secrets(["sk-a1b2c3d4e5f6g7h8"]))

    assert masked.served_by is not None
    assert "a1b2c3d4" not in masked.served_by.provider
    assert masked.served_by.model == "m"
