"""Provider batch APIs: many requests handed in at once, answered within a day, and cheaper."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
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
from pytest_jsbench.engines.http.answer_builder import as_object
from pytest_jsbench.engines.http.calls import LONGEST_BODY, Deadline, parse_json, reading, refusal, settle
from pytest_jsbench.engines.http.faults import EnclosedError, ProviderError, classify_error, explain_error, retry_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import tenacity

    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.http.client import Client, Response
    from pytest_jsbench.engines.requirements import Key

#: tries after the first to ask how a batch is getting on, or to fetch its results
RETRIES = 4
#: seconds for one such request
TIMEOUT = 120.0
#: seconds for a file of requests or of results
LONG_TIMEOUT = 3600.0
#: bytes
_SMALL = 1_000_000
#: seconds before the first try after one that failed, where the server does not say
_WAIT = 0.5
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


#: a provider that answers so may answer otherwise a moment later
_PASSING = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


class ProviderBatches:
    """
    What the batches of all providers have in common: how they are asked, and how results are read.

    One is made for one phase of a run (hand in, or wait and read) and closed at its end; one thread calls it. A class
    of a provider says how one line of results is read.
    """

    #: the field of a line of results that holds the request's name
    name_field = "custom_id"

    def __init__(self, client: Client, *, model: str, headers: Mapping[str, str], key: Key) -> None:
        self._client = client
        self._model = model
        self._headers = headers
        self._key = key

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def read_result(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined:
        """Read one line of the results; CallError for a request that was not made or not answered."""
        raise NotImplementedError

    def ask(self, path: str, data: bytes | None = None, *, once: bool = False, **headers: str) -> Mapping[str, Any]:
        """
        Ask the provider, and return the object that it answers with.

        What passes is asked again, a few times; what is asked `once` is not: it is paid for.
        """
        _, body = self.send(path, data, once=once, **headers)
        with reading():
            return as_object(parse_json(body.decode("utf-8-sig")))

    def send(
        self, path: str, data: bytes | None, *, once: bool = False, **headers: str
    ) -> tuple[Mapping[str, str], bytes]:
        """Send bytes, where there are any, and return the headers and the body of the answer."""
        import tenacity

        trying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(1 if once else RETRIES + 1),
            retry=tenacity.retry_if_exception(_passes),
            wait=_wait,
            reraise=True,
        )
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with self.explained():
            return trying(self._sent, path, data, once=once, headers=named)

    def _sent(
        self, path: str, data: bytes | None, *, once: bool, headers: Mapping[str, str]
    ) -> tuple[Mapping[str, str], bytes]:
        # a file of requests is large, and whatever else is asked is small
        deadline = Deadline(TIMEOUT if data is None or len(data) < _SMALL else LONG_TIMEOUT)
        with closing(self._open(path, data, deadline=deadline, once=once, headers=headers)) as response:
            return response.headers, response.read()

    def _open(self, path: str, data: bytes | None, *, deadline: Deadline, **options: Any) -> Response:
        headers = {**self._headers, **options.pop("headers", {})}
        method = "GET" if data is None else "POST"
        response = self._client.request(method, path, data, deadline=deadline, headers=headers, **options)
        if response.is_error:
            with closing(response):
                raise refusal(response)
        return response

    def read_results(self, path: str, sent: Sent) -> Iterator[Result]:
        """Read a file of results, in lines of JSON."""
        with self.explained(), closing(self._open(path, None, deadline=Deadline(LONG_TIMEOUT))) as response:
            for line in read_lines(response.iter_bytes(bounded=False)):
                yield str(line.get(self.name_field)), self._settled(line, sent)

    def classify(self, error: ProviderError, sent: Sent) -> Completion | Declined:
        """A provider's word against one request: a failed generation, Declined, or raised as a CallError."""
        outcome = classify_error(error, sent=sent, secret=self._key.value)
        if isinstance(outcome, CallError):
            raise outcome
        return outcome

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Inside, a refusal becomes a CallError: what holds for a whole batch is no schema's fault."""
        try:
            yield
        except (EnclosedError, ValueError) as error:
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
                deadline=Deadline(TIMEOUT),
            )
        except CallError as error:
            return Failed(kind=error.kind, message=error.message, status=error.status)
        return replace(generation, timing=None)

    def _explain(self, error: Exception, sent: Sent) -> Completion | Declined | CallError:
        return explain_error(error, sent, address=self._client.address.url, model=self._model, secret=self._key.value)


def _passes(error: BaseException) -> bool:
    if isinstance(error, EnclosedError):
        return error.status in _PASSING
    return isinstance(error, CallError) and error.kind in (FaultKind.CONNECTION, FaultKind.TIMEOUT)


def _wait(state: tenacity.RetryCallState) -> float:
    """As long as the server says, or twice as long as before."""
    error = state.outcome.exception() if state.outcome else None
    seconds = retry_after(error.headers or {}) if isinstance(error, EnclosedError) else None
    return _WAIT * 2 ** (state.attempt_number - 1) if seconds is None else min(seconds, TIMEOUT)
