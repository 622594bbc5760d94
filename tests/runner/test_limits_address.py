from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.runner import limits_address
from pytest_jsbench.runner.limits_address import LimitsAddress, LimitsServer, RemoteLimits
from pytest_jsbench.runner.limits_file import LimitsFile
from pytest_jsbench.runner.provider_state import CallEnd, Sign
from pytest_jsbench.runner.rate_limits import Estimate, Permit, RateLimits, Refused
from pytest_jsbench.runs.records import MissingReason

LIMITS = RateLimits(requests_per_minute=60_000)
ESTIMATE = Estimate(input_tokens=1, output_tokens=1, seconds=60)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LimitsServer]:
    with closing(LimitsServer("127.0.0.1", 0, lambda: LimitsFile(tmp_path / "limits.db", LIMITS))) as server:
        yield server


def reserve(address: LimitsAddress) -> Permit | float:
    with closing(RemoteLimits(address, LIMITS)) as limits:
        return limits.reserve(ESTIMATE, 0)


def test_each_connection_that_knows_the_token_is_served(server: LimitsServer) -> None:
    assert all(isinstance(reserve(server.address), Permit) for _ in range(3))


def test_who_does_not_know_the_token_gets_no_permit(server: LimitsServer) -> None:
    with pytest.raises(Refused, match=r"limits at 127\.0\.0\.1:\d+ do not answer: AuthenticationError") as refused:
        reserve(replace(server.address, token="another"))

    assert refused.value.reason is MissingReason.STOPPED
    with pytest.raises(AuthenticationError):
        Client((server.address.host, server.address.port), authkey=b"")


def test_the_token_is_new_for_each_run_and_shown_nowhere(server: LimitsServer, tmp_path: Path) -> None:
    with closing(LimitsServer("127.0.0.1", 0, lambda: LimitsFile(tmp_path / "limits.db", LIMITS))) as other:
        assert server.address.token != other.address.token
    assert server.address.token not in repr(server.address)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 5000])
def test_what_a_stranger_sends_harms_nobody(server: LimitsServer, sent: bytes) -> None:
    with socket.create_connection((server.address.host, server.address.port)) as stranger:
        stranger.sendall(sent)
        assert isinstance(reserve(server.address), Permit)


@pytest.mark.parametrize("message", [b"[]", b"{}", b"not JSON", b'{"do": "stop"}', b'{"do": "reserve"}', b" " * 5000])
def test_a_message_that_is_none_ends_only_its_connection(server: LimitsServer, message: bytes) -> None:
    address = (server.address.host, server.address.port)
    with Client(address, authkey=server.address.token.encode()) as connection:
        connection.send_bytes(message)
        with pytest.raises((EOFError, ConnectionError)):
            connection.recv_bytes()

    assert isinstance(reserve(server.address), Permit)


def test_without_the_controller_no_call_is_permitted(server: LimitsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = RemoteLimits(server.address, LIMITS)
    permit = limits.reserve(ESTIMATE, 0)
    assert isinstance(permit, Permit)
    server.close()
    limits.close()
    gone = RemoteLimits(server.address, LIMITS)

    # a connection that breaks is tried again for a while
    assert gone.reserve(ESTIMATE, 0) == 1.0
    monkeypatch.setattr(limits_address, "_PATIENCE", 0.0)
    with pytest.raises(Refused, match="do not answer") as refused:
        gone.reserve(ESTIMATE, 0)
    assert refused.value.reason is MissingReason.STOPPED
    # what a call in flight used cannot be counted any more, and breaks nothing
    gone.account(permit, CallEnd(), tokens=1, cost=0, output=1)


def test_a_controller_that_takes_a_connection_and_says_nothing_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits_address, "_PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = LimitsAddress(host="127.0.0.1", port=silent.getsockname()[1], token="t")

        with pytest.raises(Refused, match="do not answer"):
            reserve(address)


def test_a_stranger_who_connects_and_says_nothing_is_let_go(
    server: LimitsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits_address, "_PATIENCE", 0.2)
    with socket.create_connection((server.address.host, server.address.port), timeout=30) as stranger:
        while stranger.recv(4096):  # the challenge, and then the end
            pass


def test_a_port_that_is_taken_is_one_line(server: LimitsServer) -> None:
    with pytest.raises(JSBenchError, match=r"no limits can be served at 127\.0\.0\.1:\d+: .*; expected a free port"):
        LimitsServer("127.0.0.1", server.address.port, lambda: LimitsFile(Path("unused"), LIMITS))


def test_a_pause_of_one_machine_holds_for_the_others(server: LimitsServer) -> None:
    with closing(RemoteLimits(server.address, LIMITS)) as one, closing(RemoteLimits(server.address, LIMITS)) as other:
        one.account(Permit(), CallEnd(sign=Sign.REFUSED, retry_after=60), tokens=0, cost=0)

        wait = other.reserve(ESTIMATE, 0)

    assert isinstance(wait, float)
    assert 50 < wait <= 60
