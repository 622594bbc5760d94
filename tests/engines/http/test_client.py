from __future__ import annotations

import gzip
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.base import Address
from pytest_jsbench.engines.http import client as module
from pytest_jsbench.engines.http.calls import Deadline
from pytest_jsbench.engines.http.client import Client, Outgoing, Waits
from tests.support.clock import Clock
from tests.support.provider import (
    Asked,
    Provider,
    Reply,
    json_reply,
    keep_open,
    raw_reply,
    stream_reply,
    unreachable_url,
)

NewClient = Callable[..., Client]
CLOSED = Reply(pieces=())


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def new_client() -> Iterator[NewClient]:
    """Return a function that creates clients, and close them at the end."""
    with ExitStack() as ends:

        def new_client(url: str, **options: Any) -> Client:
            return ends.enter_context(closing(Client(Address.parse(url), **options)))

        yield new_client


@pytest.fixture
def client(provider: Provider, new_client: NewClient) -> Client:
    return new_client(f"{provider.url}/v1")


def ask(client: Client, body: Any = 0, *, seconds: float = 30, **options: Any) -> Any:
    response = client.request("POST", "/x", json.dumps(body).encode(), deadline=Deadline(seconds), **options)
    return json.loads(response.read())


def until(condition: Callable[[], bool]) -> None:
    """Wait for another thread; fail if it takes too long."""
    end = time.perf_counter() + 20
    while not condition():
        assert time.perf_counter() < end
        time.sleep(0.001)


def test_request_uses_path_query_headers_and_user_of_the_address(provider: Provider) -> None:
    provider.json({})
    address = Address.parse(provider.url.replace("http://", "http://user:p%40ss@") + "/v1/")
    client = Client(address, headers={"X-Own": "a"}, query={"version": "1 2"})
    ask(client, {"a": 1}, headers={"x-own": "b"})
    asked = provider.asked[0]
    assert (asked.path, asked.body) == ("/v1/x?version=1+2", {"a": 1})
    assert asked.headers["x-own"] == "b"
    assert asked.headers["authorization"] == "Basic dXNlcjpwQHNz"
    assert asked.headers["content-type"] == "application/json"


def test_authorise_gets_the_final_request(new_client: NewClient, provider: Provider) -> None:
    provider.json({})
    signed: list[Outgoing] = []

    def sign(outgoing: Outgoing) -> dict[str, str]:
        signed.append(outgoing)
        return {"Authorization": "signed"}

    ask(new_client(f"{provider.url}/v1", authorise=sign), {"a": 1})
    assert (signed[0].url, signed[0].body) == (f"{provider.url}/v1/x", b'{"a": 1}')
    assert provider.asked[0].headers["authorization"] == "signed"


def test_sequential_calls_share_a_connection_and_concurrent_ones_do_not(client: Client, provider: Provider) -> None:
    provider.replies.append(keep_open(json_reply({}, silence=0.1)))
    for _ in range(3):
        ask(client)
    assert provider.opened == 1
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: ask(client), range(3)))
    assert provider.opened == 3


def test_complete_stream_returns_its_connection(client: Client, provider: Provider) -> None:
    provider.replies.append(keep_open(stream_reply("a", "b")))
    for _ in range(2):
        assert client.request("POST", "/x", b"", deadline=Deadline(30)).read() == b"ab"
    client.request("POST", "/x", b"", deadline=Deadline(30)).close()
    client.request("POST", "/x", b"", deadline=Deadline(30)).close()
    assert provider.opened == 2  # the third call closed the first connection with its body unread


@pytest.mark.parametrize(("idle", "connections"), [(1.0, 1), (2.5, 2)])
def test_old_idle_connection_is_not_reused(
    new_client: NewClient, provider: Provider, idle: float, connections: int
) -> None:
    clock = Clock()
    client = new_client(f"{provider.url}/v1", clock=clock.read)
    provider.replies.append(keep_open(json_reply({})))
    for _ in range(2):
        ask(client)
        clock.now += idle
    assert provider.opened == connections


