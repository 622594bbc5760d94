"""
One call over HTTP: it ends at its deadline, also where the answer keeps dripping, and its body has a bound.

`settle` makes the call within its deadline and reads any error; a client of ours is `timed`, and calls `bound` with
each response before its body is read.
"""

from __future__ import annotations

import json
import time
import weakref
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, Completion, FaultKind
from pytest_jsbench.core.json_values import too_deep
from pytest_jsbench.core.secrets import one_line
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.engines.http.connections import Connections
from pytest_jsbench.engines.http.faults import EnclosedError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping

    import httpcore2
    import httpx2

    from pytest_jsbench.core.generations import Declined, Exchange

#: the longest wait for a connection
CONNECT_SECONDS = 10.0
#: seconds that a server has to end the body after `[DONE]`
_GRACE = 0.5
#: bytes that go out before the time is looked at again
_WRITTEN_AT_ONCE = 16 * 1024
#: bytes; a hundred thousand tokens, each in an event of its own, are less
LONGEST_BODY = 64 * 1024 * 1024
#: how a body may be packed: a piece of it comes to at most a thousand times its size
_ACCEPTED = "gzip, deflate"
_PACKED = frozenset({"", "identity", *_ACCEPTED.split(", ")})
#: levels of a server's JSON; those of an answer that comes as text inside it do not count
DEEPEST = 500

_DECODER = json.JSONDecoder()


