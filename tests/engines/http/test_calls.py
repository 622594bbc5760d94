from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_jsbench.engines.http.calls import Scissors

NOW, LATER, NEVER = 0.0, 0.02, 60.0


class Connection:
    """A response of a client, as far as it matters here, and the far end of its connection."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.far.settimeout(5)
        self.extensions = {"network_stream": self}

    def get_extra_info(self, name: str) -> socket.socket:
        assert name == "socket"
        return self.near

    def is_shut(self) -> bool:
        """Waits for it."""
        return self.far.recv(1) == b""

    def is_open(self) -> bool:
        self.far.settimeout(0.05)
        with pytest.raises(TimeoutError):
            self.far.recv(1)
        return True


@pytest.fixture
def connections() -> Iterator[list[Any]]:
    opened = [Connection() for _ in range(3)]
    yield opened
    for connection in opened:
        connection.near.close()
        connection.far.close()


def test_each_connection_is_shut_at_its_own_time_in_whichever_order_they_came(connections: list[Any]) -> None:
    scissors = Scissors()
    for connection, after in zip(connections, (NEVER, LATER, NOW), strict=True):
        scissors.cut(connection, after=after)

    assert connections[2].is_shut()
    assert connections[1].is_shut()
    assert connections[0].is_open()


def test_what_is_forgotten_is_not_shut(connections: list[Any]) -> None:
    scissors = Scissors()
    scissors.forget(scissors.cut(connections[0], after=LATER))
    scissors.cut(connections[1], after=LATER)

    assert connections[1].is_shut()
    assert connections[0].is_open()


def test_one_thread_does_it_all_and_ends_when_there_is_nothing_left(connections: list[Any]) -> None:
    before = set(threading.enumerate())
    scissors = Scissors()
    for connection in connections:
        scissors.cut(connection, after=LATER)

    started = set(threading.enumerate()) - before
    assert len(started) <= 1
    assert all(connection.is_shut() for connection in connections)
    for thread in started:
        thread.join(5)
        assert not thread.is_alive()
