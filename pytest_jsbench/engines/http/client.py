"""
The HTTP client of all engines: it asks one server, within the time of the whole call, and reads a bounded body.

It stands on urllib3's connections. urllib3's own pool bounds each read alone, so that a server which sends a byte every
second is never late; and it hides if a connection was a kept one, which decides if a lost call may go out once more.
"""

from __future__ import annotations

import base64
import http.client
import io
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

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping

    from urllib3 import BaseHTTPResponse

    from pytest_jsbench.engines.base import Address
    from pytest_jsbench.engines.http.calls import Deadline

#: the longest wait for each address of a server, in seconds; a name's look-up has no bound but the system's
CONNECT_SECONDS = 10.0
#: seconds; llama.cpp, uvicorn and Node close an idle connection after 5 s, and a request on its way is then lost
_KEPT = 2.0
#: seconds; a server that closes a kept connection later than this after a request has worked on it
_AT_ONCE = 0.5
#: seconds that a server has to end the body after the last event
_GRACE = 0.5
#: how a body may be packed
_ACCEPTED = "gzip, deflate"
_PACKED = frozenset({"", "identity", *_ACCEPTED.split(", ")})
_READ_AT_ONCE = 64 * 1024
_MOST_REDIRECTS = 3
#: Maximum number of interim responses (status 1xx) before a response.
_MOST_INTERIM = 20
#: An address of NO_PROXY, with an optional prefix length, and an optional port of an IPv4 or bracketed IPv6 address.
_NO_PROXY_ENTRY = re.compile(
    r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<plain>[0-9.]+(?=[:/]|$)|[0-9a-fA-F:.]+))(?P<prefix>/\d{1,3})?(?::(?P<port>\d{1,5}))?"
)
_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_BROKEN = (HTTPError, http.client.HTTPException, OSError)


