"""One call by an SDK, and what it comes to when the SDK raises."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_jsbench.engines.messages import one_line
from pytest_jsbench.engines.provider_errors import EnclosedError
from pytest_jsbench.generations import CallError, FaultKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_jsbench.engines.deadlines import Deadline
    from pytest_jsbench.generations import Completion, Declined


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
    explain: Callable[[Exception], Declined | CallError],
    *,
    sdk_error: type[Exception],
    deadline: Deadline,
) -> Completion | Declined:
    """
    The call's own result, or what `explain` makes of the exception that it raised.

    Whatever breaks once the deadline has passed broke because of it.
    """
    # HTTPError: anthropic lets httpx2's own errors through while a stream is read;
    # ValueError, RecursionError: a schema that no JSON encoder takes
    from httpx2 import HTTPError

    try:
        with deadline.enforced():
            return call()
    except CallError as error:
        outcome: Declined | CallError = error
    except (sdk_error, HTTPError, EnclosedError, ValueError, RecursionError) as error:
        outcome = explain(error)
    if deadline.passed:
        outcome = deadline.fault()
    if isinstance(outcome, CallError):
        # from None: the SDK's own words may quote the key
        raise outcome from None
    return outcome
