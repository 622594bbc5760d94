"""Times at which data could be read: the end of the wait, and the kernel's timestamp."""

from __future__ import annotations

import itertools
import platform
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_jsbench.engines.http.answers import EventStream
from pytest_jsbench.engines.http.receive_times import Read, Select, TimedReceiver, find_select, first_arrival
from pytest_jsbench.engines.http.timed_socket import TimedSocket
from tests.support.answer_reading import Body

#: The client's end of a connection, and the server's.
Pair = tuple[socket.socket, socket.socket]
#: Maximum difference between two clocks that are read one after the other, in seconds.
TOLERANCE = 0.001


def seconds_left() -> float:
    return 10.0


@pytest.fixture
def connection() -> Iterator[Pair]:
    """Open a TCP connection, since only the kernel's TCP merges segments."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with client, other:
        yield client, other


@pytest.fixture
def receiver(connection: Pair) -> TimedReceiver:
    receiver = TimedReceiver.of(connection[0])
    if receiver is None:
        pytest.skip("times of arrival are only measured on Linux, if select leaves the remaining time")
    connection[0].settimeout(0)
    return receiver


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc", reason="only measured with glibc"
)
def test_arrival_is_measured_on_linux(connection: Pair) -> None:
    assert TimedReceiver.of(connection[0]) is not None


def test_data_arrives_between_sending_and_reading(receiver: TimedReceiver, connection: Pair) -> None:
    for _ in range(3):
        start = time.perf_counter()
        connection[1].sendall(b"data")
        buffer = bytearray(10)

        count, read = receiver.read_into(memoryview(buffer), seconds_left)

        assert buffer[:count] == b"data"
        assert start - TOLERANCE <= read.received <= time.perf_counter()
        assert start <= read.woken <= time.perf_counter()


def test_first_of_merged_segments_arrived_when_the_wait_ended(
    connection: Pair,
) -> None:
    if (select := find_select()) is None:
        pytest.skip("the time at which a wait ends is not measured")
    wait = select.waiter(connection[0].fileno())
    resumed_at = 0.0

    def wait_for_the_interpreter(seconds: float) -> float:
        """Wait, and then let more segments arrive before the read, as if other threads were running."""
        nonlocal resumed_at
        woken = wait(seconds)
        resumed_at = time.perf_counter()
        for _ in range(3):
            time.sleep(2 * TOLERANCE)
            connection[1].sendall(b"more")
        return woken

    connection[0].settimeout(0)
    connection[1].sendall(b"first")

    receiver = TimedReceiver(connection[0], wait_for_the_interpreter)
    count, read = receiver.read_into(memoryview(bytearray(100)), seconds_left)

    assert count == len(b"firstmoremoremore")
    assert first_arrival(read, followed=True) <= resumed_at < read.received


def test_wait_ends_before_the_interpreter_is_free(connection: Pair) -> None:
    if (select := find_select()) is None:
        pytest.skip("the time at which a wait ends is not measured")
    ended_at = []

    def function(*arguments: Any) -> int:
        found = select.function(*arguments)
        ended_at.append(time.perf_counter())
        time.sleep(2 * TOLERANCE)  # as if other threads were running
        return found

    connection[1].sendall(b"data")
    assert Select(function).waiter(connection[0].fileno())(10.0) <= ended_at[0]


@pytest.mark.parametrize("leaves_time", [False, True])
def test_select_that_keeps_its_timeout_is_not_used(*, leaves_time: bool) -> None:
    if (select := find_select()) is None:
        pytest.skip("the time at which a wait ends is not measured")
    assert Select(select.function if leaves_time else lambda *_: 0).leaves_time() is leaves_time


def test_only_segment_arrived_when_the_kernel_received_it() -> None:
    assert first_arrival(Read(woken=1.0, received=3.0), followed=False) == 3.0
    assert first_arrival(Read(woken=3.0, received=1.0), followed=True) == 1.0
    assert first_arrival(Read(woken=1.0, received=3.0), followed=True) == 1.0


@pytest.mark.parametrize("shift", [-3600.0, 3600.0])
def test_timestamp_of_a_changed_clock_is_ignored(connection: Pair, shift: float) -> None:
    if (select := find_select()) is None:
        pytest.skip("the time at which a wait ends is not measured")
    wait = select.waiter(connection[0].fileno())
    receiver = TimedReceiver(connection[0], wait, real_time=lambda: time.clock_gettime(time.CLOCK_REALTIME) + shift)
    connection[1].sendall(b"data")

    _, read = receiver.read_into(memoryview(bytearray(10)), seconds_left)

    assert read.received == read.woken


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel has no such timestamps")
def test_interrupted_wait_is_repeated(connection: Pair) -> None:
    waits = itertools.count()

    def interrupted(_: float) -> float:
        if next(waits) == 2:
            connection[1].sendall(b"data")
        return time.perf_counter()

    connection[0].settimeout(0)
    receiver = TimedReceiver(connection[0], interrupted)
    assert receiver.read_into(memoryview(bytearray(10)), seconds_left)[0] == 4
    assert next(waits) == 3


def test_wait_ends_with_the_remaining_time(connection: Pair) -> None:
    sock = TimedSocket(connection[0])
    sock.settimeout(0.02)
    with sock.makefile() as stream, pytest.raises(TimeoutError, match="timed out"):
        stream.read1()


def test_end_of_the_stream_and_a_closed_socket(receiver: TimedReceiver, connection: Pair) -> None:
    connection[1].close()
    assert receiver.read_into(memoryview(bytearray(10)), seconds_left)[0] == 0
    connection[0].close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        receiver.read_into(memoryview(bytearray(10)), seconds_left)


def test_descriptor_of_any_size_can_be_waited_for(connection: Pair) -> None:
    fcntl = pytest.importorskip("fcntl")
    resource = pytest.importorskip("resource")
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 3000:
        pytest.skip("too few descriptors")
    with socket.socket(fileno=fcntl.fcntl(connection[0].fileno(), fcntl.F_DUPFD, 2500)) as high:
        high.settimeout(0)
        if (receiver := TimedReceiver.of(high)) is None:
            pytest.skip("times of arrival are not measured")
        connection[1].sendall(b"data")
        assert receiver.read_into(memoryview(bytearray(10)), seconds_left)[0] == 4


def test_times_of_other_sockets_are_not_measured(connection: Pair) -> None:
    class Patched(socket.socket):
        """A socket of a library such as gevent, whose waits let other tasks run."""

    with Patched() as patched:
        assert TimedReceiver.of(patched) is None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    encrypted = context.wrap_socket(connection[0], do_handshake_on_connect=False)
    with encrypted:
        assert TimedReceiver.of(encrypted) is None


def test_socket_without_timestamps_is_read(connection: Pair) -> None:
    class Patched(socket.socket):
        """A socket whose times are not measured."""

    with Patched(fileno=connection[0].detach()) as patched:
        sock = TimedSocket(patched)
        sock.settimeout(10)
        connection[1].sendall(b"data")
        with sock.makefile() as stream:
            assert stream.read1() == b"data"
    assert (sock.read_times.last, sock.received) == (None, 4)


def test_no_times_are_measured_after_the_first_token(connection: Pair) -> None:
    sock = TimedSocket(connection[0])
    sock.settimeout(10)
    with sock.makefile() as stream:
        connection[1].sendall(b"first")
        assert stream.read1() == b"first"
        if (first := sock.read_times.last) is None:
            pytest.skip("times of arrival are not measured")
        assert sock.read_times.end() is first
        connection[1].sendall(b"later")
        assert (stream.read1(), sock.read_times.last) == (b"later", None)
    with sock.makefile() as stream:
        connection[1].sendall(b"next response")
        assert stream.read1() == b"next response"
        assert sock.read_times.last is not None


class Reads(Body):
    """A body whose pieces are completed by these reads."""

    def __init__(self, *pieces: str, reads: tuple[Read | None, ...]) -> None:
        super().__init__(*pieces)
        self.reads = iter(reads)

    def iter_bytes(self) -> Iterator[bytes]:
        while self.unread:
            self.read_times.last = next(self.reads)
            yield self.unread.pop(0)


ONE, TWO = Read(woken=1.0, received=1.5), Read(woken=2.0, received=2.5)


@pytest.mark.parametrize(
    ("pieces", "reads", "arrived"),
    [
        (("data: 0\n\n", "data: 1\n\n", "data: 2\n\n"), (ONE, TWO, None), 2.5),
        (("data: 0\n\ndata: 1\n\n", "data: 2\n\n"), (ONE, None), 1.5),
        (("data: 0\n\n", "data: 1\n\ndata: 2\n\n"), (ONE, TWO), 2.0),
        (("data: 0\n\n", "data: 1\n\ndata: [DONE]\n\n"), (ONE, TWO), 2.0),
        (("data: 0\n\n", "data: 1\n\n", "data: 2\n\n"), (None, None, None), None),
    ],
    ids=["in reads of their own", "last of a read", "first of a read", "before the marker", "not measured"],
)
def test_arrival_of_the_first_content(
    pieces: tuple[str, ...], reads: tuple[Read | None, ...], arrived: float | None
) -> None:
    body: Any = Reads(*pieces, reads=reads)
    stream = EventStream(body)
    for event in stream:
        if event == 1:
            stream.mark_first_content()
    assert stream.first_content_at == arrived