class _TimedSocket:
    """A connected socket whose timeout holds for all that follows, and not for each step."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._end = 0.0
        #: bytes that were received so far
        self.heard = 0
        self.close, self.fileno = sock.close, sock.fileno
        self.shutdown: Callable[[int], None] = getattr(sock, "socket", sock).shutdown  # of TLS inside a proxy's TLS

    def settimeout(self, seconds: float) -> None:
        """Set the seconds from now in which everything ends."""
        self._end = time.perf_counter() + seconds

    def shorten(self, seconds: float) -> None:
        """Leave so many seconds at most."""
        self._end = min(self._end, time.perf_counter() + seconds)

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.ready().send(rest) :]

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        """Open the stream of what arrives."""
        return io.BufferedReader(_TimedReader(self, self._sock.makefile("rb", buffering=0)), _READ_AT_ONCE)

    def ready(self) -> socket.socket:
        """Return the socket, with what is left of the time as its timeout; TimeoutError where nothing is."""
        left = self._end - time.perf_counter()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left)
        return self._sock


class _TimedReader(io.RawIOBase):
    """Reads from a socket, each time in what is left of the time."""

    def __init__(self, sock: _TimedSocket, raw: io.RawIOBase) -> None:
        self._sock = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.ready()
        count: int | None = self._raw.readinto(buffer)
        self._sock.heard += count or 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _FinalResponse(http.client.HTTPResponse):
    """A response after all interim ones (RFC 9110, 15.2); http.client itself skips only status 100."""

    def begin(self) -> None:
        super().begin()
        for _ in range(_MOST_INTERIM):
            # 101 is final: the server has switched to another protocol
            if self.status >= 200 or self.status == http.client.SWITCHING_PROTOCOLS:
                return
            self.headers = self.msg = None  # type: ignore[assignment]  # begin reads another head if it has none
            super().begin()
        raise http.client.HTTPException(f"the server sent more than {_MOST_INTERIM} interim responses")


class _Connection(HTTPConnection):
    sock: Any
    response_class = _FinalResponse
    #: goes out behind the path of the next request; urllib3 logs a path where a server's headers are odd
    query = ""

    def connect(self) -> None:
        super().connect()
        self.sock = _TimedSocket(self.sock)

    def putrequest(self, method: str, url: str, *args: Any, **options: Any) -> None:
        super().putrequest(method, url + self.query, *args, **options)


class _TLSConnection(_Connection, HTTPSConnection):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request as it goes out, or as what signs it gets it."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)


class Response:
    """
    A server's response, whose body is read once, by the thread that asked.

    At the body's end its connection serves the next call; closed before that, it is closed with it.
    """

    def __init__(self, raw: BaseHTTPResponse, connection: _Connection, sock: _TimedSocket, client: Client) -> None:
        self.status = raw.status
        #: by names of either case
        self.headers: Mapping[str, str] = raw.headers
        self._raw = raw
        self._sock = sock
        self._connection: _Connection | None = connection
        self._client = client

    def checked(self) -> Response:
        """Return it; EnclosedError, with what its body says, for a refusal."""
        if self.status >= 400:
            with closing(self):
                raise refusal(self.status, self.headers, self.read())
        return self

    def iter_bytes(self, *, bounded: bool = True) -> Iterator[bytes]:
        """Yield the body, unpacked, as it arrives; CallError where it breaks, or is longer than an answer can be."""
        packed = self.headers.get("content-encoding", "").strip().lower()
        if packed not in _PACKED:
            # of one packed twice, or by brotli or zstd, few bytes may come to gigabytes
            self.close()
            message = f"the answer is packed as {one_line(packed)}; expected one of: {_ACCEPTED}"
            raise CallError(FaultKind.BAD_RESPONSE, message)
        count = 0
        while piece := self._read():
            count += len(piece)
            if bounded and count > LONGEST_BODY:
                self.close()
                if self.status >= 400:  # its words are cut short
                    return
                raise CallError(FaultKind.BAD_RESPONSE, f"the answer is longer than {LONGEST_BODY:,} bytes")
            yield piece
        self._end(whole=True)

    def read(self) -> bytes:
        """Read the rest of the body."""
        return b"".join(self.iter_bytes())

    def shorten(self) -> None:
        """Leave only a moment for the body's end: the answer is there."""
        self._sock.shorten(_GRACE)

    def close(self) -> None:
        """Close it, and the connection of a body that has not been read to its end."""
        self._end(whole=False)

    def _end(self, *, whole: bool) -> None:
        self._raw.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            self._client.give_back(connection, self._sock, whole=whole)

    def _read(self) -> bytes:
        try:
            return self._raw.read1(_READ_AT_ONCE)
        except _BROKEN as error:
            self.close()
            raise self._client.fault(error, begun=True) from None


