"""
The client that calls a server through a provider's official SDK, as an application does.

The SDK builds the request, sends it with its own HTTP library, and converts each event, or the whole answer, to its
types; this module reads the fields of the resulting objects. `SdkClient` adds features that a run needs and SDKs lack:
a deadline for the whole call, a maximum body size, rejection of redirects to other servers, and closing calls in
flight. To close a call, its socket must be known, and httpx reports a socket only when it is connected. Therefore, each
client of the SDK makes one call at a time over one connection, which the next call reuses.
"""

from __future__ import annotations

import importlib
import inspect
import threading
from contextlib import contextmanager, suppress
from json import JSONDecodeError
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.engines.http.answers import content_type, fault_of_body, is_json_body
from pytest_jsbench.engines.http.calls import LONGEST_BODY, EnclosedError, check_body, convert_parsing_errors, refusal
from pytest_jsbench.engines.http.client import (
    CONNECT_SECONDS,
    MAX_REDIRECTS,
    basic,
    lower_names,
    redirect_fault,
    require_origin,
    require_sendable,
)
from pytest_jsbench.engines.http.faults import all_causes, connection_fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from pytest_jsbench.engines.base import Address
    from pytest_jsbench.engines.engine_options import Sdk
    from pytest_jsbench.engines.http.calls import Deadline

#: The only accepted content encoding, because the SDKs decompress without a limit.
_ENCODING = "identity"
#: Parameters of the SDKs' methods that are not fields of the body.
_NOT_OF_THE_BODY = frozenset({"extra_body", "extra_headers", "extra_query", "timeout"})
#: Content type of a stream.
_EVENTS = "text/event-stream"


class SdkEvents:
    """The events that the SDK delivers for one streamed call, as JSON values; the events can be read only once."""

    __slots__ = ("_connection", "_events", "_faults")

    def __init__(self, events: Any, connection: _SdkConnection, client: SdkClient) -> None:
        self._events = events
        self._connection = connection
        self._faults = client.faults

    @property
    def pieces(self) -> int:
        """Number of pieces of the body that have been read."""
        return self._connection.pieces

    @property
    def first_content_at(self) -> None:
        """Not measured, since the SDK reads from the socket."""

    def mark_first_content(self) -> None:
        """Do nothing, since the arrival is not measured."""

    def __iter__(self) -> Iterator[Any]:
        """Yield each event's fields; raise EnclosedError for an error in the stream."""
        response = self._connection.response
        is_json_body(response)
        nothing = True
        with self._faults(self._connection):
            for event in self._events:
                nothing = False
                yield _fields(event)
        kind = content_type(response.headers)
        if nothing and kind != _EVENTS:
            message = (
                f"the SDK found no event in an answer of content type {one_line(kind) or 'unknown'}; if the server "
                "does not stream, set --jsbench-engine-option stream=false"
            )
            raise CallError(FaultKind.BAD_RESPONSE, message)


def _fields(value: Any) -> Any:
    """Convert an SDK object, or a list of objects, to JSON values; other values from the SDK are returned unchanged."""
    if isinstance(value, list):
        return [_fields(each) for each in value]
    return value.to_dict(mode="json", warnings=False) if hasattr(value, "to_dict") else value


