"""Requests for the engines under test."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from pytest_jsbench.core.generations import CallError, Declined, Request
from pytest_jsbench.testing import CITY, complete, request

if TYPE_CHECKING:
    from pytest_jsbench.engines.base import Engine

__all__ = ["CITY", "complete", "decline", "fault", "fetch", "request"]


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
