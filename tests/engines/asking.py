"""Requests for the engines under test."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from pytest_jsbench.cases import CaseKey
from pytest_jsbench.generations import CallError, Completion, Declined, GenerationParams, Request
from pytest_jsbench.prompts import Message, Prompt

if TYPE_CHECKING:
    from pytest_jsbench.cases import Schema
    from pytest_jsbench.engines.base import Engine

CITY: Schema = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "old": {"type": "boolean"}},
    "required": ["city", "old"],
    "additionalProperties": False,
}


def request(
    schema: Schema = CITY,
    *,
    case_id: str = "city",
    task: str = "simple",
    repeat: int = 0,
    prompt: str = "Name a city, as JSON.",
    system: str | None = None,
    max_tokens: int = 12,
    temperature: float | None = None,
    seed: int | None = None,
    timeout: float = 60.0,
) -> Request:
    messages = (Message(role="system", content=system),) if system else ()
    return Request(
        key=CaseKey(task=task, id=case_id),
        repeat=repeat,
        prompt=Prompt(messages=(*messages, Message(role="user", content=prompt))),
        schema=schema,
        params=GenerationParams(max_tokens=max_tokens, temperature=temperature, seed=seed, timeout=timeout),
    )


def complete(engine: Engine, asked: Request | None = None) -> Completion:
    """The completion; anything else is a failure of the test."""
    outcome = engine.generate(asked or request())
    assert isinstance(outcome, Completion), outcome
    return outcome


def decline(engine: Engine, asked: Request | None = None) -> Declined:
    """The decline; anything else is a failure of the test."""
    outcome = engine.generate(asked or request())
    assert isinstance(outcome, Declined), outcome
    return outcome


def fault(engine: Engine, asked: Request | None = None) -> CallError:
    """The fault; an outcome is a failure of the test."""
    try:
        outcome = engine.generate(asked or request())
    except CallError as error:
        return error
    message = f"no fault, but {outcome}"
    raise AssertionError(message)


def fetch(url: str, *, authorization: str = "") -> tuple[int, str]:
    """Status and text of a GET, past any proxy; OSError where nobody answers."""
    asked = urllib.request.Request(url, headers={"authorization": authorization} if authorization else {})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""
