"""A request in the words of each API: a line of `bodies.jsonl` holds a configuration, what is asked, and the body."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.options import REASONING_OPTIONS
from pytest_jsbench.engines.registry import find
from tests.conversation import PROMPT
from tests.engines.asking import request

ROWS = [json.loads(line) for line in Path(__file__).with_name("bodies.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_what_was_asked_is_sent_and_nothing_else(row: dict[str, Any]) -> None:
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
