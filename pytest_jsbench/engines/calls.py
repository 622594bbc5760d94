"""One call by an SDK, and what it comes to when the SDK raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_jsbench.engines.provider_errors import EnclosedError
from pytest_jsbench.generations import CallError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_jsbench.engines.deadlines import Deadline
    from pytest_jsbench.generations import Completion, Declined


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
    # ValueError, RecursionError: a body that is no JSON, and a schema that no JSON encoder takes
    from httpx2 import HTTPError

    try:
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
