"""Provider batch APIs: many requests handed in at once, answered within a day, and cheaper."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pytest_jsbench.core.generations import CallError, Completion, Declined, Failed, FaultKind
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines.http.calls import Deadline, settle
from pytest_jsbench.engines.http.response_bodies import LONGEST_BODY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import EngineConfig

#: tries after the first to ask how a batch is getting on, or to fetch its results
RETRIES = 4
#: seconds for one such request
TIMEOUT = 120.0
#: characters of a batch's id that are believed; both providers' have some forty
_LONGEST_ID = 200
#: characters of a request's name, in both APIs
LONGEST_NAME = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The most that one batch may hold."""

    requests: int
    #: bytes of all its lines
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """How a batch is getting on."""

    ended: bool
    answered: int
    failed: int
    total: int
    #: what became of a request of which the results say nothing; None while it may still be answered
    unanswered: Failed | None = None


#: a request's name, and what became of it
Result = tuple[str, Completion | Declined | Failed]


class Batches(Protocol):
    """One provider's batches, from one thread; CallError for what the provider will not do."""

    @property
    def limits(self) -> BatchLimits:
        """The most that one batch may hold."""

    def line(self, name: str, request: Request) -> bytes:
        """The request as the batch holds it, with the body that a call of its own would have had."""

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """Do all that costs nothing; what is returned makes the batch, which is paid for, and gives its id."""

    def state(self, batch: str) -> BatchState:
        """How it is getting on."""

    def results(self, batch: str) -> Iterator[Result]:
        """What became of its requests, in any order; of one that was never made there may be nothing."""

    def close(self) -> None:
        """Let go of connections."""


@runtime_checkable
class BatchFactory(Protocol):
    """A factory of an engine whose provider has a batch API."""

    def build_batches(self, config: EngineConfig) -> Batches:
        """What hands batches in."""


def to_body(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The body that an SDK makes of the arguments of its `create`."""
    body = {name: value for name, value in arguments.items() if name not in {"extra_body", "extra_headers", "stream"}}
    return {**body, **arguments.get("extra_body", {})}


def to_line(value: object) -> bytes:
    """One line of JSON, as the SDKs write it; CallError for a schema that no JSON encoder takes."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode()
    except (ValueError, RecursionError) as error:
        message = f"the request cannot be made: {type(error).__name__}: {error}"
        raise CallError(FaultKind.ENGINE, message) from None


def read_id(batch: object) -> str:
    """The id of a batch that an SDK has read; it builds its objects of whatever a server says, and it will be shown."""
    found = getattr(batch, "id", None)
    if isinstance(found, str) and found and printable(found, _LONGEST_ID) == found:
        return found
    raise CallError(FaultKind.BAD_RESPONSE, "the server did not say the batch's id")


def read_lines(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects in a body of JSON lines; CallError for anything else."""
    rest = bytearray()  # a long line comes in thousands of pieces, and is not copied for each of them
    for piece in pieces:
        rest += piece
        whole: list[bytearray] = []
        if b"\n" in piece:
            # not str.splitlines, nor an SDK's iter_lines: JSON strings may hold what these take for the end of a line
            *whole, rest = rest.split(b"\n")
        if len(rest) > LONGEST_BODY:
            raise CallError(FaultKind.BAD_RESPONSE, f"a result is longer than {LONGEST_BODY:,} bytes")
        for line in whole:
            yield from _objects(line)
    yield from _objects(rest)


def _objects(line: bytes | bytearray) -> Iterator[dict[str, Any]]:
    if not line.strip():
        return
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        message = f"the batch's results are no JSON lines: {type(error).__name__}"
        raise CallError(FaultKind.BAD_RESPONSE, message) from None
    if not isinstance(value, dict):
        message = f"the batch's results hold a JSON {type(value).__name__}, not an object"
        raise CallError(FaultKind.BAD_RESPONSE, message)
    yield value


def settle_result(
    read: Callable[[], Completion | Declined],
    explain: Callable[[Exception], Declined | CallError],
    *,
    sdk_error: type[Exception],
) -> Completion | Declined | Failed:
    """One request's result, as a call of its own would have ended, but without times: nobody has measured any."""
    try:
        generation = settle(read, explain, sdk_error=sdk_error, deadline=Deadline(TIMEOUT))
    except CallError as error:
        return Failed(kind=error.kind, message=error.message, status=error.status)
    return replace(generation, timing=None)


@contextmanager
def explained(explain: Callable[[Exception], Declined | CallError], *, sdk_error: type[Exception]) -> Iterator[None]:
    """Inside, whatever the SDK raises becomes a CallError: what holds for a whole batch is no schema's fault."""
    from httpx2 import HTTPError

    try:
        yield
    except CallError:
        raise
    except (sdk_error, HTTPError, ValueError) as error:
        outcome = explain(error)
        if isinstance(outcome, Declined):
            outcome = CallError(FaultKind.BAD_REQUEST, outcome.message)
        raise outcome from None
