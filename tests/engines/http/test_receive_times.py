"""Times at which data could be read: the end of the wait, and the kernel's timestamp."""

from __future__ import annotations

import itertools
import platform
import select
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.engines.http.answers import EventStream
from pytest_jsbench.engines.http.receive_times import (
    _SO_TIMESTAMPNS,
    _SOL_SOCKET,
    Read,
    Select,
    TimedReceiver,
    find_select,
    first_arrival,
    holds_record,
)
from pytest_jsbench.engines.http.timed_socket import TimedSocket
from tests.support.answer_reading import Body

#: The client's end of a connection, and the server's.
Pair = tuple[socket.socket, socket.socket]
#: Maximum difference between two clocks that are read one after the other, in seconds.
TOLERANCE = 0.001


def seconds_left() -> float:
    return 10.0


@pytest.fixture(scope="module", autouse=True)
def _timestamps() -> Iterator[None]:
    """Keep a socket with timestamps: Linux begins to make them only some time after the first socket asks for them."""
    with socket.socket() as sock:
        if sys.platform.startswith("linux"):
            sock.setsockopt(_SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            time.sleep(0.1)
        yield


@contextmanager
def connected() -> Iterator[Pair]:
    """Open a TCP connection, since only the kernel's TCP merges segments."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with client, other:
        yield client, other


@pytest.fixture
def connection() -> Iterator[Pair]:
    with connected() as pair:
        yield pair


@pytest.fixture
def encrypted(certificate: Path) -> Iterator[Pair]:
    """Open a connection with TLS."""
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_server.load_cert_chain(certificate)
    of_client = ssl.create_default_context(cafile=str(certificate))
    with connected() as (client, other), ThreadPoolExecutor(1) as threads:
        accepted = threads.submit(of_server.wrap_socket, other, server_side=True)
        with of_client.wrap_socket(client, server_hostname="localhost") as own, accepted.result() as peer:
            yield own, peer


@pytest.fixture(params=["connection", "encrypted"])
def either(request: pytest.FixtureRequest) -> Pair:
    """Return a connection, first a plain one and then one with TLS."""
    pair: Pair = request.getfixturevalue(request.param)
    return pair


def receiver_of(pair: Pair) -> TimedReceiver:
    receiver = TimedReceiver.of(pair[0])
    if receiver is None:
        pytest.skip("times of arrival are only measured on Linux, if select leaves the remaining time")
    pair[0].settimeout(0)
    return receiver


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc", reason="only measured with glibc"
)
def test_arrival_is_measured_on_linux(either: Pair) -> None:
    assert TimedReceiver.of(either[0]) is not None


def test_data_arrives_between_sending_and_reading(either: Pair) -> None:
    receiver = receiver_of(either)
    for _ in range(3):
        start = time.perf_counter()
        either[1].sendall(b"data")
        buffer = bytearray(10)

        count, read = receiver.read_into(memoryview(buffer), seconds_left)

        assert buffer[:count] == b"data"
        assert start - TOLERANCE <= read.received <= time.perf_counter()
        assert start <= read.woken <= time.perf_counter()


def test_data_that_waited_arrived_before_it_was_read(either: Pair) -> None:
    receiver = receiver_of(either)
    either[1].sendall(b"data")
    sent_at = time.perf_counter()
    time.sleep(0.05)  # as if other threads were running

    count, read = receiver.read_into(memoryview(bytearray(10)), seconds_left)

    assert count == 4
    assert read.received <= sent_at + TOLERANCE


def test_record_that_others_follow_arrived_when_the_wait_ended(encrypted: Pair) -> None:
    receiver = receiver_of(encrypted)
    encrypted[1].sendall(b"first")
    select.select(encrypted[:1], (), (), 10)
    time.sleep(2 * TOLERANCE)
    for _ in range(3):
        encrypted[1].sendall(b"more")
    time.sleep(2 * TOLERANCE)
    buffer = bytearray(100)
    before = time.perf_counter()

    reads = [receiver.read_into(memoryview(buffer), seconds_left) for _ in range(4)]

    assert [count for count, _ in reads] == [5, 4, 4, 4]
    # the kernel has kept only one timestamp, that of the last record
    assert all(read.received <= read.woken for _, read in reads)
    assert reads[-1][1].received < before


@pytest.mark.parametrize("is_small", [True, False])
def test_data_before_a_reset_are_read(encrypted: Pair, is_small: bool) -> None:
    receiver = receiver_of(encrypted)
    data = b"answer" if is_small else b"a" * 30_000
    encrypted[1].sendall(data)
    encrypted[1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    encrypted[1].close()
    buffer = memoryview(bytearray(1 << 16))
    found = b""
    while len(found) < len(data):
        found += bytes(buffer[: receiver.read_into(buffer, seconds_left)[0]])

    assert found == data
    with suppress(OSError):
        assert receiver.read_into(buffer, seconds_left)[0] == 0


def test_data_are_decrypted_after_another_thread_has_ended_the_connection(encrypted: Pair) -> None:
    sock = TimedSocket(encrypted[0])
    sock.settimeout(10)
    encrypted[1].sendall(b"data")
    select.select(encrypted[:1], (), (), 10)

    sock.shutdown(socket.SHUT_RDWR)

    with sock.makefile() as stream:
        assert stream.read1() == b"data"
        assert stream.read1() == b""


RECORD, MESSAGE = b"\x17\x03\x03\x00\x02ab", b"\x15\x03\x03\x00\x01c"


@pytest.mark.parametrize(
    ("data", "held"),
    [
        (RECORD, True),
        (RECORD + MESSAGE, True),
        (MESSAGE + RECORD, True),
        (b"", False),
        (RECORD[:4], False),
        (RECORD[:-1], False),
        (MESSAGE, False),
        (MESSAGE + RECORD[:-1], False),
    ],
)
def test_record_is_held_if_it_has_arrived_completely(data: bytes, held: bool) -> None:
    assert holds_record(data) is held


def test_record_is_read_in_parts(encrypted: Pair) -> None:
    receiver = receiver_of(encrypted)
    encrypted[1].sendall(b"0123456789")
    buffer = memoryview(bytearray(4))

    parts = [(bytes(buffer[:count]), read) for count, read in (receiver.read_into(buffer, seconds_left) for _ in "123")]

    assert [data for data, _ in parts] == [b"0123", b"4567", b"89"]
    assert len({read for _, read in parts}) == 1


def test_record_that_arrives_in_parts_is_waited_for(certificate: Path) -> None:
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_server.load_cert_chain(certificate)
    of_client = ssl.create_default_context(cafile=str(certificate))
    received, written = ssl.MemoryBIO(), ssl.MemoryBIO()
    peer = of_server.wrap_bio(received, written, server_side=True)
    with connected() as (client, other), ThreadPoolExecutor(1) as threads:

        def shake_hands() -> None:
            while True:
                try:
                    return peer.do_handshake()
                except ssl.SSLWantReadError:
                    other.sendall(written.read())
                    received.write(other.recv(65536))

        shaken = threads.submit(shake_hands)
        with of_client.wrap_socket(client, server_hostname="localhost") as own:
            shaken.result()
            receiver = receiver_of((own, other))
            peer.write(b"data")
            record = written.read()
            other.sendall(record[:-3])
            threading.Timer(0.05, other.sendall, (record[-3:],)).start()
            start = time.perf_counter()

            count, read = receiver.read_into(memoryview(bytearray(10)), seconds_left)

            assert count == 4
            assert read.received >= start + 0.04


def test_first_of_merged_segments_arrived_when_the_wait_ended(
    connection: Pair,
) -> None:
    if (found := find_select()) is None:
        pytest.skip("the time at which a wait ends is not measured")
    wait = found.waiter(connection[0].fileno())
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
    if (found := find_select()) is None:
        pytest.skip("the time at which a wait ends is not measured")
    ended_at = []

    def function(*arguments: Any) -> int:
        ready = found.function(*arguments)
        ended_at.append(time.perf_counter())
        time.sleep(2 * TOLERANCE)  # as if other threads were running
        return ready

    connection[1].sendall(b"data")
    assert Select(function).waiter(connection[0].fileno())(10.0) <= ended_at[0]


@pytest.mark.parametrize("leaves_time", [False, True])
def test_select_that_keeps_its_timeout_is_not_used(*, leaves_time: bool) -> None:
    if (found := find_select()) is None:
        pytest.skip("the time at which a wait ends is not measured")
    assert Select(found.function if leaves_time else lambda *_: 0).leaves_time() is leaves_time


def test_only_segment_arrived_when_the_kernel_received_it() -> None:
    assert first_arrival(Read(woken=1.0, received=3.0), followed=False) == 3.0
    assert first_arrival(Read(woken=3.0, received=1.0), followed=True) == 1.0
    assert first_arrival(Read(woken=1.0, received=3.0), followed=True) == 1.0


@pytest.mark.parametrize("shift", [-3600.0, 3600.0])
def test_timestamp_of_a_changed_clock_is_ignored(connection: Pair, shift: float) -> None:
    if (found := find_select()) is None:
        pytest.skip("the time at which a wait ends is not measured")
    wait = found.waiter(connection[0].fileno())
    receiver = TimedReceiver(connection[0], wait, real_time=lambda: time.clock_gettime(time.CLOCK_REALTIME) + shift)
    connection[1].sendall(b"data")

    _, read = receiver.read_into(memoryview(bytearray(10)), seconds_left)

    assert read.received == read.woken


def test_clocks_are_read_again_if_the_thread_had_to_wait_in_between(connection: Pair) -> None:
    if (found := find_select()) is None:
        pytest.skip("the time at which a wait ends is not measured")
    pauses = [0.02, 0.02]

    def real_time() -> float:
        if pauses:
            time.sleep(pauses.pop())
        return time.clock_gettime(time.CLOCK_REALTIME)

    receiver = TimedReceiver(connection[0], found.waiter(connection[0].fileno()), real_time=real_time)
    connection[1].sendall(b"data")
    sent_at = time.perf_counter()

    _, read = receiver.read_into(memoryview(bytearray(10)), seconds_left)

    assert abs(read.received - sent_at) <= TOLERANCE


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


def test_end_of_the_stream_and_a_closed_socket(either: Pair) -> None:
    receiver = receiver_of(either)
    either[1].close()
    assert receiver.read_into(memoryview(bytearray(10)), seconds_left)[0] == 0
    either[0].close()
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


def test_times_of_other_sockets_are_not_measured() -> None:
    class Patched(socket.socket):
        """A socket of a library such as gevent, whose waits let other tasks run."""

    with Patched() as patched:
        assert TimedReceiver.of(patched) is None


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


def test_no_times_are_measured_after_the_first_token(either: Pair) -> None:
    connection = either
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
