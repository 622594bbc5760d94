from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, cast

import httpcore2
import httpx2
import pytest

from pytest_jsbench.engines.http import connections as module
from pytest_jsbench.engines.http.calls import Deadline, timed
from pytest_jsbench.engines.http.connections import Connections
from tests.engines.provider import Asked, Provider, Reply, json_reply, kept

HERE, THERE = "http://here.example/", "http://there.example/"


@dataclass
class Connection:
    """Answers, or breaks, and can serve a next call once its body was closed, as it is told."""

    origin: httpcore2.Origin
    state: str = "new"
    expired: bool = False
    breaks: bool = False
    asked: list[str] = field(default_factory=list)

    __hash__ = object.__hash__

    def handle_request(self, _request: httpcore2.Request) -> httpcore2.Response:
        if self.breaks:
            self.state = "closed"
            raise httpcore2.ReadError
        self.state = "active"
        return httpcore2.Response(200, content=Body(self))

    def can_handle_request(self, origin: httpcore2.Origin) -> bool:
        return origin == self.origin

    def is_available(self) -> bool:
        self.asked.append("is_available")
        return self.state == "idle"

    def has_expired(self) -> bool:
        self.asked.append("has_expired")
        return self.expired

    def close(self) -> None:
        self.state = "closed"


@dataclass
class Body:
    connection: Connection
    closed: int = 0

    def __iter__(self) -> Iterator[bytes]:
        yield b"{}"

    def close(self) -> None:
        self.closed += 1
        if self.connection.state == "active":
            self.connection.state = "idle"


class Pool:
    """Opens connections."""

    def __init__(self) -> None:
        self.opened: list[Connection] = []
        self.breaks = False

    def create_connection(self, origin: httpcore2.Origin) -> Connection:
        self.opened.append(Connection(origin, breaks=self.breaks))
        return self.opened[-1]

    def states(self) -> list[str]:
        return [one.state for one in self.opened]


@pytest.fixture
def pool() -> Pool:
    return Pool()


@pytest.fixture
def connections(pool: Pool) -> Connections:
    return Connections(cast("Any", pool), lambda: None)


def ask(connections: Connections, url: str = HERE) -> Any:
    """The response's body, which whoever asks closes."""
    return connections.handle_request(httpcore2.Request("GET", url)).stream


def test_calls_one_after_the_other_share_a_connection_and_calls_at_once_do_not(
    pool: Pool, connections: Connections
) -> None:
    for _ in range(3):
        ask(connections).close()
    assert len(pool.opened) == 1
    bodies = [ask(connections) for _ in range(3)]
    assert len(pool.opened) == 3
    assert [b"".join(body) for body in bodies] == [b"{}"] * 3


def test_a_call_looks_at_the_connection_that_it_takes_and_at_no_other(pool: Pool, connections: Connections) -> None:
    for body in [ask(connections) for _ in range(50)]:
        body.close()
    for one in pool.opened:
        one.asked.clear()
    ask(connections).close()
    assert [len(one.asked) for one in pool.opened] == [0] * 49 + [3]


def test_a_connection_that_was_idle_too_long_is_closed_and_another_is_opened(
    pool: Pool, connections: Connections
) -> None:
    ask(connections).close()
    pool.opened[0].expired = True
    ask(connections).close()
    assert pool.states() == ["closed", "idle"]


def test_a_connection_that_serves_another_server_is_not_taken(pool: Pool, connections: Connections) -> None:
    ask(connections, HERE).close()
    ask(connections, THERE).close()
    assert [one.origin.host for one in pool.opened] == [b"here.example", b"there.example"]


def test_a_connection_that_broke_or_that_its_server_closes_is_not_kept(pool: Pool, connections: Connections) -> None:
    pool.breaks = True
    with pytest.raises(httpcore2.ReadError):
        ask(connections)
    pool.breaks = False
    body = ask(connections)
    pool.opened[-1].state = "closed"
    body.close()
    ask(connections)
    assert pool.states() == ["closed", "closed", "active"]


