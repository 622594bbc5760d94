from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.child_process import ChildNotStarted, ChildProcess, ChildReply, environment
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, GuardedCalls, end_idle_children
from pytest_jsbench.engines.local import serve_model
from pytest_jsbench.engines.local_server import ServerSettings

SECRET = "not-for-children-0815"
#: Names of variables with secrets, and one that no list of such names would contain.
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "NETRC", "LLAMA_API_KEY", "XYZZY")


@contextlib.contextmanager
def called() -> Iterator[int]:
    calls = GuardedCalls()
    yield calls.call("tests.support.child_functions:process", seconds=30)
    calls.close()


@contextlib.contextmanager
def serving_a_model() -> Iterator[int]:
    settings = ServerSettings(model="m.gguf", alias="m", slots=1, context=64, threads=1)
    with serve_model(settings, timeout=30, server="tests.support.child_functions:process_of") as address:
        yield int(address)


def pid(calls: GuardedCalls) -> int:
    child = calls._child
    assert child is not None
    return child._process.pid


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the system does not show environments")
@pytest.mark.parametrize("child", [called, serving_a_model])
def test_no_child_is_given_a_secret_of_the_environment(
    child: Callable[[], contextlib.AbstractContextManager[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with child() as number:
        assert number != os.getpid()
        given = Path(f"/proc/{number}/environ").read_bytes()
    assert b"OMP_NUM_THREADS=1" in given
    assert SECRET.encode() not in given


def test_child_gets_the_environment_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "OPENBLAS_CORETYPE", "TMPDIR", "PYTHONHOME", "SYSTEMROOT"):
        monkeypatch.setenv(name, "needed")
    for name in ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "in the way")
    given = environment()
    assert [name for name in given if given[name] == "in the way"] == []
    assert {"LC_ALL", "OPENBLAS_CORETYPE", "TMPDIR", "PYTHONHOME", "SYSTEMROOT", "PATH"} <= given.keys()


@pytest.mark.skipif(sys.platform == "win32", reason="of POSIX")
def test_end_of_the_childs_input_affects_nothing_else(tmp_path: Path) -> None:
    calls, left = GuardedCalls(), tmp_path / "left"
    calls.call("tests.support.child_functions:write_at_exit", str(left), seconds=30)

    calls.close()

    assert not left.exists()


def test_a_child_leaves_no_memory_on_disk_when_it_dies() -> None:
    import resource

    calls = GuardedCalls()
    try:
        kind = resource.RLIMIT_CORE
        assert calls.call("tests.support.child_functions:soft_limit", kind, seconds=30) == 0
    finally:
        calls.close()


def test_let_go_ends_the_child_unless_it_is_busy(kept: GuardedCalls, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as threads:
        first = busy(kept, threads, tmp_path / "free")
        number = pid(kept)
        kept.let_go()
        assert pid(kept) == number
        (tmp_path / "free").touch()
        assert first.result(timeout=30).values[0]["pid"] == number
    kept.let_go()
    assert kept._child is None
    assert ask(kept, "echo", "again").values[0]["pid"] != number


def test_only_idle_children_are_ended_together(kept: GuardedCalls, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as threads, contextlib.closing(GuardedCalls()) as other:
        first = busy(kept, threads, tmp_path / "free")
        other.call("os:getpid", seconds=10)

        end_idle_children()

        assert kept.is_running()
        assert not other.is_running()
        (tmp_path / "free").touch()
        first.result(timeout=30)


@pytest.mark.parametrize("end", [GuardedCalls.let_go, GuardedCalls.close, lambda _: end_idle_children()])
def test_child_that_starts_in_the_background_is_ended(
    kept: GuardedCalls, tmp_path: Path, end: Callable[[GuardedCalls], None]
) -> None:
    release = tmp_path / "release"
    kept.start("tests.support.child_functions:work", "wait", str(release))
    kept.start("tests.support.child_functions:die")  # the child starts already
    while not kept.is_running():
        time.sleep(0.001)
    number = pid(kept)
    threading.Timer(0.3, release.touch).start()

    end(kept)

    assert not kept.is_running()
    assert ask(kept, "echo", "again").values[0]["pid"] != number


def test_child_that_cannot_start_in_the_background_is_reported_by_the_next_call() -> None:
    def start(_: object) -> ChildProcess:
        raise ChildNotStarted("no interpreter")

    with contextlib.closing(GuardedCalls(start=start)) as calls:
        calls.start("tests.support.child_functions:process")

        with pytest.raises(ChildNotStarted, match="no interpreter"):
            calls.call("tests.support.child_functions:process", seconds=10)


def test_a_child_that_serves_between_calls_is_not_ended() -> None:
    with contextlib.closing(GuardedCalls(serves=True)) as server, contextlib.closing(GuardedCalls()) as other:
        for calls in (server, other):
            calls.call("tests.support.child_functions:process", seconds=30)

        end_idle_children()

        assert (server.is_running(), other.is_running()) == (True, False)


class SlowlyReadChild(ChildProcess):
    """A child whose end is read late."""

    def _reply_after_end(self) -> ChildReply:
        time.sleep(0.2)
        return super()._reply_after_end()


def test_kill_during_a_call_of_another_thread_ends_the_call(tmp_path: Path) -> None:
    with contextlib.closing(GuardedCalls(start=SlowlyReadChild)) as kept, ThreadPoolExecutor() as threads:
        first = busy(kept, threads, tmp_path / "free")
        kept.kill()
        assert first.result(timeout=30).ending == "crashed"
        assert ask(kept, "echo", "again").values[0]["text"] == "again"


class Interrupted(Exception):
    """Exception raised by a signal handler."""


def ask(kept: GuardedCalls, do: str, text: str = "", seconds: int = 30) -> ChildReply:
    return kept.values_of("tests.support.child_functions:work", do, text, seconds=seconds, memory=None)


def busy(kept: GuardedCalls, threads: ThreadPoolExecutor, until: Path, do: str = "wait") -> Future[ChildReply]:
    """Keep the child busy until the file exists."""
    ask(kept, "echo")
    first = threads.submit(ask, kept, do, str(until), seconds=60)
    while not kept._lock.locked():
        time.sleep(0.001)
    time.sleep(0.1)
    return first


def ask_together(kept: GuardedCalls, requests: list[tuple[str, str]], until: Path) -> list[ChildReply]:
    """Call from one thread each, in this order, while the child is busy."""
    with ThreadPoolExecutor(max_workers=len(requests) + 1) as threads:
        busy(kept, threads, until)
        asked: list[Future[ChildReply]] = []
        for do, text in requests:
            asked.append(threads.submit(ask, kept, do, text, seconds=1 if do == "hang" else 30))
        time.sleep(0.2)
        until.touch()
        return [one.result() for one in asked]


@pytest.fixture
def kept() -> Iterator[GuardedCalls]:
    kept = GuardedCalls()
    yield kept
    kept.close()


def test_concurrent_threads_get_their_own_replies_from_one_child(kept: GuardedCalls, tmp_path: Path) -> None:
    found = ask_together(kept, [("echo", str(number)) for number in range(40)], tmp_path / "free")

    assert [reply.values[0]["text"] for reply in found] == [str(number) for number in range(40)]
    assert {reply.values[0]["pid"] for reply in found} == {pid(kept)}


@pytest.mark.slow
def test_call_that_ends_the_child_does_not_affect_other_calls(kept: GuardedCalls, tmp_path: Path) -> None:
    requests = [("echo", "1"), ("die", ""), ("echo", "2"), ("hang", ""), ("die", ""), ("echo", "3")]

    found = ask_together(kept, requests, tmp_path / "free")

    assert [reply.ending for reply in found] == [None, "crashed", None, "timeout", "crashed", None]
    assert [reply.values[0]["text"] for reply in found if reply.values] == ["1", "2", "3"]


def test_large_requests_and_replies_do_not_deadlock(kept: GuardedCalls, tmp_path: Path) -> None:
    found = ask_together(kept, [("say much", "900000"), ("echo", "\U0001f600" * 200_000)] * 5, tmp_path / "free")

    assert [len(reply.values[0]["text"]) for reply in found] == [900_000, 200_000] * 5


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="of POSIX")
def test_interrupted_main_thread_and_other_threads_get_their_own_replies(
    kept: GuardedCalls,
) -> None:
    def interrupt(*_: object) -> None:
        raise Interrupted

    def ask_many() -> set[bool]:
        return {ask(kept, "echo", str(number)).values[0]["text"] == str(number) for number in range(150)}

    before = signal.signal(signal.SIGALRM, interrupt)
    heard, interrupted = 0, 0
    try:
        with ThreadPoolExecutor(max_workers=3) as threads:
            others = [threads.submit(ask_many) for _ in range(3)]
            while interrupted < 21:
                ask(kept, "echo")
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 * 3 ** (interrupted % 7))
                    raised_by = time.monotonic() + 5  # an exception raised in a finalizer does not propagate
                    while time.monotonic() < raised_by:
                        heard += 1
                        assert ask(kept, "echo", f"main {heard}").values[0]["text"] == f"main {heard}"
                except Interrupted:
                    interrupted += 1
            assert [one.result(timeout=60) for one in others] == [{True}] * 3
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(sys.platform == "win32", reason="of POSIX")
@pytest.mark.parametrize("end", ["kill", "close", "die"])
def test_lock_of_an_interrupted_thread_blocks_no_other_thread(kept: GuardedCalls, end: str) -> None:
    def go_on() -> None:
        if end == "die":
            assert ask(kept, "die").ending == "crashed"
        else:
            getattr(kept, end)()
        done.append(ask(kept, "echo", "heard").values[0]["text"])

    ask(kept, "echo")
    assert kept._child is not None
    # The state after a signal handler raised an exception in `Popen.poll` between taking the lock and its `try`.
    kept._child._process._waitpid_lock.acquire()  # type: ignore[attr-defined]
    done: list[str] = []
    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    thread.join(timeout=30)
    assert done == ["heard"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="of POSIX")
def test_child_ending_is_known_if_another_thread_waited_for_it_first(
    kept: GuardedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told_another(pid: int, options: int) -> tuple[int, int]:
        found, status = waitpid(pid, options)
        if found == 0:
            return found, status
        code = os.waitstatus_to_exitcode(status)
        threading.Timer(0.02, setattr, [process, "returncode", code]).start()
        raise ChildProcessError

    ask(kept, "echo")
    assert kept._child is not None
    process, waitpid = kept._child._process, os.waitpid
    monkeypatch.setattr(os, "waitpid", told_another)
    assert ask(kept, "hang", seconds=1).ending == "timeout"


def ask_and_interrupt(kept: GuardedCalls, do: str, text: str = "", before: Callable[[], object] = int) -> None:
    """Call, and get interrupted while the child is busy."""

    def interrupt() -> None:
        time.sleep(0.3)
        before()
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    ask(kept, do, text)


@pytest.mark.skipif(sys.platform == "win32", reason="of POSIX")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("do", ["wait", "die later"])
def test_thread_interrupted_while_waiting_does_not_block_the_others(
    kept: GuardedCalls, tmp_path: Path, do: str
) -> None:
    with ThreadPoolExecutor() as threads:
        first = busy(kept, threads, tmp_path / "free", do)
        with pytest.raises(KeyboardInterrupt):
            ask_and_interrupt(kept, "echo", "not awaited")
        last = threads.submit(ask, kept, "echo", "heard")
        (tmp_path / "free").touch()

        assert last.result(timeout=30).values[0]["text"] == "heard"
        assert first.result().ending == (None if do == "wait" else "crashed")
    assert ask(kept, "echo", "again").values[0]["text"] == "again"


@pytest.mark.skipif(sys.platform == "win32", reason="of POSIX")
@pytest.mark.usefixtures("interruptible")
def test_thread_interrupted_during_a_call_leaves_the_others_a_new_child(
    kept: GuardedCalls,
) -> None:
    with ThreadPoolExecutor() as threads:
        ask(kept, "echo")
        first = pid(kept)
        asked: list[Future[ChildReply]] = []
        with pytest.raises(KeyboardInterrupt):
            ask_and_interrupt(kept, "hang", before=lambda: asked.append(threads.submit(ask, kept, "echo", "heard")))

        assert asked[0].result(timeout=30).values[0]["text"] == "heard"
        assert pid(kept) != first


WORKING = "tests.support.child_functions"


@pytest.fixture(scope="module")
def calls() -> Iterator[GuardedCalls]:
    calls = GuardedCalls(memory=256 << 20)
    yield calls
    calls.close()


def call(calls: GuardedCalls, name: str, *arguments: Any, seconds: float = 30) -> Any:
    return calls.call(f"{WORKING}:{name}", *arguments, seconds=seconds)


@pytest.mark.parametrize(
    "value", [None, [1, 1.0, -0.0, "é\ud800\u2028"], {"a": {"b": [True, 10**30]}}, {"end": None, "error": 1}]
)
def test_values_round_trip_through_the_child(calls: GuardedCalls, value: Any) -> None:
    assert call(calls, "echo", value) == value


@pytest.mark.parametrize("name", ["hang", "count_for_ever"])
def test_a_call_has_its_time_and_no_more(calls: GuardedCalls, name: str) -> None:
    call(calls, "process")
    started = time.perf_counter()
    with pytest.raises(BoundExceeded, match=r"^within 0\.3 s$"):
        call(calls, name, seconds=0.3)
    assert time.perf_counter() - started < 10
    assert call(calls, "echo", 1) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is Linux's")
@pytest.mark.parametrize("name", ["fill", "fill_slowly"])
def test_a_call_has_its_memory_and_no_more(calls: GuardedCalls, name: str) -> None:
    pid = call(calls, "process")
    with pytest.raises(BoundExceeded, match=r"^within 256 MB of memory$"):
        call(calls, name)
    assert call(calls, "process") != pid


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [("long_text", (16 << 20,), "^within 16 MB of text$"), ("nest", (), "^as it is nested too deeply$")],
)
def test_result_of_a_call_is_bounded(calls: GuardedCalls, name: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(BoundExceeded, match=message):
        call(calls, name, *arguments)


def test_argument_nested_too_deeply_exceeds_the_bounds(calls: GuardedCalls) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BoundExceeded, match="nested too deeply"):
        call(calls, "echo", deep)
    assert call(calls, "echo", 1) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("break_it", "ZeroDivisionError: by zero"),
        ("die", "its process ended: exit status 3"),
        ("half", "its process ended: exit status 4"),
        ("no_such_function", "AttributeError: .*no_such_function"),
    ],
)
def test_failed_call_reports_its_error_and_the_next_one_works(calls: GuardedCalls, name: str, message: str) -> None:
    with pytest.raises(CallBroke, match=message):
        call(calls, name)
    assert call(calls, "echo", 1) == 1


def test_missing_interpreter_is_child_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ChildNotStarted, match="expected a Python interpreter at '/nowhere/python'"):
        call(GuardedCalls(), "echo", 1)
