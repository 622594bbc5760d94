"""
The HTTP client of all engines: it calls one server, with a deadline for the whole call and a maximum body size.

The client uses urllib3's connections without urllib3's pool. The pool's timeout is per read, so a server that sends a
byte every second would never exceed it. The pool also hides whether a connection was reused, which decides whether a
request may be sent again.
"""

from __future__ import annotations

import base64
import http.client
import os
import re
import ssl
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from socket import SHUT_RDWR
from string import punctuation
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3.connection import HTTPConnection, HTTPSConnection, ProxyConfig
from urllib3.exceptions import HTTPError
from urllib3.util import Url, parse_url

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.version import __version__
from pytest_jsbench.engines.base import origin, without_credentials
from pytest_jsbench.engines.http.calls import LONGEST_BODY, refusal, to_json
from pytest_jsbench.engines.http.faults import connection_fault
from pytest_jsbench.engines.http.timed_socket import CHUNK_SIZE, TimedSocket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from urllib3 import BaseHTTPResponse

    from pytest_jsbench.engines.base import Address
    from pytest_jsbench.engines.http.calls import Deadline

#: Maximum time to connect to each address of a server, in seconds; only the system limits DNS look-ups.
CONNECT_SECONDS = 10.0
#: Accepted content encodings.
_ACCEPT_ENCODING = "gzip, deflate"
_PLAIN = frozenset({"", "identity"})
_ENCODINGS = _PLAIN.union(_ACCEPT_ENCODING.split(", "))
MAX_REDIRECTS = 3
#: Maximum number of interim responses (status 1xx) before a response.
_MAX_INTERIM = 20
#: An address in NO_PROXY, with an optional prefix length, and with an optional port after an IPv4 or bracketed IPv6
#: address.
_NO_PROXY_ENTRY = re.compile(
    r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<plain>[0-9.]+(?=[:/]|$)|[0-9a-fA-F:.]+))(?P<prefix>/\d{1,3})?(?::(?P<port>\d{1,5}))?"
)
_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_CONNECTION_ERRORS = (HTTPError, http.client.HTTPException, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long a client waits for the ends of connections and bodies, in seconds."""

    #: Time to keep an idle connection. llama.cpp, uvicorn and Node close idle connections after 5 s, and a request sent
    #: at that moment could be lost.
    idle: float = 2.0
    #: If a server closes a reused connection within this time after a request, the request is sent again: the server
    #: has not processed it.
    close: float = 0.5
    #: Time for a server to end the body after the last event.
    grace: float = 0.5


_WAITS = Waits()


class _FinalResponse(http.client.HTTPResponse):
    """A response after all interim responses (RFC 9110, section 15.2); http.client itself skips only status 100."""

    def begin(self) -> None:
        super().begin()
        for _ in range(_MAX_INTERIM):
            # 101 is final: the server has switched to another protocol
            if self.status >= 200 or self.status == http.client.SWITCHING_PROTOCOLS:
                return
            self.headers = self.msg = None  # type: ignore[assignment]  # begin reads another head if it has none
            super().begin()
        raise http.client.HTTPException(f"the server sent more than {_MAX_INTERIM} interim responses")


class _Connection(HTTPConnection):
    sock: Any
    #: The latest response; to read its body through urllib3 would take longer than to receive it.
    latest: _FinalResponse
    #: Query of the next request, set separately because urllib3 logs the path if a server's headers are invalid.
    query = ""
    #: Parts of a request that is not sent yet; None between requests.
    _parts: list[bytes] | None = None

    def connect(self) -> None:
        super().connect()
        self.sock = TimedSocket(self.sock)

    def request(self, *args: Any, **options: Any) -> None:
        """
        Send a request, with its head and body at once, which wakes the server once and not twice; a large body is sent
        separately, since joining would copy it.
        """
        parts: list[bytes] = []
        self._parts = parts
        try:
            super().request(*args, **options)
        finally:
            self._parts = None
        for data in [b"".join(parts)] if sum(map(len, parts)) <= CHUNK_SIZE else parts:
            self.send(data)

    def send(self, data: Any) -> None:
        """Send data, or keep a part of a request until the request is complete."""
        if self._parts is None:
            super().send(data)
        else:
            self._parts.append(data)

    def putrequest(self, method: str, url: str, *args: Any, **options: Any) -> None:
        super().putrequest(method, url + self.query, *args, **options)

    def response_class(self, *args: Any, **options: Any) -> _FinalResponse:  # type: ignore[override]
        self.latest = _FinalResponse(*args, **options)
        return self.latest


class _TLSConnection(_Connection, HTTPSConnection):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """An outgoing request, as passed to the function that signs it."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)


class Response:
    """
    A server's response, whose body is read once, by the thread that sent the request.

    If the body is read to its end, the connection is reused for the next call; if the response is closed earlier, the
    connection is closed too.
    """

    def __init__(self, raw: BaseHTTPResponse, connection: _Connection, sock: TimedSocket, client: Client) -> None:
        self.status = raw.status
        #: Headers; names are case-insensitive.
        self.headers: Mapping[str, str] = raw.headers
        self.read_times = sock.read_times
        self._raw = raw
        self._plain = connection.latest
        self._sock = sock
        self._connection: _Connection | None = connection
        self._client = client

    def raise_for_status(self) -> Response:
        """Return the response; if it is an error response, raise EnclosedError with its body."""
        if self.status >= 400:
            with closing(self):
                raise refusal(self.status, self.headers, self.read())
        return self

    def iter_bytes(self, *, bounded: bool = True) -> Iterator[bytes]:
        """Yield the decompressed body as it arrives; raise CallError if it is too long or the connection fails."""
        encoding = self.headers.get("content-encoding", "").strip().lower()
        if encoding not in _ENCODINGS:
            # A few bytes may decompress to gigabytes if they are compressed twice, or with brotli or zstd.
            self.close()
            message = f"unsupported content encoding {one_line(encoding)}; expected one of: {_ACCEPT_ENCODING}"
            raise CallError(FaultKind.BAD_RESPONSE, message)
        read = self._read_plain if encoding in _PLAIN else self._raw.read1
        count = 0
        while piece := self._read(read):
            count += len(piece)
            if bounded and count > LONGEST_BODY:
                self.close()
                if self.status >= 400:  # the body of an error response is truncated instead
                    return
                raise CallError(FaultKind.BAD_RESPONSE, f"the answer is longer than {LONGEST_BODY:,} bytes")
            yield piece
        self._end(whole=True)

    def read(self) -> bytes:
        """Read the rest of the body."""
        return b"".join(self.iter_bytes())

    def shorten(self) -> None:
        """Allow only a moment for the end of the body, because the answer is already complete."""
        self._sock.shorten(self._client.waits.grace)

    def close(self) -> None:
        """Close the response, and its connection unless the body was read to its end."""
        self._end(whole=False)

    def _end(self, *, whole: bool) -> None:
        self._raw.close()
        connection = self._connection
        self._connection = None
        if connection is not None:
            self._client.give_back(connection, self._sock, whole=whole)

    def _read_plain(self, most: int) -> bytes:
        """Return the next piece of a body that is not compressed; raise IncompleteRead if the body is truncated."""
        piece = self._plain.read1(most)
        if not piece and self._plain.length:
            raise http.client.IncompleteRead(b"", self._plain.length)
        return piece

    def _read(self, read: Callable[[int], bytes]) -> bytes:
        try:
            return read(CHUNK_SIZE)
        except _CONNECTION_ERRORS as error:
            self.close()
            raise self._client.fault(error, begun=True) from None


class Client:
    """
    A client that calls one server, and no other, over reusable connections.

    An engine creates its client when the engine is built, and closes the client at the end; several threads share the
    client. Its two collections need no lock, because each operation on them is atomic.
    """

    def __init__(
        self,
        address: Address,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        authorise: Callable[[Outgoing], Mapping[str, str]] | None = None,
        proxies: bool = True,
        secret: str | None = None,
        waits: Waits = _WAITS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.address = address
        self.waits = waits
        self._clock = clock
        parts = urlsplit(address.url)
        self._tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._tls else 80)
        self._query = query or {}
        self._authorise = authorise
        self._secret = secret
        self._proxy = _proxy_of(parts.scheme, self._host, parts.netloc) if proxies else None
        self._headers = {
            "host": parts.netloc,
            "accept": "application/json",
            "accept-encoding": _ACCEPT_ENCODING,
            "user-agent": f"pytest-jsbench/{__version__}",
            **lower_names(headers or {}),
        }
        if address.userinfo is not None:
            self._headers["authorization"] = basic(*address.userinfo)
        if self._proxy is not None and not self._tls:
            self._headers |= _proxy_headers(self._proxy)
        tls_to_proxy = self._proxy is not None and self._proxy.scheme == "https"
        self._context = _tls_context() if self._tls or tls_to_proxy else None
        self._idle: list[tuple[_Connection, float]] = []
        self._in_use: set[TimedSocket] = set()
        self._closed = False

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        deadline: Deadline,
        headers: Mapping[str, str] | None = None,
        once: bool = False,
    ) -> Response:
        """
        Send a request, and return the response with any status and an unread body; the caller closes the response.

        The path is below the server's address, or a whole URL on the same server. With `once`, the request is not sent
        again if the server closes a reused connection. Raise CallError for a failed connection and for a redirect to
        another server, ValueError for a header that cannot be sent.
        """
        url = path if "://" in path else self.address.url.rstrip("/") + path
        if self._query:
            url += f"{'&' if '?' in url else '?'}{urlencode(self._query)}"
        for _ in range(MAX_REDIRECTS + 1):
            require_origin(url, self.address)
            url = quote(url.partition("#")[0], safe=punctuation)  # escape spaces and the like
            sent = {**self._headers, **lower_names(headers or {})}
            if body is not None:
                sent.setdefault("content-type", "application/json")
            outgoing = Outgoing(method=method, url=url, headers=sent, body=body)
            if self._authorise is not None:
                sent |= lower_names(self._authorise(outgoing))
            require_sendable(sent)
            response = self._send(outgoing, deadline, once=once)
            location = response.headers.get("location") or ""
            if not 300 <= response.status < 400 or not location:
                return response
            response.close()
            try:
                url = urljoin(url, location)
                require_origin(url, self.address)
            except ValueError:  # an invalid URL
                url = location
                break
            if response.status < 307 and method != "GET":  # these redirects would turn a POST into a GET
                break
        raise redirect_fault(self.address, response.status, url)

    def post(
        self, path: str, body: object, *, deadline: Deadline, headers: Mapping[str, str] | None = None
    ) -> Response:
        """
        Post a body as JSON and return the response with its body unread; raise EnclosedError for an
        error response.
        """
        return self.request("POST", path, to_json(body), headers=headers, deadline=deadline).raise_for_status()

    def give_back(self, connection: _Connection, sock: TimedSocket, *, whole: bool) -> None:
        """Keep a connection for the next call if its response, and nothing else, was read; otherwise close it."""
        self._in_use.discard(sock)
        # the socket is None if the server closes the connection
        if whole and connection.sock is sock and not sock.pending():
            self._idle.append((connection, self._clock()))
            if self._closed:
                self.close()
        else:
            connection.close()

    def fault(self, error: Exception, *, begun: bool = False) -> CallError:
        """Return the error for a failed connection."""
        through = f" through the proxy {self._proxy._replace(auth=None)}" if self._proxy else ""
        return connection_fault(error, address=self.address.url + through, secret=self._secret, begun=begun)

    def close(self) -> None:
        """Close all connections, which ends calls in flight."""
        self._closed = True
        while (connection := self._take_idle()) is not None:
            connection.close()
        for sock in tuple(self._in_use):
            with suppress(OSError):
                sock.shutdown(SHUT_RDWR)  # another thread may be reading, and would not notice a close

    def _send(self, outgoing: Outgoing, deadline: Deadline, *, once: bool) -> Response:
        reused = self._take_idle()
        if reused is not None:
            sock: TimedSocket = reused.sock
            start = self._clock()
            received = sock.received
            try:
                return self._exchange(reused, outgoing, deadline)
            except _CONNECTION_ERRORS as error:
                late = isinstance(error, TimeoutError) or self._clock() - start > self.waits.close
                if once or late or self._closed or sock.received != received:
                    raise self.fault(error) from None
        try:
            return self._exchange(self._connect(deadline), outgoing, deadline)
        except _CONNECTION_ERRORS as error:
            raise self.fault(error) from None

    def _exchange(self, connection: _Connection, outgoing: Outgoing, deadline: Deadline) -> Response:
        sock: TimedSocket = connection.sock
        self._in_use.add(sock)
        path, mark, query = outgoing.url.partition("?")
        if not connection.proxy_is_forwarding:
            path = "/" + path.split("://", 1)[1].partition("/")[2]
        connection.query = mark + query
        try:
            if self._closed:  # closed while connecting
                raise ConnectionAbortedError("the client is closed")
            connection.timeout = deadline.remaining
            # a server that stops reading the body may still send a response
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(outgoing.method, path, outgoing.body, outgoing.headers, preload_content=False)
            connection.timeout = deadline.remaining
            raw = connection.getresponse()
            if raw.status < 200:
                raise http.client.HTTPException(f"the server sent only an interim response (status {raw.status})")
        except BaseException:
            self.give_back(connection, sock, whole=False)
            raise
        return Response(raw, connection, sock, self)

    def _take_idle(self) -> _Connection | None:
        with suppress(IndexError):  # another thread may have taken the last connection
            while True:
                connection, since = self._idle.pop()
                # A readable idle socket means that the connection was closed, or that an unexpected response arrived.
                if self._clock() - since < self.waits.idle and connection.is_connected:
                    return connection
                connection.close()
        return None

    def _connect(self, deadline: Deadline) -> _Connection:
        timeout = min(CONNECT_SECONDS, deadline.remaining)
        if timeout <= 0:
            raise TimeoutError("timed out")
        proxy = self._proxy
        if proxy is None:
            host, port, tls = self._host, self._port, self._tls
        else:
            tls = self._tls or proxy.scheme == "https"
            host = proxy.host or ""
            port = proxy.port or (443 if proxy.scheme == "https" else 8080)
        config = proxy and ProxyConfig(self._context, False, None, None)
        options: dict[str, Any] = {"timeout": timeout, "proxy": proxy, "proxy_config": config}
        if tls:
            options["ssl_context"] = self._context
        connection = (_TLSConnection if tls else _Connection)(host, port, **options)
        if proxy is not None and self._tls:
            connection.set_tunnel(self._host, self._port, _proxy_headers(proxy), scheme=proxy.scheme or "http")
        connection.connect()
        return connection