@pytest.mark.parametrize("together", [True, False])
def test_extra_bytes_after_an_answer_do_not_reach_the_next_call(
    client: Client, provider: Provider, *, together: bool
) -> None:
    def answered(asked: Asked) -> Reply:
        answer, more = (keep_open(json_reply({"n": n})).pieces[0] for n in (asked.body, "more"))
        return Reply(pieces=(answer + more,) if together else (answer, more), keep=True)

    provider.choose = answered
    numbers = []
    for number in range(3):
        numbers.append(ask(client, number)["n"])
        time.sleep(0.05)
    assert numbers == [0, 1, 2]


def ask_until_closed(client: Client, provider: Provider, second: Reply, **options: Any) -> list[Any]:
    """Make three calls in sequence, with this reply of the reused connection to its second request."""
    kept_once = {"kept": False}

    def answered(asked: Asked) -> Reply:
        if kept_once["kept"]:
            kept_once["kept"] = False
            return second
        kept_once["kept"] = True
        return keep_open(json_reply({"n": asked.body}))

    provider.choose = answered
    return [ask(client, number, **options)["n"] for number in range(3)]


@pytest.mark.parametrize("reset", [False, True])
def test_request_is_repeated_if_a_reused_connection_is_closed(
    client: Client, provider: Provider, *, reset: bool
) -> None:
    assert ask_until_closed(client, provider, replace(CLOSED, reset=reset)) == [0, 1, 2]
    assert [asked.body for asked in provider.asked] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("second", "once"),
    [
        pytest.param(CLOSED, True, id="it may go out once only"),
        pytest.param(Reply(pieces=(b"HTTP/1.1",)), False, id="the server began to answer"),
        pytest.param(Reply(pieces=(b"HTTP/1.1 102 Processing\r\n\r\n",)), False, id="the server is at work"),
        pytest.param(Reply(pieces=(b"nothing that is HTTP\r\n\r\n",)), False, id="the server sent something"),
        pytest.param(replace(CLOSED, silence=0.2), False, id="the server was at work"),
    ],
)
def test_request_that_may_have_been_processed_is_not_repeated(
    new_client: NewClient, provider: Provider, second: Reply, *, once: bool
) -> None:
    client = new_client(f"{provider.url}/v1", waits=Waits(close=0.1))
    with pytest.raises(CallError) as caught:
        ask_until_closed(client, provider, second, once=once)
    assert caught.value.kind is FaultKind.CONNECTION
    assert [asked.body for asked in provider.asked] == [0, 1]


def test_closed_client_does_not_repeat_a_call_in_flight(new_client: NewClient, provider: Provider) -> None:
    client = new_client(f"{provider.url}/v1", waits=Waits(close=60.0))
    provider.choose = lambda asked: keep_open(json_reply({}, silence=float(asked.body)))
    ask(client, 0)
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(ask, client, 30)
        while len(provider.asked) < 2:
            time.sleep(0.001)
        client.close()
        assert isinstance(call.exception(timeout=20), CallError)
    assert (len(provider.asked), provider.opened) == (2, 1)


def test_closed_client_makes_no_calls_and_keeps_no_connections(client: Client, provider: Provider) -> None:
    provider.replies.append(keep_open(json_reply({})))
    response = client.request("POST", "/x", b"", deadline=Deadline(30))
    client.close()
    with suppress(CallError):
        response.read()
    with pytest.raises(CallError, match="the client is closed"):
        ask(client)
    until(lambda: provider.closed == provider.opened)
    assert len(provider.asked) == 1


def test_client_closed_at_the_end_of_a_body_keeps_no_connection(client: Client, provider: Provider) -> None:
    provider.replies.append(keep_open(json_reply({})))
    response = client.request("POST", "/x", b"", deadline=Deadline(30))
    pieces = response.iter_bytes()
    next(pieces)
    client.close()
    assert not list(pieces)
    until(lambda: provider.closed == 1)


def test_head_and_body_of_a_request_are_sent_at_once(new_client: NewClient) -> None:
    received: list[bytes] = []

    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            for _ in range(20):
                received.append(connection.recv(10_000))
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1")

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:
        threads.submit(answer, server)
        client = new_client(f"http://127.0.0.1:{server.getsockname()[1]}")
        assert [ask(client, "body") for _ in range(20)] == [1] * 20
    assert all(request.startswith(b"POST ") and request.endswith(b'"body"') for request in received)


