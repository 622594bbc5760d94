"""
The limits of a run at a network address, for workers on machines that cannot see the controller's file.

A message is one JSON text: what to do, and numbers. Both sides first prove that they know the run's token, which is
never sent (`multiprocessing.connection`, HMAC); no message is unpickled. The messages themselves are not encrypted.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import sqlite3
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener, answer_challenge, deliver_challenge
from typing import Any

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.runner.provider_state import CallEnd, ProviderState, Sign
from pytest_jsbench.runner.rate_limits import Estimate, Permit, RateLimits, Refused, SharedLimits
from pytest_jsbench.runs.records import MissingReason

#: seconds without an answer after which the controller counts as gone
_PATIENCE = 30.0
#: seconds until a worker asks again that got no answer
_ASK_AGAIN = 1.0
_LARGEST_MESSAGE = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsAddress:
    """Where a controller serves its limits, and the token that a worker must know."""

    host: str
    port: int
    token: str = field(repr=False)


class LimitsServer:
    """
    Serves the limits of a run to workers on other machines.

    The controller makes one where --jsbench-limits names an address, and closes it at the end of the session. One
    thread takes connections, and one for each of them answers; all are daemons, and end with their connection.
    """

    def __init__(self, host: str, port: int, open_limits: Callable[[], SharedLimits]) -> None:
        try:
            self._listener = Listener((host, port), backlog=64)
        except OSError as error:
            message = f"no limits can be served at {host}:{port}: {error}; expected a free port of this machine"
            raise JSBenchError(message, found=f"{host}:{port}", where="--jsbench-limits") from error
        bound: Any = self._listener.address
        self.address = LimitsAddress(host=host, port=bound[1], token=secrets.token_hex(32))
        self._limits = open_limits()
        self._closed = threading.Event()
        threading.Thread(target=self._accept, name="jsbench-limits", daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those that are open end with their workers."""
        self._closed.set()
        self._listener.close()
        self._limits.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection: Connection = self._listener.accept()
            except OSError:  # a connection was broken off, or the listener is closed
                self._closed.wait(0.1)
                continue
            threading.Thread(target=self._serve, args=(connection,), name="jsbench-limits", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        token = self.address.token.encode()
        broken = (OSError, EOFError, AuthenticationError, ValueError, KeyError, TypeError, sqlite3.Error, Refused)
        with connection, contextlib.suppress(*broken):
            _wait_at_most(connection.fileno(), _PATIENCE)  # a stranger who says nothing keeps no thread
            deliver_challenge(connection, token)
            answer_challenge(connection, token)
            _wait_at_most(connection.fileno(), 0)
            while True:
                message = json.loads(connection.recv_bytes(_LARGEST_MESSAGE))
                if self._closed.is_set():
                    return
                connection.send_bytes(json.dumps(self._answer(message)).encode())

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        match message["do"]:
            case "reserve":
                try:
                    names = str(message["provider"]), str(message["server"])
                    admitted = self._limits.reserve(Estimate(**message["estimate"]), float(message["cost"]), *names)
                except Refused as refused:
                    return {"refused": refused.message, "reason": refused.reason}
                return {"permit": asdict(admitted)} if isinstance(admitted, Permit) else {"wait": admitted}
            case "account":
                end = CallEnd(**{**message["end"], "sign": Sign(message["end"]["sign"])})
                state = self._limits.account(
                    Permit(**message["permit"]),
                    end,
                    tokens=int(message["tokens"]),
                    cost=float(message["cost"]),
                    output=message["output"],
                )
                return asdict(state)
            case "spend":
                self._limits.spend(float(message["cost"]))
            case "spent":
                return {"spent": self._limits.spent()}
            case _:
                raise ValueError(message["do"])
        return {}


class RemoteLimits:
    """
    The limits of a run, as a worker on another machine asks for them at the controller's address; a SharedLimits.

    Each Admission of such a worker has one. Any thread may call any method; one message is on its way at a time. Where
    the controller gives no answer for half a minute, no call is permitted any more, since nobody could count it.
    """

    #: the controller knows how each provider is doing
    idle = False

    def __init__(self, address: LimitsAddress, limits: RateLimits) -> None:
        self.limits = limits
        self._address = address
        self._connection: Connection | None = None
        self._closed = False
        #: when the controller last answered, in monotonic seconds
        self._answered = time.monotonic()
        self._lock = threading.Lock()

    def reserve(self, estimate: Estimate, cost: float, provider: str = "", server: str = "") -> Permit | float:
        """Ask for a permit; Refused where the limit, or the controller, permits no more calls."""
        try:
            answer = self._ask("reserve", estimate=asdict(estimate), cost=cost, provider=provider, server=server)
        except (OSError, EOFError, AuthenticationError) as error:
            if not isinstance(error, AuthenticationError) and time.monotonic() - self._answered < _PATIENCE:
                return _ASK_AGAIN
            where = f"{self._address.host}:{self._address.port}"
            message = f"the run's limits at {where} do not answer: {type(error).__name__}: {error}"
            raise Refused(MissingReason.STOPPED, message) from error
        if "refused" in answer:
            raise Refused(MissingReason(answer["reason"]), answer["refused"])
        return Permit(**answer["permit"]) if "permit" in answer else float(answer["wait"])

    def account(
        self, permit: Permit, end: CallEnd, *, tokens: int, cost: float, output: int | None = None
    ) -> ProviderState:
        """Report what a call used, and how it ended; where the controller is gone its reservation counts as spent."""
        if not self._closed:
            with contextlib.suppress(OSError, EOFError, AuthenticationError):
                used = {"tokens": tokens, "cost": cost, "output": output}
                return ProviderState(**self._ask("account", permit=asdict(permit), end=asdict(end), **used))
        return ProviderState()

    def spend(self, cost: float) -> None:
        """Add US dollars that were not paid for calls."""
        self._ask("spend", cost=cost)

    def spent(self) -> float:
        """US dollars that settled calls of all machines have cost so far."""
        return float(self._ask("spent")["spent"])

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _ask(self, what: str, **values: Any) -> dict[str, Any]:
        with self._lock:
            if self._closed:
                raise EOFError("the session has ended")
            connection = self._connection
            if connection is None:
                connection = self._connection = self._connect()
            try:
                connection.send_bytes(json.dumps({"do": what, **values}).encode())
                if not connection.poll(_PATIENCE):
                    raise TimeoutError(f"no answer for {_PATIENCE:g} s")
                answer: dict[str, Any] = json.loads(connection.recv_bytes(_LARGEST_MESSAGE))
            except BaseException:
                connection.close()
                self._connection = None
                raise
            self._answered = time.monotonic()
            return answer

    def _connect(self) -> Connection:
        """A connection whose other side knows the token; OSError where it takes one and says nothing."""
        token = self._address.token.encode()
        with socket.create_connection((self._address.host, self._address.port), timeout=_PATIENCE) as made:
            made.settimeout(None)
            _wait_at_most(made.fileno(), _PATIENCE)
            connection = Connection(made.detach())
        try:
            answer_challenge(connection, token)
            deliver_challenge(connection, token)
        except BaseException:
            connection.close()
            raise
        return connection


def _wait_at_most(descriptor: int, seconds: float) -> None:
    """Bound each receive from the socket, by the system: what multiprocessing reads with knows no time. 0: no bound."""
    if sys.platform != "win32":
        timeval = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        with socket.socket(fileno=os.dup(descriptor)) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