def require_origin(url: str, address: Address) -> None:
    """Raise CallError if the URL is not on the server at this address."""
    if origin(url) == origin(address.url):
        return
    scheme, host, port = origin(url)
    target = printable(without_credentials(f"{scheme}://{host}:{port}"), 120)
    message = (
        f"the server at {address.url} refers to another server, {target}; nothing was sent there; if this "
        "address is correct, set it with --jsbench-base-url"
    )
    raise CallError(FaultKind.BAD_REQUEST, message)


def redirect_fault(address: Address, status: int, url: str) -> CallError:
    """Return the error for a redirect that is not followed."""
    target = printable(without_credentials(url), 120)
    message = (
        f"{address.url} answered with status {status}, a redirect to {target}: "
        "set the correct address with --jsbench-base-url"
    )
    return CallError(FaultKind.BAD_REQUEST, message)


def require_sendable(headers: Mapping[str, str]) -> None:
    """Raise ValueError for a header that cannot be sent; the HTTP libraries' messages would quote the value."""
    for name, value in headers.items():
        if not _SENDABLE.fullmatch(value):
            raise ValueError(f"the header {name} contains a character that is not allowed in headers")


def lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with names in lower case."""
    return {name.lower(): value for name, value in headers.items()}


def basic(user: str, password: str) -> str:
    """Return the value of the header for Basic authentication."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _proxy_of(scheme: str, host: str, host_and_port: str) -> Url | None:
    """Return the proxy for the server from the environment variables; None if no proxy is used."""
    proxies = getproxies()
    address = proxies.get(scheme) or proxies.get("all")
    if not address or proxy_bypass(host) or proxy_bypass(host_and_port):
        return None
    if _is_excluded(host, urlsplit(f"//{host_and_port}").port, proxies.get("no", "")):
        return None
    with suppress(ValueError):  # the error's message would quote the password
        proxy = parse_url(address if "://" in address else f"http://{address}")
        if proxy.scheme in ("http", "https"):
            return proxy
    shown = without_credentials(address)
    message = f"unsupported proxy {shown} in the environment; expected http:// or https://; NO_PROXY={host} disables it"
    raise EngineError(message, found=shown, expected="http:// or https://")


