"""Provider batch APIs: many requests handed in at once, answered within a day, and cheaper."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    Failed,
    FaultKind,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines.http.calls import LONGEST_BODY, Deadline, settle
from pytest_jsbench.engines.http.faults import ProviderError, classify_error, explain_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.requirements import Key

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


def to_line(value: object) -> bytes:
    """One line of JSON, as the SDKs write it; CallError for a schema that no JSON encoder takes."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode()
    except (ValueError, RecursionError) as error:
        message = f"the request cannot be made: {type(error).__name__}: {error}"
        raise CallError(FaultKind.ENGINE, message) from None


def read_id(batch: object) -> str:
    """The id of a batch that an SDK has read; it builds its objects of whatever a server says."""
    return sound_id(getattr(batch, "id", None))


def sound_id(found: object) -> str:
    """The id as a server said it, which will be shown; CallError for what is none."""
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


class SDKBatches:
    """
    What the batches of both providers have in common: how results are read, and what an error means.

    One is made for one phase of a run (hand in, or wait and read) and closed at its end; one thread calls it. A class
    of a provider says what its SDK is, and how one line of results is read.
    """

    #: the field of a line of results that holds the request's name
    name_field = "custom_id"

    def __init__(
        self, *, sdk: Any, sdk_error: type[Exception], client: Any, address: str, model: str, key: Key
    ) -> None:
        self._sdk = sdk
        self._sdk_error = sdk_error
        self._any_client = client
        self._address = address
        self._model = model
        self._key = key

    def close(self) -> None:
        """Close the client's connections."""
        self._any_client.close()

    def read_result(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined:
        """What one line of the results says; CallError for a request that was not made or not answered."""
        raise NotImplementedError

    def read_results(self, response: Any, sent: Sent) -> Iterator[Result]:
        """The results in a response of JSON lines."""
        for line in read_lines(response.iter_bytes()):
            yield str(line.get(self.name_field)), self._settled(line, sent)

    def classify(self, error: ProviderError, sent: Sent) -> Completion | Declined:
        """A provider's word against one request: a failed generation, Declined, or raised as a CallError."""
        outcome = classify_error(error, sent=sent, secret=self._key.value)
        if isinstance(outcome, CallError):
            raise outcome
        return outcome

    @contextmanager
    def polling(self) -> Iterator[None]:
        """`explained`, within the time of one question and its tries: the answer is short."""
        with self.explained(), Deadline(TIMEOUT * (RETRIES + 1)).enforced():
            yield

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Inside, whatever the SDK raises becomes a CallError: what holds for a whole batch is no schema's fault."""
        from httpx2 import HTTPError

        try:
            yield
        except CallError:
            raise
        except (self._sdk_error, HTTPError, ValueError) as error:
            outcome = self._explain(error, Sent(response_format=ResponseFormat.TEXT))
            if isinstance(outcome, Declined):
                outcome = CallError(FaultKind.BAD_REQUEST, outcome.message)
            if isinstance(outcome, Completion):
                outcome = CallError(FaultKind.BAD_RESPONSE, "the server answered a question about a batch with a text")
            raise outcome from None

    def _settled(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined | Failed:
        """One request's result, as a call of its own would have ended, but without times: nobody has measured any."""
        try:
            generation = settle(
                lambda: self.read_result(line, sent),
                lambda error: self._explain(error, sent),
                sdk_error=self._sdk_error,
                deadline=Deadline(TIMEOUT),
            )
        except CallError as error:
            return Failed(kind=error.kind, message=error.message, status=error.status)
        return replace(generation, timing=None)

    def _explain(self, error: Exception, sent: Sent) -> Completion | Declined | CallError:
        return explain_error(
            error, sent, sdk=self._sdk, address=self._address, model=self._model, secret=self._key.value
        )