class SdkClient:
    """
    A client that calls one server through an SDK; several threads share it.

    An engine creates the client when the engine is built, and closes the client at the end. The client's two
    collections need no lock, because each operation on them is atomic.
    """

    def __init__(self, sdk: Sdk, address: Address, *, key: str, query: Mapping[str, str]) -> None:
        self.address = address
        self._sdk = sdk
        self._module: Any = importlib.import_module(sdk.package)
        self._http = _http_library(self._module)
        # httpx accepts a stream only if its type inherits from the library's own stream type.
        self._stream_type: Any = type("_SdkBody", (_Body, self._http.SyncByteStream), {})
        self._key = key
        self._query = query
        self._tls = self._http.create_ssl_context()
        #: Headers of each call; without a key, an SDK raises an error unless the header is omitted explicitly.
        self._headers: dict[str, Any] = {"accept-encoding": _ENCODING}
        if address.userinfo is not None:
            self._headers["authorization"] = basic(*address.userinfo)
        elif not key:
            self._headers["authorization"] = self._module.Omit()
        self._idle: list[_SdkConnection] = []
        self._in_use: set[_SdkConnection] = set()
        self._closed = False
        # The first connection's methods are looked up now, because an SDK imports its types when they are first used,
        # and threads that do this at the same time may find them half imported.
        first = self._connect()
        self._parameters = inspect.signature(first.create).parameters.keys() - _NOT_OF_THE_BODY
        # A header replaces one of the SDK's headers only if the case of the names is the same.
        self._spelling = {name.lower(): name for name in ("Authorization", *first.headers)}
        self._idle.append(first)

    @contextmanager
    def create(
        self, body: Mapping[str, Any], *, headers: Mapping[str, str], deadline: Deadline
    ) -> Iterator[SdkEvents | dict[str, Any]]:
        """
        Send a request, and yield the events that the SDK delivers, or the whole answer.

        Fields without a parameter of the SDK's method are sent as its `extra_body`. Raise EnclosedError for an error
        response, CallError for a failed connection, ValueError for a request that cannot be sent.
        """
        require_sendable(headers)
        parameters = {name: value for name, value in body.items() if name in self._parameters}
        others = {name: value for name, value in body.items() if name not in parameters}
        connection = self._take(streaming=bool(body.get("stream")))
        timer = threading.Timer(deadline.remaining, connection.end)
        timer.daemon = True
        timer.start()
        try:
            if self._closed:
                raise CallError(FaultKind.CONNECTION, f"{self.address.url}: the client is closed")
            with self.faults(connection):
                answer = connection.create(
                    **parameters,
                    extra_body=others or None,
                    extra_headers={
                        self._spelling.get(name, name): value
                        for name, value in (self._headers | lower_names(headers)).items()
                    },
                    timeout=self._module.Timeout(deadline.remaining, connect=min(CONNECT_SECONDS, deadline.remaining)),
                )
            yield SdkEvents(answer, connection, self) if connection.streaming else self._object(answer, connection)
        finally:
            timer.cancel()
            self._give_back(connection)

    @contextmanager
    def faults(self, connection: _SdkConnection) -> Iterator[None]:
        """Convert the exceptions of the SDK and its HTTP library to EnclosedError and CallError."""
        try:
            yield
        except (self._module.APIError, self._http.HTTPError, self._http.StreamError) as error:
            raise self._fault(error, connection) from None
        except (ValueError, RecursionError) as error:
            if connection.response is None:  # the request cannot be sent, and the message may quote its header
                raise ValueError(type(error).__name__) from None
            if isinstance(error, JSONDecodeError) and not connection.streaming:
                fault = fault_of_body(connection.response.text, content_type(connection.response.headers))
                if fault is not None:
                    raise fault from None
            with convert_parsing_errors():
                raise

    def close(self) -> None:
        """Close all connections, which ends calls in flight."""
        self._closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop().close()
        for connection in tuple(self._in_use):
            connection.end()

    def _fault(self, error: Exception, connection: _SdkConnection) -> Exception:
        own = next((cause for cause in all_causes(error) if isinstance(cause, CallError)), None)
        if own is not None:  # raised by one of the hooks below; some versions of the SDK wrap every exception
            return own
        status = getattr(error, "status_code", None)
        if status is not None and status >= 300:
            response: Any = error.response  # type: ignore[attr-defined]
            return refusal(status, response.headers, response.content)
        if isinstance(error, self._http.HTTPError | self._module.APIConnectionError):
            begun = connection.response is not None
            return connection_fault(error, address=self.address.url, secret=self._key, begun=begun)
        if isinstance(error, self._module.APIError):
            # `body` is the whole event in Anthropic's SDK, but only the event's `error` in OpenAI's SDK.
            body = getattr(error, "body", None) or str(error)
            return EnclosedError(body if isinstance(body, dict) and "error" in body else {"error": body})
        return CallError(FaultKind.BAD_RESPONSE, one_line(f"{type(error).__name__}: {error}", secret=self._key))

    def _object(self, answer: Any, connection: _SdkConnection) -> dict[str, Any]:
        """Return an answer that was not streamed; the SDK returns a string for a body that is not JSON."""
        kind = content_type(connection.response.headers)
        if isinstance(answer, str) and not kind.endswith("json"):
            is_json_body(connection.response)
            with convert_parsing_errors():
                raise fault_of_body(answer, kind) or JSONDecodeError("Expecting value", answer, 0)
        return check_body(_fields(answer))

    def _take(self, *, streaming: bool) -> _SdkConnection:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        connection.begin(streaming=streaming)
        self._in_use.add(connection)
        return connection

    def _give_back(self, connection: _SdkConnection) -> None:
        self._in_use.discard(connection)
        if connection.response is not None:
            connection.response.close()
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)

    def _connect(self) -> _SdkConnection:
        return _SdkConnection(self.address, self._stream_type, self._new_client, self._sdk.resource)

    def _new_client(self, hooks: Mapping[str, Any]) -> Any:
        http_client = self._module.DefaultHttpxClient(verify=self._tls, event_hooks=hooks)
        return getattr(self._module, self._sdk.client)(
            base_url=self.address.url,
            api_key=self._key or "none",
            default_query=dict(self._query),
            max_retries=0,
            http_client=http_client,
        )