class Client:
    """
    Asks one server, and no other, over connections that each serve one call at a time.

    An engine makes one when it is built and closes it at its end; the threads of all calls in flight share it. Its two
    collections need no lock, since each step on them is one of a list or a set.
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
    ) -> None:
        self.address = address
        parts = urlsplit(address.url)
        self._tls = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._tls else 80)
        self._query = query or {}
        self._authorise = authorise
        self._secret = secret
        self._proxy = _proxy_of(parts.scheme, self._host, parts.netloc) if proxies else None
        self._headers = {
            "host": parts.netloc,
            "accept": "application/json",
            "accept-encoding": _ACCEPTED,
            "user-agent": f"pytest-jsbench/{__version__}",
            **_lowered(headers or {}),
        }
        if address.userinfo is not None:
            self._headers["authorization"] = _basic(*address.userinfo)
        if self._proxy is not None and not self._tls:
            self._headers |= _proxy_headers(self._proxy)
        self._context = (
            _trusting() if self._tls or (self._proxy is not None and self._proxy.scheme == "https") else None
        )
        self._idle: list[tuple[_Connection, float]] = []
        self._lent: set[_TimedSocket] = set()
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
        Send a request and return the response, whatever its status, with its body unread; whoever calls closes it.

        The path is below the server's address, or the whole URL of something on the same server. What may go out `once`
        only is not sent again where the server closes a kept connection under it. CallError for a connection that
        breaks, and for a server that points to another one; ValueError for a header that cannot be sent.
        """
        url = path if "://" in path else self.address.url.rstrip("/") + path
        if self._query:
            url += f"{'&' if '?' in url else '?'}{urlencode(self._query)}"
        for _ in range(_MOST_REDIRECTS + 1):
            self._stay_here(url)
            url = quote(url.partition("#")[0], safe=punctuation)  # such as spaces are no part of a request
            sent = {**self._headers, **_lowered(headers or {})}
            if body is not None:
                sent.setdefault("content-type", "application/json")
            outgoing = Outgoing(method=method, url=url, headers=sent, body=body)
            if self._authorise is not None:
                sent |= _lowered(self._authorise(outgoing))
            for name, value in sent.items():
                if not _SENDABLE.fullmatch(value):  # http.client's words quote it
                    raise ValueError(f"the header {name} holds a character that no header can")
            response = self._send(outgoing, deadline, once=once)
            if not 300 <= response.status < 400:
                return response
            response.close()
            location = response.headers.get("location") or ""
            try:
                url = urljoin(url, location)
                self._stay_here(url)
            except ValueError:  # that is no address
                url = location
                break
            if response.status < 307 and method != "GET":  # what is posted would be asked for there
                break
        there = printable(without_credentials(url), 120)
        message = (
            f"{self.address.url} answered with status {response.status}, which points to {there}: "
            "name the right address with --jsbench-base-url"
        )
        raise CallError(FaultKind.BAD_REQUEST, message)

    def post(
        self, path: str, body: object, *, deadline: Deadline, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Post a body as JSON and return the response, its body unread; EnclosedError for a refusal."""
        return self.request("POST", path, to_json(body), headers=headers, deadline=deadline).checked()

    def give_back(self, connection: _Connection, sock: _TimedSocket, *, whole: bool) -> None:
        """Keep a connection for the next call where its response was read as a whole; else close it."""
        self._lent.discard(sock)
        if whole and connection.sock is sock:  # a server that closes it has taken its socket away
            self._idle.append((connection, time.perf_counter()))
            if self._closed:
                self.close()
        else:
            connection.close()

    def fault(self, error: Exception, *, begun: bool = False) -> CallError:
        """Return the fault of a connection that broke."""
        through = f" through the proxy {self._proxy._replace(auth=None)}" if self._proxy else ""
        return connection_fault(error, address=self.address.url + through, secret=self._secret, begun=begun)

    def close(self) -> None:
        """Close all connections; a call in flight ends."""
        self._closed = True
        while (connection := self._take()) is not None:
            connection.close()
        for sock in tuple(self._lent):
            with suppress(OSError):
                sock.shutdown(SHUT_RDWR)  # its thread may be reading, and would not notice that it is closed

    def _send(self, outgoing: Outgoing, deadline: Deadline, *, once: bool) -> Response:
        kept = self._take()
        if kept is not None:
            sock: _TimedSocket = kept.sock
            begun, heard = time.perf_counter(), sock.heard
            try:
                return self._ask(kept, outgoing, deadline)
            except _BROKEN as error:
                late = isinstance(error, TimeoutError) or time.perf_counter() - begun > _AT_ONCE
                if once or late or self._closed or sock.heard != heard:
                    raise self.fault(error) from None
        try:
            return self._ask(self._connect(deadline), outgoing, deadline)
        except _BROKEN as error:
            raise self.fault(error) from None

    def _ask(self, connection: _Connection, outgoing: Outgoing, deadline: Deadline) -> Response:
        sock: _TimedSocket = connection.sock
        self._lent.add(sock)
        place, mark, query = outgoing.url.partition("?")
        if not connection.proxy_is_forwarding:
            place = "/" + place.split("://", 1)[1].partition("/")[2]
        connection.query = mark + query
        try:
            if self._closed:  # while it connected
                raise ConnectionAbortedError("the client is closed")
            connection.timeout = deadline.remaining
            # a server that will not read all of a body says why
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(outgoing.method, place, outgoing.body, outgoing.headers, preload_content=False)
            connection.timeout = deadline.remaining
            raw = connection.getresponse()
            if raw.status < 200:
                raise http.client.HTTPException(f"the server sent only status {raw.status}, and no response")
        except BaseException:
            self.give_back(connection, sock, whole=False)
            raise
        return Response(raw, connection, sock, self)

    def _take(self) -> _Connection | None:
        with suppress(IndexError):  # also where another thread has just taken the last
            while True:
                connection, since = self._idle.pop()
                # readable means closed, or an answer that nobody asked for
                if time.perf_counter() - since < _KEPT and connection.is_connected:
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
            host, port = proxy.host or "", proxy.port or (443 if proxy.scheme == "https" else 8080)
        config = proxy and ProxyConfig(self._context, False, None, None)
        options: dict[str, Any] = {"timeout": timeout, "proxy": proxy, "proxy_config": config}
        if tls:
            options["ssl_context"] = self._context
        connection = (_TLSConnection if tls else _Connection)(host, port, **options)
        if proxy is not None and self._tls:
            connection.set_tunnel(self._host, self._port, _proxy_headers(proxy), scheme=proxy.scheme or "http")
        connection.connect()
        return connection

    def _stay_here(self, url: str) -> None:
        if origin(url) == origin(self.address.url):
            return
        scheme, host, port = origin(url)
        there = printable(without_credentials(f"{scheme}://{host}:{port}"), 120)
        message = (
            f"the server points to {there}, away from {self.address.url}; nothing was sent there: if it is the "
            "right one, name it with --jsbench-base-url"
        )
        raise CallError(FaultKind.BAD_REQUEST, message)


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """Header names are the same in either case."""
    return {name.lower(): value for name, value in headers.items()}


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _proxy_of(scheme: str, host: str, host_and_port: str) -> Url | None:
    """Return the proxy that the environment names for that server."""
    proxies = getproxies()
    address = proxies.get(scheme) or proxies.get("all")
    if not address or proxy_bypass(host) or proxy_bypass(host_and_port):
        return None
    if _is_excluded(host, urlsplit(f"//{host_and_port}").port, proxies.get("no", "")):
        return None
    with suppress(ValueError):  # whose words quote the password
        proxy = parse_url(address if "://" in address else f"http://{address}")
        if proxy.scheme in ("http", "https"):
            return proxy
    shown = without_credentials(address)
    message = f"the proxy {shown} of the environment is none of http:// or https://; NO_PROXY={host} leaves it out"
    raise EngineError(message, found=shown, expected="http:// or https://")


def _is_excluded(host: str, port: int | None, no_proxy: str) -> bool:
    """
    Return whether NO_PROXY excludes an IP address, by itself or by a network such as `10.0.0.0/8` or `[fd00::]/8`.

    urllib compares names only, while curl also reads networks and brackets. An entry may end in a port.
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
    return {"proxy-authorization": _basic(unquote(user), unquote(password))}


def _trusting() -> ssl.SSLContext:
    """Return the context that trusts what the system trusts, and certifi; or what the environment names alone."""
    context = ssl.create_default_context()
    if named := os.environ.get("SSL_CERT_FILE"):
        try:
            context.load_verify_locations(named)  # of a file that it cannot read the line before says nothing
        except OSError as error:
            message = f"SSL_CERT_FILE names {printable(named, 120)}, which cannot be read: {error}"
            raise EngineError(message, found=named, expected="a file of certificates") from None
    if not (named or os.environ.get("SSL_CERT_DIR")):
        import certifi

        context.load_verify_locations(certifi.where())
    return context
