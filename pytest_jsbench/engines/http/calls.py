"""
One call over HTTP: it ends at its deadline, also where the answer keeps dripping, and its body has a bound.

`settle` makes the call within its deadline and reads any error; `response_hooks` are what a client of ours calls with
each response before its body is read.
"""

from __future__ import annotations

import heapq
import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.core.secrets import one_line
from pytest_jsbench.engines.http.faults import EnclosedError
from pytest_jsbench.verdicts.json_text import too_deep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import httpx2

    from pytest_jsbench.core.generations import Completion, Declined

#: the longest wait for a connection
_CONNECT_SECONDS = 10.0
#: seconds that a server has to end the body after `[DONE]`
_GRACE = 0.5
#: bytes; a hundred thousand tokens, each in an event of its own, are less
LONGEST_BODY = 64 * 1024 * 1024
#: levels of a server's JSON; those of an answer that comes as text inside it do not count
DEEPEST = 500


class Deadline:
    """
    A number of seconds from now.

    A client's own timeout is per read: a server that sends an SSE comment every second never meets it.
    """

    __slots__ = ("_cuts", "_end", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.perf_counter() + seconds
        self._cuts: list[tuple[Scissors, Cut]] = []

    @property
    def remaining(self) -> float:
        """Seconds until it; never negative."""
        return max(0.0, self._end - time.perf_counter())

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self.remaining == 0.0

    def to_timeout(self) -> httpx2.Timeout:
        """What is left, as the SDKs take it: a bound for connecting and one for each read."""
        import httpx2

        remaining = self.remaining
        return httpx2.Timeout(remaining, connect=min(_CONNECT_SECONDS, remaining))

    def fault(self) -> CallError:
        """The fault of a call that did not end before the deadline."""
        return CallError(FaultKind.TIMEOUT, f"no complete answer within {self.seconds:g} s")

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """In the block, each response of a client with the hook `Scissors.cut_at_deadline` ends at the deadline."""
        token = _RUNNING.set(self)
        try:
            yield
        finally:
            _RUNNING.reset(token)
            for scissors, cut in self._cuts:
                scissors.forget(cut)

    def hand_to(self, scissors: Scissors, response: httpx2.Response) -> None:
        """At the deadline the connection is shut, and whoever reads it fails."""
        self._cuts.append((scissors, scissors.cut(response, after=self.remaining)))

    def shorten(self) -> None:
        """Leave the connection only a moment more: the answer is complete, and only the body's end is missing."""
        for scissors, cut in self._cuts[:]:
            if cut.response is not None:
                self._cuts.append((scissors, scissors.cut(cut.response, after=min(_GRACE, self.remaining))))


_RUNNING: ContextVar[Deadline | None] = ContextVar("running", default=None)


@dataclass(slots=True, kw_only=True, order=True)
class Cut:
    """The time at which a connection will be shut, by time.perf_counter."""

    at: float
    number: int
    #: None: it will not be shut
    response: httpx2.Response | None = field(compare=False)


class Scissors:
    """
    Shuts the connections of one client at the deadlines of their calls.

    Each engine that calls over HTTP has one, made with its client. The threads of the calls enter `cut` when a response
    begins and `forget` when the call has ended. One thread shuts what is late; it starts with the first call and ends
    when no call is left, so that there is nothing to close.
    """

    def __init__(self) -> None:
        self._cuts: list[Cut] = []
        self._count = 0
        self._changed = threading.Condition()
        self._working = False

    def cut_at_deadline(self, response: httpx2.Response) -> None:
        """A client's hook for responses, called before the body is read, also by the SDK that reads an error's."""
        if (deadline := _RUNNING.get()) is not None:
            deadline.hand_to(self, response)

    def cut(self, response: httpx2.Response, *, after: float) -> Cut:
        """Shut its connection after so many seconds."""
        with self._changed:
            self._count += 1
            cut = Cut(at=time.perf_counter() + after, number=self._count, response=response)
            heapq.heappush(self._cuts, cut)
            if not self._working:
                threading.Thread(target=self._work, name="jsbench-deadlines", daemon=True).start()
                self._working = True
            elif self._cuts[0] is cut:
                self._changed.notify()
        return cut

    def forget(self, cut: Cut) -> None:
        """Keep the connection open; it is not shut after this has returned."""
        with self._changed:
            cut.response = None

    def _work(self) -> None:
        """Shut each connection at its time; end when no call is left."""
        with self._changed:
            while self._cuts:
                first = self._cuts[0]
                left = first.at - time.perf_counter()
                if left > 0 and first.response is not None:
                    self._changed.wait(left)
                    continue
                heapq.heappop(self._cuts)
                if first.response is not None:
                    _shut(first.response)
            self._working = False


def _shut(response: httpx2.Response) -> None:
    """Shut the connection under whoever reads the body."""
    stream = response.extensions.get("network_stream")
    connection = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            # not SSLSocket.shutdown, which takes the TLS state away under the thread that reads
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


def post(client: Any, path: str, body: object, *, headers: Mapping[str, str], deadline: Deadline) -> httpx2.Response:
    """
    The response to a request that an SDK's client makes, its body unread; whoever calls closes it.

    The client adds the key and raises its own exceptions. The raw response is what the SDKs offer for paths and fields
    that they do not know; the body reaches the server as it is given.
    """
    import httpx2

    options = {"headers": dict(headers), "timeout": deadline.to_timeout()}
    response: httpx2.Response = client.post(path, body=body, cast_to=httpx2.Response, options=options, stream=True)
    return response


def parse_json(text: str) -> Any:
    """The value that a server sent; RecursionError where it nests deeper than anything that is an answer."""
    if too_deep(text, DEEPEST):
        raise RecursionError
    return json.loads(text)


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


def response_hooks() -> list[Callable[..., Any]]:
    """What a client of ours calls with each response, before its body is read."""
    return [Scissors().cut_at_deadline, _bound]


def _bound(response: httpx2.Response) -> None:
    """An answer that is too long is a fault, an error's words are cut short."""
    read = response.iter_bytes

    def bounded(chunk_size: int | None = None) -> Iterator[bytes]:
        left = LONGEST_BODY
        for piece in read(chunk_size):
            left -= len(piece)
            if left < 0 and response.is_error:
                response.close()
                return
            if left < 0:
                message = f"the answer is longer than {LONGEST_BODY:,} bytes"
                raise CallError(FaultKind.BAD_RESPONSE, message)
            yield piece

    # read() and the event streams both come by here, after decompression
    response.iter_bytes = bounded  # type: ignore[method-assign]
