"""Requests for the engines under test."""

from __future__ import annotations

import urllib.error
import urllib.request
from contextlib import closing

from pytest_jsbench.core.generations import CallError, Completion, Declined, Request, Sent
from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.http.faults import ProviderError, classify_error
from pytest_jsbench.engines.registry import find
from pytest_jsbench.testing import CITY, complete, request

__all__ = ["CITY", "complete", "request"]


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


def generation_of(config: EngineConfig, question: Request | None = None) -> Completion | Declined:
    """What an engine of its own makes of the question."""
    with closing(find(config.name).build(config)) as engine:
        return engine.generate(question or request())


def completion_of(config: EngineConfig, asked: Request | None = None) -> Completion:
    """The completion that an engine of its own gives; anything else is a failure of the test."""
    with closing(find(config.name).build(config)) as engine:
        return complete(engine, asked)


def fault_of(config: EngineConfig, asked: Request | None = None) -> CallError:
    """The fault of an engine of its own; an outcome is a failure of the test."""
    with closing(find(config.name).build(config)) as engine:
        return fault(engine, asked)


def classified(error: ProviderError, *, sent: Sent, secret: str | None) -> Declined | CallError:
    """What a provider's error is; an answer in it is a failure of the test."""
    decided = classify_error(error, sent=sent, secret=secret)
    assert not isinstance(decided, Completion)
    return decided


def fetch(url: str, *, authorization: str = "") -> tuple[int, str]:
    """Status and text of a GET, past any proxy; OSError where nobody answers."""
    asked = urllib.request.Request(url, headers={"authorization": authorization} if authorization else {})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""
