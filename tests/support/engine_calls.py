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
    """Return the decline; fail the test for any other outcome."""
    outcome = engine.generate(asked or request())
    assert isinstance(outcome, Declined), outcome
    return outcome


def fault(engine: Engine, asked: Request | None = None) -> CallError:
    """Return the fault; fail the test for any outcome."""
    try:
        outcome = engine.generate(asked or request())
    except CallError as error:
        return error
    message = f"no fault, but {outcome}"
    raise AssertionError(message)


def generation_of(config: EngineConfig, question: Request | None = None) -> Completion | Declined:
    """Return the result of a new engine for the request."""
    with closing(find(config.name).build(config)) as engine:
        return engine.generate(question or request())


def completion_of(config: EngineConfig, asked: Request | None = None) -> Completion:
    """Return the completion of a new engine; fail the test for any other result."""
    with closing(find(config.name).build(config)) as engine:
        return complete(engine, asked)


def fault_of(config: EngineConfig, asked: Request | None = None) -> CallError:
    """Return the fault of a new engine; fail the test for any outcome."""
    with closing(find(config.name).build(config)) as engine:
        return fault(engine, asked)


def classify_without_answer(error: ProviderError, *, sent: Sent, secret: str | None) -> Declined | CallError:
    """Classify a provider's error; fail the test if it contains an answer."""
    outcome = classify_error(error, sent=sent, secret=secret)
    assert not isinstance(outcome, Completion)
    return outcome


def fetch(url: str, *, authorization: str = "") -> tuple[int, str]:
    """Send a GET without a proxy, and return status and text; raise OSError if there is no server."""
    asked = urllib.request.Request(url, headers={"authorization": authorization} if authorization else {})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""
