"""A call over HTTP: its deadline, the object that its body must be, and its end."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, Completion, FaultKind, Timing
from pytest_jsbench.core.secrets import one_line
from pytest_jsbench.engines.http.faults import EnclosedError
from pytest_jsbench.engines.http.values import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_jsbench.core.generations import Declined

#: bytes; a hundred thousand tokens, each in an event of its own, are less
LONGEST_BODY = 64 * 1024 * 1024


class Deadline:
    """A number of seconds from now, for a whole call: connecting, TLS, headers and body."""

    __slots__ = ("_end", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.perf_counter() + seconds

    @property
    def remaining(self) -> float:
        """Seconds until it; never negative."""
        return max(0.0, self._end - time.perf_counter())

    @property
    def elapsed(self) -> float:
        """Seconds since it was set."""
        return time.perf_counter() - self._end + self.seconds

    @property
    def passed(self) -> bool:
        """True once it is over."""
        return self.remaining == 0.0

    def fault(self) -> CallError:
        """Return the fault of a call that did not end before the deadline."""
        return CallError(FaultKind.TIMEOUT, f"no complete answer within {self.seconds:g} s")


def refusal(status: int, headers: Mapping[str, str], data: bytes) -> EnclosedError:
    """Read the body of a response that is an error."""
    body: object = data.decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        body = parse_json(str(body))
    return EnclosedError(body, status=status, headers=headers)


def enclosed(body: object) -> dict[str, Any]:
    """The value as the object that holds an answer; an error object in it is raised as EnclosedError."""
    if not isinstance(body, dict):
        message = f"the server answered with a JSON {type(body).__name__}, not an object"
        raise CallError(FaultKind.BAD_RESPONSE, message)
    # the second is vLLM's
    if body.get("error") or body.get("object") == "error":
        raise EnclosedError(body)
    return body


@contextmanager
def reading() -> Iterator[None]:
    """While an answer is read: a body that is no JSON, or is nested deeper than any parser follows, is its fault."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        # only these say where and why; others may quote what they were given
        telling = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
        message = f"the server did not answer in JSON: {error if telling else type(error).__name__}"
        raise CallError(FaultKind.BAD_RESPONSE, one_line(message)) from None


def settle(
    call: Callable[[], Completion | Declined],
    explain: Callable[[Exception], Completion | Declined | CallError],
    *,
    deadline: Deadline,
) -> Completion | Declined:
    """
    Make the call, and return its result or what `explain` makes of a provider's refusal.

    Of an answer that came as an error only the whole time is known. Whatever breaks once the deadline has passed broke
    because of it.
    """
    try:
        return call()
    except CallError as error:
        outcome: Completion | Declined | CallError = error
    # ValueError: a header that cannot be sent
    except (EnclosedError, ValueError) as error:
        outcome = explain(error)
    if deadline.passed:
        outcome = deadline.fault()
    if isinstance(outcome, CallError):
        # from None: the provider's own words may quote the key
        raise outcome from None
    return replace(outcome, timing=Timing(tgt=deadline.elapsed)) if isinstance(outcome, Completion) else outcome
