"""Calls that wait for a child process, and the thread that makes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from pytest_jsbench.core.call_queue import CallQueue, WaitingCall
from pytest_jsbench.core.child_process import ChildProcess, ChildReply, RawReply
from pytest_jsbench.core.child_service import AlarmKind
from pytest_jsbench.core.guarded_calls import BoundExceeded, GuardedCalls, end_idle_children

FUNCTIONS = "tests.support.child_functions"
WORK = f"{FUNCTIONS}:work"


def await_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_one_thread_makes_all_calls_and_ends() -> None:
    made_by: list[str] = []

    def make(call: WaitingCall) -> None:
        made_by.append(threading.current_thread().name)
        call.finish((ChildReply(values=()), [call.request.encode()]))

    queue = CallQueue(make, idle=0.05)
    for _ in range(2):
        calls = [WaitingCall(str(number), None) for number in range(20)]
        assert all(map(queue.add, calls))
        for call in calls:
            call.wait()
        assert [call.result()[1] for call in calls] == [[str(number).encode()] for number in range(20)]
        await_until(lambda: queue._thread is None)
    assert made_by == ["jsbench-calls"] * 40


def test_call_is_not_added_if_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    queue = CallQueue(lambda _: None)
    assert not queue.add(WaitingCall("", None))
    assert queue.take() is None


class WatchedChild(ChildProcess):
    """A child that notes the order of requests and replies, and the sizes of requests."""

    def __init__(self, alarm: AlarmKind, order: list[str], sizes: list[int]) -> None:
        self.order = order
        self.sizes = sizes
        super().__init__(alarm)

    def send_request(self, request: str, *, kept: str | None = None) -> int:
        size = super().send_request(request, kept=kept)
        self.order.append("request")
        self.sizes.append(size)
        return size

    def read_reply(self) -> RawReply:
        reply = super().read_reply()
        self.order.append("reply")
        return reply


class Watched:
    """Calls of a child that is busy until `release`, and what was sent to it."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.sizes: list[int] = []
        self.calls = GuardedCalls(start=partial(WatchedChild, order=self.order, sizes=self.sizes))
        self.pool = ThreadPoolExecutor(12)
        self.calls.call(f"{FUNCTIONS}:process", seconds=30)

    def ask(self, do: str, text: str = "", *, kept: str | None = None, seconds: float = 30) -> Future[ChildReply]:
        function, arguments = (WORK, (do, text)) if kept is None else ("builtins:len", ())
        options: Any = {"seconds": seconds, "memory": None, "kept": kept}
        return self.pool.submit(self.calls.values_of, function, *arguments, **options)

    def ask_while_busy(self, asks: list[Callable[[], Future[ChildReply]]]) -> list[Future[ChildReply]]:
        """Ask while another call holds the child, so that all of these calls wait."""
        with self.calls._lock:
            asked: list[Future[ChildReply]] = []
            for ask in asks:
                asked.append(ask())
                await_until(lambda: self.calls._queue._thread is not None)
            await_until(lambda: self.calls._queue._waiting.qsize() >= len(asks) - 1)
            self.order.clear()
            self.sizes.clear()
        return asked


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    with closing(watched.calls), watched.pool:
        yield watched


@pytest.mark.parametrize(("size", "ahead"), [(10, 4), (40_000, 2), (1_000_000, 0)])
def test_requests_are_sent_ahead_if_the_pipe_holds_them(watched: Watched, size: int, ahead: int) -> None:
    asked = watched.ask_while_busy([lambda: watched.ask("echo", "x" * size)] * 5)

    assert [len(each.result(timeout=30).values[0]["text"]) for each in asked] == [size] * 5
    assert watched.order.count("request") == watched.order.count("reply") == 5
    assert watched.calls._child is not None
    assert watched.order.index("reply") == (1 + ahead if watched.calls._child.room else 1)


@pytest.mark.parametrize("character", ["a", "é", "\U0001f600", "\x00", '"'])
def test_large_kept_texts_do_not_fill_the_pipe(watched: Watched, character: str) -> None:
    text = character * 60_000
    asked = watched.ask_while_busy(
        [lambda: watched.ask("say much", "900000"), *(lambda: watched.ask("", kept=text) for _ in range(2))]
    )

    assert [each.result(timeout=30).values[0] for each in asked[1:]] == [len(text)] * 2
    assert max(watched.sizes) <= WaitingCall("x" * 200, text).most_bytes


def test_reply_that_cannot_be_read_is_an_error_of_its_own_call(watched: Watched) -> None:
    results: list[Any] = watched.ask_while_busy(
        [
            lambda: watched.ask("echo", "innocent"),
            lambda: watched.pool.submit(watched.calls.call, f"{FUNCTIONS}:nest", seconds=30),
            lambda: watched.ask("echo", "innocent"),
        ]
    )

    assert [each.result(timeout=30).values[0]["text"] for each in (results[0], results[2])] == ["innocent"] * 2
    assert isinstance(results[1].exception(timeout=30), BoundExceeded)


def test_call_that_has_its_reply_waits_for_no_other(watched: Watched) -> None:
    asked = watched.ask_while_busy([lambda: watched.ask("echo", "first"), lambda: watched.ask("hang", seconds=2)])

    assert asked[0].result(timeout=1).values[0]["text"] == "first"
    assert asked[1].result(timeout=30).ending == "timeout"


def test_close_during_calls_loses_none(watched: Watched) -> None:
    asked = watched.ask_while_busy(
        [lambda: watched.pool.submit(watched.calls.values_of, "time:sleep", 0.6, seconds=30, memory=None)] * 6
    )
    time.sleep(0.1)
    watched.calls.close()

    assert [each.result(timeout=30).ending for each in asked] == [None] * 6


@pytest.mark.slow
def test_child_may_start_and_be_let_go_at_any_time() -> None:
    end = time.monotonic() + 3
    calls = GuardedCalls()

    def repeat(step: Callable[[], object]) -> None:
        while time.monotonic() < end:
            step()

    steps = [partial(calls.start, "os:getpid"), calls.let_go, calls.let_go, end_idle_children]
    threads = [threading.Thread(target=repeat, args=(step,), daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in threads)
    calls.close()
