"""A library that hangs, crashes or breaks, in the person of a few lines of Python."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_jsbench.engines.decoding.child import LibrarySettings
from pytest_jsbench.engines.decoding.process import LibraryProcess
from pytest_jsbench.generations import CallError, FaultKind

SETTINGS = LibrarySettings(library="moody", model="m.gguf", memory=1 << 30)

#: does what it is told to; says where it lives
MOODY = """
import json, os, sys, time
sys.stdin.readline()
print('{"ready": true}', flush=True)
for line in sys.stdin:
    mood = json.loads(line)["do"]
    if mood == "hang": time.sleep(60)
    if mood == "abort": sys.stderr.write("terminate called after bad luck\\n"); sys.stderr.flush(); os.abort()
    if mood == "leave": sys.exit(0)
    if mood == "half": sys.stdout.write('{"pid": '); sys.stdout.flush(); os._exit(1)
    print(json.dumps({"broke": "PanicException: it broke"} if mood == "break" else {"pid": os.getpid()}), flush=True)
"""


@contextmanager
def process(code: str = MOODY, *, start_timeout: float = 30) -> Iterator[LibraryProcess]:
    started = LibraryProcess(SETTINGS, start_timeout=start_timeout, command=(sys.executable, "-S", "-c", code))
    try:
        yield started
    finally:
        started.close()


def pid(library: LibraryProcess) -> int:
    return int(library.ask({"do": "work"}, timeout=30, doing="work")["pid"])


def fault(library: LibraryProcess, mood: str, *, timeout: float = 30) -> CallError:
    with pytest.raises(CallError) as caught:
        library.ask({"do": mood}, timeout=timeout, doing="compile the grammar")
    return caught.value


def gone(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False


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
        ("abort", "its process ended with status -6: terminate called after bad luck"),
        ("leave", "its process ended with status 0"),
        ("half", "its process ended with status 1"),
        ("break", "PanicException: it broke"),
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
        library.ask({"do": "work"}, timeout=30, doing="work")
        os.kill(first, 15)
        end = time.perf_counter() + 10
        while time.perf_counter() < end and library.running:
            time.sleep(0.01)
        assert pid(library) != first


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ('print(\'{"error": "ImportError: no library"}\')', FaultKind.ENGINE, "cannot be loaded: ImportError"),
        ("import sys; sys.exit('no such module')", FaultKind.CRASH, "crashed and did not load: .*no such module"),
        ("import time; time.sleep(60)", FaultKind.HANG, "did not load within 0.5 s"),
    ],
)
def test_a_library_that_cannot_be_loaded_says_why(code: str, kind: FaultKind, message: str) -> None:
    with process(code, start_timeout=0.5 if kind is FaultKind.HANG else 30) as library:
        with pytest.raises(CallError, match=message) as caught:
            library.start()
        assert caught.value.kind is kind


def test_its_settings_survive_the_pipe() -> None:
    assert LibrarySettings.from_line(SETTINGS.to_line()) == SETTINGS
