"""Provider batch APIs: many requests handed in at once, answered within a day, and cheaper."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    Failed,
    FaultKind,
)
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines.http.calls import LONGEST_BODY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import EngineConfig

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
    #: how a request ended that the results do not hold; None while it may still be answered
    unanswered: Failed | None = None


#: a request's name, and how it ended
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
        """How its requests ended, in any order; there may be no result of one that was never made."""

    def close(self) -> None:
        """Close the connections."""


@runtime_checkable
class BatchFactory(Protocol):
    """A factory of an engine whose provider has a batch API."""

    def build_batches(self, config: EngineConfig) -> Batches:
        """What hands batches in."""


def sound_id(value: object, of: str = "the batch") -> str:
    """Return the id as a server said it, which will be shown; CallError for what is none."""
    if isinstance(value, str) and value and printable(value, _LONGEST_ID) == value:
        return value
    raise CallError(FaultKind.BAD_RESPONSE, f"the server did not say {of}'s id")


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
