"""Calls of several threads that one of them makes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from pytest_jsbench.core.call_queue import CallQueue, WaitingCall
from pytest_jsbench.core.child_process import ChildProcess, ChildReply
from pytest_jsbench.core.child_service import AlarmKind
from pytest_jsbench.core.guarded_calls import GuardedCalls

WORK = "tests.support.child_functions:work"


def waiting(text: str = "") -> WaitingCall:
    return WaitingCall(text, None)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def await_size(queue: CallQueue, size: int) -> None:
    while len(queue._waiting) < size:
        time.sleep(0.001)


def leave(queue: CallQueue, call: WaitingCall) -> None:
    call.has_left = True
    queue.leave(call)


def test_one_thread_makes_the_calls_of_all(threads: ThreadPoolExecutor) -> None:
    queue = CallQueue()
    first, *others = calls = [waiting() for _ in range(4)]
    assert queue.await_turn(first)
    turns = [threads.submit(queue.await_turn, call) for call in others]
    await_size(queue, 4)
    for number in range(4):
        taken = queue.take()
        assert taken is not None
        taken.finish(ChildReply(values=(number,)))

    assert [turn.result(timeout=5) for turn in turns] == [False] * 3
    assert sorted(call.reply.values[0] for call in calls if call.reply is not None) == [0, 1, 2, 3]
    assert queue.take() is None


def test_next_thread_serves_when_one_leaves(threads: ThreadPoolExecutor) -> None:
    queue = CallQueue()
    first, second = waiting(), waiting()
    assert queue.await_turn(first)
    turn = threads.submit(queue.await_turn, second)
    await_size(queue, 2)

    leave(queue, first)

    assert turn.result(timeout=5)
    assert queue.take() is second


@pytest.mark.parametrize("is_taken", [False, True])
def test_another_thread_serves_if_one_was_interrupted_before_it_could_leave(
    threads: ThreadPoolExecutor, is_taken: bool
) -> None:
    queue = CallQueue(check=0.02)
    first, second = waiting(), waiting()
    assert queue.await_turn(first)
    turn = threads.submit(queue.await_turn, second)
    await_size(queue, 2)
    taken = [queue.take(), queue.take()] if is_taken else []
    assert not turn.done()

    first.has_left = True

    assert turn.result(timeout=5)
    assert queue.take() is (second if is_taken else first)
    assert taken in ([], [first, second])


def test_calls_that_were_put_back_are_the_next_ones(threads: ThreadPoolExecutor) -> None:
    queue = CallQueue()
    first, second, third = waiting("1"), waiting("2"), waiting("3")
    assert queue.await_turn(first)
    for size, call in enumerate((second, third), start=2):
        threads.submit(queue.await_turn, call)
        await_size(queue, size)
    taken = [queue.take(), queue.take()]
    first.has_left = True  # interrupted

    queue.put_back(call for call in taken if call is not None)

    assert [queue.take(), queue.take()] == [second, third]
    for call in (second, third):
        call.finish(ChildReply(values=()))


def test_call_is_taken_only_if_there_is_room_for_it() -> None:
    queue = CallQueue()
    call = WaitingCall("request", "é" * 1000)
    queue.await_turn(call)
    assert queue.take(room=call.most_bytes - 1) is None
    assert queue.take(room=call.most_bytes) is call


class WatchedChild(ChildProcess):
    """A child that notes the order of requests and replies, and the threads that read these."""

    def __init__(self, alarm: AlarmKind, order: list[str], readers: set[str]) -> None:
        self.order = order
        self.readers = readers
        super().__init__(alarm)

    def send_request(self, request: str, *, kept: str | None = None) -> int:
        size = super().send_request(request, kept=kept)
        self.order.append("request")
        if len(self.order) == 1:
            time.sleep(0.5)  # meanwhile, other threads call
        return size

    def read_reply(self) -> ChildReply:
        reply = super().read_reply()
        self.order.append("reply")
        self.readers.add(threading.current_thread().name)
        return reply


@pytest.mark.parametrize(("size", "ahead"), [(10, 4), (40_000, 2), (1_000_000, 0)])
def test_requests_are_sent_ahead_if_the_pipe_holds_them(size: int, ahead: int) -> None:
    order: list[str] = []
    with closing(GuardedCalls(start=partial(WatchedChild, order=order, readers=set()))) as calls:
        call: Any = partial(calls.values_of, WORK, "echo", seconds=30, memory=None)
        with ThreadPoolExecutor(5) as pool:
            replies = list(pool.map(call, ["x" * size] * 5))
        assert calls._child is not None
        has_room = calls._child.room > 0

    assert [len(reply.values[0]["text"]) for reply in replies] == [size] * 5
    assert order.count("request") == order.count("reply") == 5
    assert order.index("reply") == (1 + ahead if has_room else 1)


def test_thread_with_a_reply_lets_another_one_serve() -> None:
    readers: set[str] = set()
    start = partial(WatchedChild, order=[], readers=readers)
    with closing(GuardedCalls(start=start, most_made=3)) as calls:
        call = partial(calls.call, "tests.support.child_functions:echo", seconds=30)
        with ThreadPoolExecutor(10) as pool:
            assert list(pool.map(call, range(10))) == list(range(10))
    assert len(readers) >= 4
