from __future__ import annotations

import gc
import gzip
import json
import ssl
import weakref
from collections.abc import Callable
from typing import Any

import httpcore2
import httpx2
import pytest

from pytest_jsbench.core.generations import CallError
from pytest_jsbench.engines.http import calls
from pytest_jsbench.engines.http.calls import Deadline, parse_json, timed

SECONDS = 10.0


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now


class Network(httpcore2.NetworkBackend, httpcore2.NetworkStream):
    """Opens itself as a connection, takes half a second for each step, and notes the time that each was given."""

    def __init__(self, clock: Clock, answer: bytes) -> None:
        self._clock = clock
        self._answer = answer
        self.given: list[tuple[str, float | None]] = []
        self.written = 0

    def _step(self, name: str, timeout: float | None) -> None:
        self.given.append((name, timeout))
        self._clock.now += 0.5

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.NetworkStream:
        self._step("connect", timeout)
        return self

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        self._step("tls", timeout)
        return self

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._step("read", timeout)
        drop, self._answer = self._answer[:1], self._answer[1:]
        return drop

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._step("write", timeout)
        self.written += len(buffer)

    def close(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(calls, "time", clock)
    return clock


def client(network: Network) -> httpx2.Client:
    made = httpx2.Client(trust_env=False, timeout=60)
    made._transport._pool._network_backend = network  # type: ignore[attr-defined]
    return timed(made)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def test_each_step_of_a_call_gets_what_is_left_of_its_time(clock: Clock) -> None:
    network = Network(clock, HEAD)
    with client(network) as asking, Deadline(30).enforced():
        assert asking.get("https://nowhere.example/").text == "{}"
    assert [name for name, _ in network.given[:4]] == ["connect", "tls", "write", "read"]
    assert [seconds for _, seconds in network.given] == [30 - step / 2 for step in range(len(network.given))]


@pytest.mark.parametrize(
    ("method", "said", "raised"),
    [
        ("GET", HEAD, httpx2.ReadTimeout),
        ("GET", HEAD.replace(b"2\r\n\r\n{}", b"60\r\n\r\n" + b" " * 60), httpx2.ReadTimeout),
        ("POST", HEAD, httpx2.WriteTimeout),
    ],
    ids=["headers that drip", "a body that drips", "a request that is taken in drops"],
)
def test_what_drips_ends_at_the_deadline_wherever_it_drips(
    clock: Clock, method: str, said: bytes, raised: type[Exception]
) -> None:
    started = clock.now
    network = Network(clock, said)
    with client(network) as asking, pytest.raises(raised), Deadline(SECONDS).enforced():
        asking.request(method, "http://nowhere.example/", content=b"x" * 2_000_000 if method == "POST" else b"")
    assert clock.now - started == SECONDS


def test_the_end_of_a_body_gets_only_a_moment_once_the_answer_is_there(clock: Clock) -> None:
    deadline = Deadline(SECONDS)
    deadline.shorten()
    assert deadline.left_of(60, TimeoutError) == 0.5
    assert deadline.remaining == SECONDS
    clock.now += 0.5
    with pytest.raises(TimeoutError):
        deadline.left_of(60, TimeoutError)
    assert not deadline.passed


def test_outside_a_call_the_clients_own_times_hold(clock: Clock) -> None:
    network = Network(clock, HEAD)
    with client(network) as asking:
        asking.get("http://nowhere.example/")
    assert {seconds for _, seconds in network.given} == {60}


def test_a_pool_that_nobody_knows_is_left_alone() -> None:
    unknown = httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(200)))
    with timed(unknown) as asking, Deadline(SECONDS).enforced():
        assert asking.get("http://nowhere.example/").status_code == 200


def test_a_call_that_breaks_after_its_time_broke_because_of_it(clock: Clock) -> None:
    deadline = Deadline(SECONDS)

    def late() -> Any:
        clock.now += SECONDS
        raise ValueError("whatever")

    explain: Callable[[Exception], Any] = lambda error: error  # noqa: E731
    with pytest.raises(CallError, match="no complete answer within 10 s"):
        calls.settle(late, explain, sdk_error=OSError, deadline=deadline)


def test_a_response_that_nobody_has_any_more_is_gone_at_once() -> None:
    response = httpx2.Response(200, content=b"{}", request=httpx2.Request("POST", "http://server", content=b"[]"))
    calls.bound(response)
    assert response.read() == b"{}"
    assert b"".join(response.iter_bytes()) == b"{}"
    gone = weakref.ref(response)

    gc.disable()
    try:
        del response
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("packed", ["gzip, gzip", "gzip,deflate", "br", "zstd", "compress"])
def test_a_body_that_is_packed_more_than_once_or_otherwise_than_was_asked_for_is_not_unpacked(
    packed: str, status: int
) -> None:
    body = gzip.compress(gzip.compress(bytes(100_000_000), 1))
    response = httpx2.Response(status, stream=httpx2.ByteStream(body), headers={"content-encoding": packed})
    calls.bound(response)

    with pytest.raises(CallError, match=r"the answer is packed as .*; expected one of: gzip, deflate"):
        response.read()


@pytest.mark.parametrize("packed", ["gzip", "GZIP", "identity", ""])
def test_a_body_that_is_packed_once_is_read(packed: str) -> None:
    body = gzip.compress(b"{}") if packed.lower() == "gzip" else b"{}"
    response = httpx2.Response(200, stream=httpx2.ByteStream(body), headers={"content-encoding": packed})
    calls.bound(response)
    assert response.read() == b"{}"


def test_no_client_asks_for_what_it_would_not_unpack() -> None:
    with timed(httpx2.Client()) as asking:
        assert asking.build_request("GET", "http://x").headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("text", ['{"a":1}', ' {"a":1}', '{"a": 1} \r\n'])
def test_a_value_is_read_with_the_white_space_around_it(text: str) -> None:
    assert parse_json(text) == {"a": 1}


@pytest.mark.parametrize("text", ['{"a":1} {"b":2}', '{"a":1}x', '{"a":', "", "\ufeff{}"])
def test_what_is_not_one_whole_value_is_refused_in_the_words_of_the_standard_library(text: str) -> None:
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)
    with pytest.raises(json.JSONDecodeError) as found:
        parse_json(text)
    assert str(found.value) == str(expected.value)
