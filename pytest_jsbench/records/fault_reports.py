"""Define how a project's application coped with the faults that an endpoint injected; never part of a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec

from pytest_jsbench.core.json_values import Seconds, Times


class FaultName(StrEnum):
    """Faults that an endpoint can inject into the answers to an application."""

    #: The server rejects the call because of too many calls (HTTP status 429).
    RATE_LIMIT = "rate_limit"
    #: The server is overloaded (HTTP status 503 or 529, or an error within a stream).
    OVERLOADED = "overloaded"
    #: The server has an internal error (HTTP status 500).
    SERVER_ERROR = "server_error"
    #: The server sends nothing for some time, and then closes the connection.
    TIMEOUT = "timeout"
    #: The connection is closed within the answer.
    CUT_AFTER = "cut_after"
    #: The answer ends at the token limit.
    TRUNCATE = "truncate"
    #: The model refuses to answer.
    REFUSE = "refuse"
    #: The answer is empty.
    EMPTY = "empty"
    #: The arguments of the tool call are not JSON; in Anthropic's whole answers, which contain an object, they are {}.
    BROKEN_ARGUMENTS = "broken_arguments"
    #: The model calls a tool that the request does not declare.
    WRONG_TOOL = "wrong_tool"
    #: The answer has a field that its schema does not allow.
    EXTRA_FIELD = "extra_field"
    #: The answer is prose instead of JSON or a tool call.
    NOT_JSON = "not_json"


class Coping(StrEnum):
    """How an application coped with a fault, as far as it was observed."""

    #: The application called again, and its last call was answered without a fault.
    RECOVERED = "recovered"
    #: The application raised an exception.
    RAISED = "raised"
    #: The application returned without an exception although its last answer was broken or missing.
    RETURNED = "returned"
    #: The application was still waiting for an answer when the fault's time had passed, or the test's time limit ended.
    HUNG = "hung"
    #: The application received no better answer, and the test did not observe how it ended.
    UNOBSERVED = "unobserved"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReport:
    """A fault that was injected into the calls of one test, and how the application coped."""

    #: Task of the test, as in the records.
    task: str
    #: Name of the test, as in the records.
    id: str
    #: Number of the repeat, from 0.
    repeat: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: Variant of the run; empty in a run without variants.
    variant: str = ""
    #: Name of the fault.
    fault: FaultName
    #: Path of the API that was called.
    api: str
    #: Whether the application asked for a stream.
    streamed: bool
    #: Number of calls that were answered with the fault.
    injected: Times
    #: Seconds from each of these answers to the application's next call; empty if the application did not call again.
    waits: Annotated[tuple[Seconds, ...], msgspec.Meta(max_length=10_000)] = ()
    #: Seconds that the server asked the application to wait (`Retry-After`); None if it did not ask.
    retry_after: Seconds | None = None
    #: How the application coped.
    coping: Coping
    #: Class of the exception that the application raised; empty if there is none.
    error: str = ""

    @property
    def waited_too_short(self) -> bool:
        """Whether the application called again sooner than the server asked."""
        return self.retry_after is not None and any(wait < self.retry_after for wait in self.waits)