def test_error_sent_before_the_request_is_read_is_parsed(new_client: NewClient) -> None:
    def refuse(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\n\r\nlarge")

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:
        threads.submit(refuse, server)
        client = new_client(f"http://127.0.0.1:{server.getsockname()[1]}")
        response = client.request("POST", "/x", bytes(20_000_000), deadline=Deadline(30))
        assert (response.status, response.read()) == (413, b"large")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (b"", "its body is truncated"),
        (b"9\r\nab", "its body is truncated"),
        (b"no number\r\n", "a chunk of its body has no valid length"),
    ],
)
def test_torn_body_is_a_truncated_answer(client: Client, provider: Provider, end: bytes, words: str) -> None:
    reply = stream_reply("a", cut=True)
    provider.replies.append(replace(reply, pieces=(*reply.pieces, end)))
    with pytest.raises(CallError) as caught:
        ask(client)
    assert caught.value.message == f"{client.address.url}: the answer was interrupted: {words}"
    assert (caught.value.kind, caught.value.was_truncated) == (FaultKind.CONNECTION, True)


def test_timeout_of_the_socket_is_set_once_for_many_pieces(
    client: Client, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts: list[float] = []

    class Socket(socket.socket):
        def settimeout(self, seconds: float | None) -> None:
            timeouts.append(seconds or 0.0)
            super().settimeout(seconds)

    monkeypatch.setattr(socket, "socket", Socket)
    provider.replies.append(stream_reply(*("data: 1\n\n",) * 20, pause=0.005))
    response = client.request("POST", "/x", b"", deadline=Deadline(30))
    timeouts.clear()
    assert len(list(response.iter_bytes())) == 20
    assert len(timeouts) <= 2


def test_request_that_is_not_read_ends_at_the_deadline(new_client: NewClient, client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = new_client(f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(CallError) as caught:
            ask(client, "x" * 20_000_000, seconds=0.3)
    assert caught.value.kind is FaultKind.TIMEOUT


def test_closed_port_is_a_connection_fault(new_client: NewClient) -> None:
    url = unreachable_url()
    with pytest.raises(CallError) as caught:
        ask(new_client(url))
    assert caught.value.kind is FaultKind.CONNECTION
    assert caught.value.message.startswith(f"{url}: [Errno")


def test_end_of_a_body_has_a_short_timeout(new_client: NewClient, provider: Provider) -> None:
    client = new_client(f"{provider.url}/v1", waits=Waits(grace=0.1))
    provider.replies.append(replace(stream_reply("data: 1\n\n", cut=True), hang=True))
    provider.replies[0] = replace(
        provider.replies[0], pieces=(provider.replies[0].pieces[0].removesuffix(b"0\r\n\r\n"),)
    )
    response = client.request("POST", "/x", b"", deadline=Deadline(30))
    pieces = response.iter_bytes()
    assert next(pieces) == b"data: 1\n\n"
    response.shorten()
    with pytest.raises(CallError):
        next(pieces)


def test_size_limit_applies_to_the_decompressed_body(
    client: Client, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = {"content-encoding": "gzip"}
    provider.raw(gzip.compress(b'{"a": 1}'), kind="application/json", headers=packed)
    provider.raw(gzip.compress(b" " * 500_000), kind="application/json", headers=packed)
    monkeypatch.setattr(module, "LONGEST_BODY", 100_000)
    assert ask(client) == {"a": 1}
    with pytest.raises(CallError, match="longer than 100,000 bytes"):
        ask(client)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("packed", ["gzip, gzip", "gzip,deflate", "br", "zstd", "compress"])
def test_unsupported_content_encoding_is_rejected(client: Client, provider: Provider, packed: str, status: int) -> None:
    body = gzip.compress(gzip.compress(bytes(1_000_000)))
    provider.raw(body, status=status, headers={"content-encoding": packed})
    response = client.request("POST", "/x", b"", deadline=Deadline(30))
    with pytest.raises(CallError, match=r"unsupported content encoding .*; expected one of: gzip, deflate"):
        response.read()
    assert provider.asked[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("status", [307, 308])
def test_redirect_on_the_same_server_is_followed(client: Client, provider: Provider, status: int) -> None:
    provider.json({}, status=status, headers={"location": "/v2/x"})
    provider.json({"a": 1})
    assert ask(client, {"q": 1}) == {"a": 1}
    assert [(asked.path, asked.body) for asked in provider.asked] == [("/v1/x", {"q": 1}), ("/v2/x", {"q": 1})]


def test_redirect_target_is_escaped(client: Client, provider: Provider) -> None:
    provider.json(
        {}, status=307, headers={"location": "//" + provider.url.partition("://")[2] + "//a b/\xe9%20?q=#part"}
    )
    provider.json({})
    ask(client)
    assert provider.asked[1].path == "//a%20b/%C3%A9%20?q="


@pytest.mark.parametrize("status", [302, 307])
@pytest.mark.parametrize(
    ("place", "words"),
    [
        *((place, "nothing was sent there; ") for place in ("https://127.0.0.1/", "//other")),
        ("http://me:Hush@elsewhere.example/v1?token=Hush", "nothing was sent there; "),
        *((place, "a redirect to ") for place in ("http://h:99999/", "http://u:Hush@h:0x/", "http://[::1/")),
    ],
)
def test_redirect_to_another_server_is_not_followed(
    client: Client, provider: Provider, place: str, words: str, status: int
) -> None:
    provider.json({}, status=status, headers={"location": place})
    with pytest.raises(CallError, match=f"{words}.* --jsbench-base-url") as caught:
        ask(client)
    assert caught.value.kind is FaultKind.BAD_REQUEST
    assert not any(word in caught.value.message for word in ("Hush", "\n"))
    assert len(provider.asked) == 1


@pytest.mark.parametrize("status", [301, 302, 307])
def test_redirect_loop_is_an_error(client: Client, provider: Provider, status: int) -> None:
    provider.json({}, status=status, headers={"location": "/v2/x"})
    with pytest.raises(CallError, match="set the correct address with --jsbench-base-url"):
        ask(client)
    assert len(provider.asked) == (4 if status == 307 else 1)


def test_invalid_header_is_rejected(client: Client, provider: Provider) -> None:
    for value in ("hush\r\nx-other: b", "hush\n", "hush\u2019"):
        with pytest.raises(ValueError, match=r"^the header x-own contains a character that is not allowed in headers$"):
            ask(client, headers={"x-own": value})
    assert not provider.asked


def test_secrets_of_query_and_headers_are_in_no_log_or_repr(
    new_client: NewClient, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    outgoing: list[Outgoing] = []

    def sign(request: Outgoing) -> dict[str, str]:
        outgoing.append(request)
        return {}

    provider.replies.append(Reply(pieces=(b"HTTP/1.1 200 OK\r\nno header\r\n\r\n{}",)))
    headers = {"authorization": "Bearer hush"}
    ask(new_client(f"{provider.url}/v 1", query={"key": "hush"}, authorise=sign, headers=headers))
    assert provider.asked[0].path == "/v%201/x?key=hush"
    assert "Failed to parse headers" in caplog.text
    assert "hush" not in f"{caplog.text} {outgoing}"


def test_proxy_of_the_environment_is_used_except_for_no_proxy(
    new_client: NewClient, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.json({})
    monkeypatch.setenv("HTTP_PROXY", provider.url.replace("http://", "http://user:pass@"))
    ask(new_client("http://model.example:8000/v1"))
    assert provider.asked[0].path == "http://model.example:8000/v1/x"
    assert provider.asked[0].headers["host"] == "model.example:8000"
    assert provider.asked[0].headers["proxy-authorization"] == "Basic dXNlcjpwYXNz"
    for left_out in ("model.example", "model.example:8000"):
        monkeypatch.setenv("NO_PROXY", left_out)
        with pytest.raises(CallError):
            ask(new_client("http://model.example:8000/v1"), seconds=5)
    with pytest.raises(CallError):
        ask(new_client("http://other.example:8000/v1", proxies=False), seconds=5)
    assert len(provider.asked) == 1


def test_tls_server_is_called_through_a_tunnel(
    new_client: NewClient, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.raw(b"", status=403)
    monkeypatch.setenv("HTTPS_PROXY", provider.url.removeprefix("http://"))
    with pytest.raises(CallError, match="403") as caught:
        ask(new_client("https://model.example/v1"))
    assert caught.value.kind is FaultKind.CONNECTION
    assert (provider.asked[0].method, provider.asked[0].path) == ("CONNECT", "model.example:443")


def test_unreachable_proxy_is_named_without_its_password(
    new_client: NewClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = unreachable_url()
    monkeypatch.setenv("HTTP_PROXY", proxy.replace("http://", "http://user:hush@"))
    with pytest.raises(CallError) as caught:
        ask(new_client("http://model.example/v1"))
    assert caught.value.message.startswith(f"http://model.example/v1 through the proxy {proxy}: [Errno")


@pytest.mark.parametrize("place", ["socks5://user:pass@localhost:1080", "http://user:pass@h:99999", "u:pass/w@h:1"])
def test_unsupported_proxy_is_rejected_in_one_line(
    new_client: NewClient, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", place)
    with pytest.raises(EngineError, match=r"^unsupported proxy .*; expected http:// or https://") as caught:
        new_client("http://model.example")
    assert "pass" not in str(caught.value)


def secure(certificate: Path) -> Provider:
    """Start a provider with TLS, which acts as a proxy for CONNECT."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)

    class Secure(Provider):
        def _converse(self, connection: socket.socket) -> None:
            with suppress(OSError):
                super()._converse(context.wrap_socket(connection, server_side=True))

        def _answer(self, connection: socket.socket) -> bool:
            again = super()._answer(connection)
            if self.asked[-1].method == "CONNECT":
                host, _, port = self.asked[-1].path.partition(":")
                with socket.create_connection((host, int(port))) as server, ThreadPoolExecutor(1) as threads:
                    threads.submit(pump, server, connection)
                    pump(connection, server)
            return again

    return Secure()


def test_tls_server_is_called_through_a_tls_proxy(
    new_client: NewClient, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with secure(certificate) as proxy, secure(certificate) as provider:
        proxy.replies.append(Reply(pieces=(b"HTTP/1.1 200 OK\r\n\r\n",)))
        provider.json({"a": 1})
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("http://", "https://"))
        assert ask(new_client(provider.url.replace("http://", "https://"))) == {"a": 1}
        assert len(proxy.asked) == 1


def test_unreadable_certificate_file_is_named(new_client: NewClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    with pytest.raises(EngineError, match=r"SSL_CERT_FILE names /nowhere.pem, which cannot be read: \[Errno 2\]"):
        new_client("https://model.example")


def test_only_certificates_named_by_the_environment_are_trusted(
    new_client: NewClient, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with secure(certificate) as provider:
        provider.replies.append(keep_open(raw_reply(b'{"a": 1}', kind="application/json")))
        url = provider.url.replace("http://", "https://")
        with pytest.raises(CallError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            ask(new_client(url))
        assert caught.value.kind is FaultKind.CONNECTION
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        client = new_client(url)
        assert [ask(client), ask(client)] == [{"a": 1}, {"a": 1}]
        assert (len(provider.asked), provider.opened) == (2, 1)


def test_rest_of_a_record_is_no_answer_to_the_next_request(
    new_client: NewClient, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n"
    with secure(certificate) as provider:
        for _ in range(2):
            provider.replies.append(Reply(pieces=(head, b'{"a": 1}' + head + b'{"a": 2}'), pause=0.05, keep=True))
        client = new_client(provider.url.replace("http://", "https://"))
        assert [ask(client), ask(client)] == [{"a": 1}, {"a": 1}]
        assert (len(provider.asked), provider.opened) == (2, 2)


HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"


@pytest.mark.parametrize(
    "interim", [HINTS, HINTS * 3, b"HTTP/1.1 102 Processing\r\n\r\n" + HINTS, b"HTTP/1.1 199 Own\r\n\r\n"]
)
def test_interim_responses_are_skipped(provider: Provider, client: Client, interim: bytes) -> None:
    for body in ({"n": 1}, {"n": 2}):
        reply = json_reply(body)
        provider.replies.append(replace(reply, pieces=(interim, *reply.pieces)))
    assert [ask(client), ask(client)] == [{"n": 1}, {"n": 2}]


def test_interim_responses_without_end_are_a_fault(provider: Provider, client: Client) -> None:
    provider.replies.append(Reply(pieces=(HINTS * 30,)))
    with pytest.raises(CallError, match="more than 20 interim responses"):
        ask(client)


def test_switching_protocols_is_not_an_interim_response(provider: Provider, client: Client) -> None:
    provider.replies.append(Reply(pieces=(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",)))
    with pytest.raises(CallError, match=r"only an interim response \(status 101\)"):
        ask(client)


FRAMINGS = {
    "HTTP/1.0 without a length": b'HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{"n": 1}',
    "HTTP/1.1 without a length": b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"n": 1}',
    "chunked with an extension": b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8;a=b\r\n{"n": 1}\r\n0\r\n\r\n',
    "chunked with trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Digest\r\n\r\n"
    b'8\r\n{"n": 1}\r\n0\r\nX-Digest: abc\r\n\r\n',
}


@pytest.mark.parametrize("framing", FRAMINGS)
def test_body_is_complete_with_each_framing(provider: Provider, client: Client, framing: str) -> None:
    """The next call on the same client gets its own answer (RFC 9112, 6.3 and 7.1)."""
    provider.replies += [Reply(pieces=(FRAMINGS[framing],)), json_reply({"n": 2})]
    assert [ask(client), ask(client)] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("status", [204, 205, 304])
def test_response_without_a_body_is_empty_and_ends(provider: Provider, client: Client, status: int) -> None:
    provider.replies += [
        Reply(pieces=(b"HTTP/1.1 %d None\r\nContent-Length: 0\r\n\r\n" % status,)),
        json_reply({"n": 2}),
    ]
    response = client.request("POST", "/x", b"0", deadline=Deadline(30))
    assert (response.status, response.read()) == (status, b"")
    assert ask(client) == {"n": 2}


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"\r\n\r\n", "expected an HTTP status line, found an empty line"),
        (b"SSH-2.0-OpenSSH\r\n", "expected an HTTP status line, found 'SSH-2.0-OpenSSH'"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
            "a chunk of its body has no valid length",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "its body is truncated"),
    ],
)
def test_broken_response_is_described_in_http_terms(
    provider: Provider, client: Client, reply: bytes, words: str
) -> None:
    provider.replies.append(Reply(pieces=(reply,)))
    with pytest.raises(CallError) as caught:
        ask(client)
    assert caught.value.kind is FaultKind.CONNECTION
    assert caught.value.message.endswith(words)


@pytest.mark.parametrize(
    ("url", "no_proxy", "direct"),
    [
        ("http://127.0.0.1/v1", "127.0.0.0/8", True),
        ("http://127.0.0.1/v1", "10.0.0.0/8, 127.0.0.0/30", True),
        ("http://127.0.0.1/v1", "10.0.0.0/8", False),
        ("http://127.0.0.1:8000/v1", "127.0.0.1:8000", True),
        ("http://127.0.0.1:8000/v1", "127.0.0.0/8:9000", False),
        ("http://[::1]/v1", "[::1]", True),
        ("http://[::1]/v1", "::1", True),
        ("http://[fd00::7]:80/v1", "fd00::/8", True),
        ("http://[fd00::7]/v1", "[fd00::]/8", True),
        ("http://[2001:db8::1]/v1", "fd00::/8,127.0.0.0/8", False),
        ("http://127.0.0.1/v1", "127.0.0.0/99,not/8,", False),
        ("http://models.corp.example/v1", ".corp.example", True),
        ("http://models.corp.example/v1", "corp.example", True),
        ("http://models.corp.example/v1", "*", True),
        ("http://10.example/v1", "10.0.0.0/8", False),
    ],
)
def test_no_proxy_excludes_names_addresses_and_networks(
    new_client: NewClient, monkeypatch: pytest.MonkeyPatch, url: str, no_proxy: str, direct: bool
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", no_proxy)
    assert (new_client(url)._proxy is None) is direct


def test_proxy_that_wants_a_password_is_named(
    provider: Provider, new_client: NewClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.raw(b"", status=407)
    monkeypatch.setenv("http_proxy", provider.url)
    response = new_client("http://models.example/v1").request("POST", "/x", b"{}", deadline=Deadline(30))
    assert response.status == 407
    response.close()
