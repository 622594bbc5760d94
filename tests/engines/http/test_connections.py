from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import httpcore2
import httpx2
import pytest

from pytest_jsbench.engines.http.calls import timed
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
    return Connections(cast("Any", pool))


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