class Deadline:
    """
    A number of seconds from now, for a whole call: connecting, TLS, headers and body.

    A client's own timeout is per read: a server that sends a byte every second never meets it. Inside `enforced` each
    step of a connection that `timed` has opened takes no longer than what is left.
    """

    __slots__ = ("_end", "_reads_end", "heard", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        #: bytes that were read inside `enforced` so far
        self.heard = 0
        self._end = self._reads_end = time.perf_counter() + seconds

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
        """Whether it is over."""
        return self.remaining == 0.0

    def to_timeout(self) -> httpx2.Timeout:
        """What is left, as the SDKs take it: a bound for connecting and one for each read."""
        import httpx2

        remaining = self.remaining
        return httpx2.Timeout(remaining, connect=min(CONNECT_SECONDS, remaining))

    def fault(self) -> CallError:
        """The fault of a call that did not end before the deadline."""
        return CallError(FaultKind.TIMEOUT, f"no complete answer within {self.seconds:g} s")

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Inside, this thread's connections of a client that is `timed` end at the deadline."""
        token = _RUNNING.set(self)
        try:
            yield
        finally:
            _RUNNING.reset(token)

    def shorten(self) -> None:
        """The answer is there: its connection has only a moment more for the body's end."""
        self._reads_end = min(self._end, time.perf_counter() + _GRACE)

    def left_of(self, timeout: float | None, late: type[Exception]) -> float:
        """The time that one step may take, of the client's own for it; `late` is raised where none is left."""
        left = self._reads_end - time.perf_counter()
        if left <= 0:
            raise late
        return left if timeout is None else min(left, timeout)


_RUNNING: ContextVar[Deadline | None] = ContextVar("running", default=None)


def timed(client: httpx2.Client) -> httpx2.Client:
    """
    The client, each of whose connections serves one call at a time, and ends each step at the deadline of that call.

    Its public hooks come too late: a connection is known to them when the headers are there. With an httpx2 whose pool
    is none that we know, each step alone is bounded, by the client's own timeout.
    """
    client.headers["accept-encoding"] = _ACCEPTED
    for transport in (getattr(client, "_transport", None), *getattr(client, "_mounts", {}).values()):
        pool: Any = getattr(transport, "_pool", None)
        if hasattr(pool, "_network_backend"):
            pool._network_backend = _TimedNetwork(pool._network_backend)  # noqa: SLF001  see above
            transport._pool = Connections(pool, _heard)  # noqa: SLF001
    return client


def _heard() -> int | None:
    """What this thread's call has heard; None of what runs without a deadline, such as handing in a batch."""
    return None if (deadline := _RUNNING.get()) is None else deadline.heard


class _TimedNetwork:
    """Opens connections as the client's own network does, within the deadline of the call."""

    def __init__(self, network: httpcore2.NetworkBackend) -> None:
        self._network = network

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _TimedStream:
        return _TimedStream(self._network.connect_tcp(host, port, _connecting(timeout), **options))

    def connect_unix_socket(self, path: str, timeout: float | None = None, **options: Any) -> _TimedStream:
        return _TimedStream(self._network.connect_unix_socket(path, _connecting(timeout), **options))

    def sleep(self, seconds: float) -> None:
        self._network.sleep(seconds)


class _TimedStream:
    """One connection, which serves calls one after the other; the thread of a call enters it."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        from httpcore2 import ReadTimeout, WriteTimeout

        self._stream = stream
        self._late_to_read, self._late_to_write = ReadTimeout, WriteTimeout
        self.close = stream.close
        self.get_extra_info = stream.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if (deadline := _RUNNING.get()) is None:
            return self._stream.read(max_bytes, timeout)
        data = self._stream.read(max_bytes, deadline.left_of(timeout, self._late_to_read))
        deadline.heard += len(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        deadline = _RUNNING.get()
        if deadline is None:
            self._stream.write(buffer, timeout)
            return
        for start in range(0, len(buffer), _WRITTEN_AT_ONCE):
            left = deadline.left_of(timeout, self._late_to_write)
            self._stream.write(buffer[start : start + _WRITTEN_AT_ONCE], left)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> _TimedStream:
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, _connecting(timeout)))


def _connecting(timeout: float | None) -> float | None:
    if (deadline := _RUNNING.get()) is None:
        return timeout
    from httpcore2 import ConnectTimeout

    return deadline.left_of(timeout, ConnectTimeout)


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


def through(client: Any, path: str, headers: Mapping[str, str]) -> Callable[..., httpx2.Response]:
    """What makes an application's own call by an SDK's client, with the headers that the engine's options name."""

    def posted(body: object, *, headers_of_call: Mapping[str, str], deadline: Deadline) -> httpx2.Response:
        return post(client, path, body, headers={**headers_of_call, **headers}, deadline=deadline)

    return posted


def answered(outcome: Completion | Declined, exchange: Exchange | None) -> Completion | Declined:
    """The outcome, with what the server has answered where an application asked."""
    return outcome if exchange is None else replace(outcome, server=exchange.answer)


def parse_json(text: str) -> Any:
    """The value that a server sent; RecursionError where it nests deeper than anything that is an answer."""
    if len(text) > DEEPEST and too_deep(text, DEEPEST):
        raise RecursionError
    # a stream has thousands of events, and hardly any has the white space around it that `loads` looks for
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        return json.loads(text)
    return value if end == len(text) else json.loads(text)


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
    sdk_error: type[Exception],
    deadline: Deadline,
) -> Completion | Declined:
    """
    The call's own result, or what `explain` makes of the exception that it raised.

    Of an answer that came as an error only the whole time is known. Whatever breaks once the deadline has passed broke
    because of it.
    """
    # HTTPError: anthropic lets httpx2's own errors through while a stream is read;
    # ValueError, RecursionError: a schema that no JSON encoder takes
    from httpx2 import HTTPError

    try:
        with deadline.enforced():
            return call()
    except CallError as error:
        outcome: Completion | Declined | CallError = error
    except (sdk_error, HTTPError, EnclosedError, ValueError, RecursionError) as error:
        outcome = explain(error)
    if deadline.passed:
        outcome = deadline.fault()
    if isinstance(outcome, CallError):
        # from None: the SDK's own words may quote the key
        raise outcome from None
    return replace(outcome, timing=Timing(tgt=deadline.elapsed)) if isinstance(outcome, Completion) else outcome


def bound(response: httpx2.Response) -> None:
    """A client's hook for responses: an answer that is too long is a fault, an error's words are cut short."""
    # the response itself would be a circle: its body, and that of its request, stayed until cycles are collected
    itself = weakref.ref(response)

    def bounded(chunk_size: int | None = None) -> Iterator[bytes]:
        asked = itself()
        assert asked is not None, "whoever asks has it"
        return _pieces(asked, chunk_size)

    # read() and the event streams both come by here, after decompression
    response.iter_bytes = bounded  # type: ignore[method-assign]


def _pieces(response: httpx2.Response, chunk_size: int | None) -> Iterator[bytes]:
    left = LONGEST_BODY
    if (packed := response.headers.get("content-encoding", "").strip().lower()) not in _PACKED:
        # of one packed twice, or by brotli or zstd, a piece of 64 kB may come to gigabytes
        message = f"the answer is packed as {one_line(packed)}; expected one of: {_ACCEPTED}"
        raise CallError(FaultKind.BAD_RESPONSE, message)
    for piece in type(response).iter_bytes(response, chunk_size):
        left -= len(piece)
        if left < 0 and response.is_error:
            response.close()
            return
        if left < 0:
            message = f"the answer is longer than {LONGEST_BODY:,} bytes"
            raise CallError(FaultKind.BAD_RESPONSE, message)
        yield piece