def test_a_body_that_is_closed_twice_gives_its_connection_back_once(pool: Pool, connections: Connections) -> None:
    first = ask(connections)
    first.close()
    first.close()
    second, third = ask(connections), ask(connections)
    assert pool.states() == ["active", "active"]
    assert (second is third, len(pool.opened)) == (False, 2)


def test_the_end_closes_idle_connections_and_those_in_use(pool: Pool, connections: Connections) -> None:
    with connections:
        ask(connections).close()
        ask(connections)
        ask(connections)
    assert pool.states() == ["closed", "closed"]


@pytest.mark.parametrize("proxied", [False, True])
def test_what_a_server_sends_beyond_its_answer_is_the_answer_to_no_other_call(proxied: bool) -> None:
    def answered(asked: Asked) -> Reply:
        one, more = (kept(json_reply({"said": said})).pieces[0] for said in (asked.body, "more"))
        return Reply(pieces=(one + more,), keep=True)

    with Provider() as provider:
        provider.choose = answered
        url = "http://elsewhere.example/" if proxied else provider.url
        with timed(httpx2.Client(proxy=provider.url if proxied else None, trust_env=False)) as client:
            said = [client.post(url, json=number).json()["said"] for number in range(3)]

    assert said == [0, 1, 2]


def asked_until_closed(provider: Provider, second: Reply) -> list[Any]:
    """What three calls were told, one after the other, where a kept connection answers so to its second request."""
    kept_once = {"kept": False}

    def answered(asked: Asked) -> Reply:
        if kept_once["kept"]:
            kept_once["kept"] = False
            return second
        kept_once["kept"] = True
        return kept(json_reply({"said": asked.body}))

    provider.choose = answered
    with timed(httpx2.Client(trust_env=False)) as client, Deadline(60).enforced():
        return [client.post(provider.url, json=number).json()["said"] for number in range(3)]


CLOSED = Reply(pieces=())


@pytest.mark.parametrize("reset", [False, True])
def test_a_kept_connection_that_is_closed_under_a_request_is_no_answer_to_it(reset: bool) -> None:
    with Provider() as provider:
        said = asked_until_closed(provider, replace(CLOSED, reset=reset))
        assert said == [0, 1, 2]
        assert [asked.body for asked in provider.asked] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    "written", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 102 Processing\r\n\r\n", b"nothing that is HTTP\r\n\r\n"]
)
def test_a_server_that_said_anything_has_answered(written: bytes) -> None:
    with Provider() as provider:
        with pytest.raises(httpx2.RemoteProtocolError):
            asked_until_closed(provider, Reply(pieces=(written,)))
        assert [asked.body for asked in provider.asked] == [0, 1]


def test_a_server_that_worked_on_a_request_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 0.1)
    with Provider() as provider:
        with pytest.raises(httpx2.RemoteProtocolError, match="without sending a response"):
            asked_until_closed(provider, replace(CLOSED, silence=0.2))
        assert [asked.body for asked in provider.asked] == [0, 1]


def test_a_new_connection_that_is_closed_is_the_calls_fault() -> None:
    with Provider() as provider:
        provider.replies.append(CLOSED)
        with (
            timed(httpx2.Client(trust_env=False)) as client,
            Deadline(60).enforced(),
            pytest.raises(httpx2.RemoteProtocolError),
        ):
            client.post(provider.url, json=0)
        assert len(provider.asked) == 1


def test_a_client_that_is_closed_while_a_call_is_in_flight_asks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 60.0)

    def ask_until_closed() -> None:
        with Deadline(60).enforced():
            client.post(provider.url, json=1)

    with Provider() as provider, ThreadPoolExecutor(1) as threads:
        provider.choose = lambda asked: kept(json_reply({}, silence=float(asked.body)))
        client = timed(httpx2.Client(trust_env=False))
        client.post(provider.url, json=0)
        call = threads.submit(ask_until_closed)
        while len(provider.asked) < 2:
            time.sleep(0.001)
        client.close()
        assert isinstance(call.exception(timeout=60), httpx2.HTTPError)
        assert (len(provider.asked), provider.opened) == (2, 1)