def _http_library(sdk: Any) -> Any:
    """Return the HTTP library that the SDK uses: httpx, or httpx2."""
    client = next(each for each in sdk.DefaultHttpxClient.__mro__ if each.__name__ == "Client")
    library: ModuleType = importlib.import_module(client.__module__.partition(".")[0])
    return library


class _SdkConnection:
    """One client of the SDK, used by one call at a time, and the state of this call."""

    def __init__(self, address: Address, stream_type: Any, new_client: Any, resource: str) -> None:
        self._address = address
        self._stream_type = stream_type
        self._socket: Any = None
        self.begin(streaming=False)
        self._client = new_client({"request": [self._check_request], "response": [self._check_response]})
        #: The SDK's own headers of each call.
        self.headers: Mapping[str, Any] = self._client.default_headers
        method = self._client
        for name in resource.split("."):
            method = getattr(method, name)
        self.create: Any = method.create

    def begin(self, *, streaming: bool) -> None:
        """Reset the state for the next call."""
        self.streaming = streaming
        #: The response, once its headers have arrived.
        self.response: Any = None
        #: Number of pieces of the body that have been read.
        self.pieces = 0
        self._size = 0
        self._requests = 0
        self._ended = False

    def end(self) -> None:
        """End the call by closing its socket; another thread may be reading from it."""
        self._ended = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def count(self, piece: bytes) -> bool:
        """Count a piece of the body; return False if an error response is too long, raise CallError if an answer is."""
        self.pieces += 1
        self._size += len(piece)
        if self._size <= LONGEST_BODY:
            return True
        if self.response.status_code >= 400:  # the body of an error response is truncated instead
            return False
        raise CallError(FaultKind.BAD_RESPONSE, f"the answer is longer than {LONGEST_BODY:,} bytes")

    def _check_request(self, request: Any) -> None:
        require_origin(str(request.url), self._address)
        self._requests += 1
        if request.method != "POST" or self._requests > MAX_REDIRECTS + 1:
            raise redirect_fault(self._address, self.response.status_code, str(request.url))
        request.extensions["trace"] = self._trace

    def _trace(self, event: str, facts: Mapping[str, Any]) -> None:
        """Store the socket when the connection has been opened, and again when it has been encrypted."""
        stream: Any = facts.get("return_value")
        if event.endswith(".complete") and hasattr(stream, "get_extra_info"):
            self._socket = stream.get_extra_info("socket")
            if self._ended:
                self.end()

    def _check_response(self, response: Any) -> None:
        self.response = response
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", _ENCODING):
            message = f"unsupported content encoding {one_line(encoding)}; expected one of: {_ENCODING}"
            raise CallError(FaultKind.BAD_RESPONSE, message)
        response.stream = self._stream_type(response.stream, self)


class _Body:
    """A response's body, as a stream that counts its pieces and limits its size."""

    def __init__(self, pieces: Any, connection: _SdkConnection) -> None:
        self._pieces = pieces
        self._connection = connection

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if not self._connection.count(piece):
                return
            yield piece

    def close(self) -> None:
        self._pieces.close()