def _is_excluded(host: str, port: int | None, no_proxy: str) -> bool:
    """
    Return whether NO_PROXY excludes an IP address, either by itself or by a network such as `10.0.0.0/8` or
    `[fd00::]/8`.

    urllib compares names only, while curl also accepts networks and brackets. An entry may end with a port.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return False
    for entry in no_proxy.split(","):
        match = _NO_PROXY_ENTRY.fullmatch(entry.strip())
        if match is None or (match["port"] is not None and int(match["port"]) != port):
            continue
        with suppress(ValueError):
            text = match["bracketed"] or match["plain"]
            if address in ip_network(text + (match["prefix"] or ""), strict=False):
                return True
    return False


def _proxy_headers(proxy: Url) -> dict[str, str]:
    if proxy.auth is None:
        return {}
    user, _, password = proxy.auth.partition(":")
    return {"proxy-authorization": basic(unquote(user), unquote(password))}


def _tls_context() -> ssl.SSLContext:
    """
    Return a TLS context that trusts the certificates of the system and certifi, or instead the certificates in
    SSL_CERT_FILE or SSL_CERT_DIR.
    """
    context = ssl.create_default_context()
    if path := os.environ.get("SSL_CERT_FILE"):
        try:
            context.load_verify_locations(path)  # the default context silently ignores a file that it cannot read
        except OSError as error:
            message = f"SSL_CERT_FILE names {printable(path, 120)}, which cannot be read: {error}"
            raise EngineError(message, found=path, expected="a file of certificates") from None
    if not (path or os.environ.get("SSL_CERT_DIR")):
        import certifi

        context.load_verify_locations(certifi.where())
    return context
