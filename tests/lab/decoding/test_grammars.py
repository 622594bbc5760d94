"""Tests with a fake library that hangs, crashes or breaks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.lab.decoding.grammars import Grammars, LibraryProcess

MOODY = "tests.support.faulty_library"


@contextmanager
def process(start: str = "well", *, start_timeout: float = 30) -> Iterator[LibraryProcess]:
    started = LibraryProcess("moody", start, memory=1 << 30, start_timeout=start_timeout, module=MOODY)
    try:
        yield started
    finally:
        started.close()


def pid(library: LibraryProcess) -> int:
    return int(library.ask("work", timeout=30, doing="work")["pid"])


def fault(library: LibraryProcess, mood: str, *, timeout: float = 30) -> CallError:
    with pytest.raises(CallError) as caught:
        library.ask(mood, timeout=timeout, doing="compile the grammar")
    return caught.value


def gone(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{number}/stat")  # A zombie process still exists.
    return status.exists() and " Z " in status.read_text()


def test_one_process_answers_question_after_question() -> None:
    with process() as library:
        assert pid(library) == pid(library)


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill with 0 asks only on POSIX")
def test_a_hang_costs_one_question() -> None:
    with process() as library:
        first = pid(library)
        started = time.perf_counter()
        error = fault(library, "hang", timeout=0.2)
        assert time.perf_counter() - started < 10
        assert error.kind is FaultKind.HANG
        assert error.message == "moody did not compile the grammar within 0.2 s; its process was ended"
        assert gone(first)
        assert pid(library) != first


@pytest.mark.parametrize(
    ("mood", "message"),
    [
        ("abort", "its process ended: terminate called after bad luck"),
        ("leave", "its process ended: exit status 0"),
        ("break", "PanicException: it broke, moody, after it began well"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="a status of -6 is POSIX's")
def test_a_crash_costs_one_question(mood: str, message: str) -> None:
    with process() as library:
        first = pid(library)
        error = fault(library, mood)
        assert error.kind is FaultKind.CRASH
        assert error.message == f"moody crashed and did not compile the grammar: {message}"
        assert pid(library) != first


def test_a_process_that_died_between_questions_is_replaced() -> None:
    with process() as library:
        first = pid(library)
        library.ask("work", timeout=30, doing="work")
        os.kill(first, 15)
        end = time.perf_counter() + 10
        while time.perf_counter() < end and not gone(first):
            time.sleep(0.01)
        assert pid(library) != first


@pytest.mark.parametrize(
    ("start", "kind", "message"),
    [
        ("no library", FaultKind.ENGINE, "cannot be loaded: ImportError: no moody"),
        ("exit", FaultKind.CRASH, "crashed and did not load: .*no such module"),
        ("hang", FaultKind.HANG, r"did not load within 0\.3 s"),
    ],
)
def test_a_library_that_cannot_be_loaded_says_why(start: str, kind: FaultKind, message: str) -> None:
    with process(start, start_timeout=0.3 if kind is FaultKind.HANG else 30) as library:
        with pytest.raises(CallError, match=message) as caught:
            library.start()
        assert caught.value.kind is kind


def test_a_process_that_came_back_is_lent_again_and_no_more_than_there_are() -> None:
    made = [LibraryProcess("moody", "well", memory=1 << 30, start_timeout=30, module=MOODY) for _ in range(2)]
    grammars = Grammars(made, bounded=False, compile_timeout=1, mask_timeout=1)

    def borrow() -> LibraryProcess:
        with grammars.reserve_process() as process:
            return process

    assert borrow() is borrow()
    with ThreadPoolExecutor(1) as threads:
        with grammars.reserve_process() as first, grammars.reserve_process() as second:
            assert {first, second} == set(made)
            third = threads.submit(borrow)
            with pytest.raises(TimeoutError):
                third.result(0.1)
        assert third.result(5) is first
    grammars.close()
