"""The connections of a client, each of which serves one call at a time."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from httpcore2 import ConnectionInterface, ConnectionPool, Origin, Request, Response

#: seconds; a server that closes a kept connection later than this after a request has worked on it
_AT_ONCE = 0.5


class Connections:
    """
    Stands in the place of a client's pool, which looks at each of its connections at the start and end of every call.

    `calls.timed` makes it around that pool, which opens connections as before, through a proxy too, and keeps none. The
    threads of calls enter it: each takes the connection that was given back last, or a new one, and gives it back with
    the response's end. The client's end closes them all. There is no lock, since each step is one of a list or a set.
    """

    def __init__(self, pool: ConnectionPool, heard: Callable[[], int | None]) -> None:
        self._pool = pool
        #: bytes that servers have said to this thread's call so far; None where what is sent may go out once only
        self._heard = heard
        self._closed = False
        self._idle: list[ConnectionInterface] = []
        self._lent: set[ConnectionInterface] = set()

    def handle_request(self, request: Request) -> Response:
        """
        Send a request, and give the response, its body unread.

        A kept connection that its server closes just then is no answer: a call goes out once more over a new one.
        """
        from httpcore2 import ReadError, RemoteProtocolError

        kept = self._take(request.url.origin)
        if kept is not None:
            begun, heard = time.perf_counter(), self._heard()
            try:
                return self._ask(kept, request)
            except (ReadError, RemoteProtocolError):
                late = time.perf_counter() - begun > _AT_ONCE
                if heard is None or heard != self._heard() or late or self._closed:
                    raise
        return self._ask(self._pool.create_connection(request.url.origin), request)

    def _ask(self, connection: ConnectionInterface, request: Request) -> Response:
        self._lent.add(connection)
        try:
            response = connection.handle_request(request)
        except BaseException:
            self._give_back(connection)
            raise
        response.stream = _Body(response.stream, partial(self._give_back, connection))
        return response

    def _take(self, origin: Origin) -> ConnectionInterface | None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took it
                break
            if connection.can_handle_request(origin) and connection.is_available() and not connection.has_expired():
                return connection
            connection.close()
        return None

    def _give_back(self, connection: ConnectionInterface) -> None:
        self._lent.discard(connection)
        if connection.is_available() and not _holds_more(connection) and not self._closed:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close all, those that serve a call too."""
        self._closed = True
        for connection in (*self._idle, *self._lent):
            connection.close()
        self._idle.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _holds_more(connection: Any) -> bool:
    """Whether its server sent more than the response: the next call would take that for its own."""
    while (inner := getattr(connection, "_connection", None)) is not None:  # of one through a proxy, too
        connection = inner
    return any(getattr(getattr(connection, "_h11_state", None), "trailing_data", ()))


class _Body:
    """The body of one response: whoever reads it, or lets it be, closes it once."""

    def __init__(self, stream: Any, end: Callable[[], None]) -> None:
        #: the connection's own
        self._stream = stream
        self._end: Callable[[], None] | None = end

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            try:
                self._stream.close()
            finally:
                end()
