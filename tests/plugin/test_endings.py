"""Test that every planned case has an outcome, and that the run reports when it is incomplete."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.records.journal import read, read_run
from pytest_jsbench.records.runs import Records
from tests.support.bench import Bench, both_ways, with_workers
from tests.support.project_tests import RUN_AGAIN

posix = pytest.mark.skipif(sys.platform == "win32", reason="ends a process the POSIX way")
#: no file grows beyond 20,000 bytes, which is in the middle of a record
SMALL_DISK = """
import resource, sys, pytest
sys.dont_write_bytecode = True  # or half of a module would be found there by the next process
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, -1))
sys.exit(pytest.main(sys.argv[1:]))
"""
ENGINE = ("--jsbench-engine-option=answers=answering:faltering", "--jsbench-output=out")


@pytest.fixture
def twelve(bench: Bench) -> Bench:
    return with_twelve_cases(bench)


def with_twelve_cases(bench: Bench) -> Bench:
    for number in range(12):
        bench.case(f"c{number:02}")
    return bench


def metrics(bench: Bench) -> dict[str, Any]:
    figures: dict[str, Any] = bench.run_json()["metrics"]
    assert figures["planned"] == figures["completions"] + figures["declined"] + figures["failed"] + figures["missing"]
    assert figures["missing"] == sum(figures["missing_reasons"].values())
    assert figures["planned"] == 12
    return figures


@both_ways
def test_after_x_the_rest_was_stopped(twelve: Bench) -> None:
    result = twelve.run(*ENGINE, "-x", "--jsbench-concurrency=1")

    assert result.ret != pytest.ExitCode.OK
    figures = metrics(twelve)
    assert figures["missing_reasons"]["stopped"] == figures["missing"] > 0


def test_test_error_during_its_call_is_reported_and_counted(twelve: Bench) -> None:
    hook = "def pytest_runtest_setup(item):\n    assert item.name != 'c01'\n"
    twelve.write({"conftest.py": hook})

    result = twelve.run(*ENGINE, "--jsbench-min-pass-rate=0")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=10, failed=1, errors=1)
    metrics(twelve)


@pytest.mark.slow
@with_workers
@posix
def test_the_case_whose_worker_died_is_named_missing(twelve: Bench) -> None:
    twelve.write({"deadly.txt": "c03"})

    result = twelve.run_subprocess(*ENGINE, "--jsbench-concurrency=1", "--jsbench-min-pass-rate=0.5")

    figures, recorded = metrics(twelve), {record["id"] for record in twelve.records()}
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert figures["missing_reasons"]["worker_died"] == figures["missing"] == 12 - len(recorded) > 0
    assert len(recorded - {"c03"}) >= 10
    result.stdout.fnmatch_lines(["errors *worker died*"])


#: describing an interrupted session takes a while; for tests of a second signal it takes forever
DESCRIBED = """
import pathlib, time

def pytest_keyboard_interrupt():
    pathlib.Path("interrupted").write_text("")
    time.sleep(60 if pathlib.Path("twice").exists() else 1.2)
"""


def benches(pytester: pytest.Pytester, count: int) -> list[Bench]:
    """Create directories for parallel sessions, every second one with workers."""
    pytest.importorskip("xdist", reason="needs pytest-xdist")
    workers = itertools.cycle([(), ("-n", "2")])
    return [Bench(pytester=pytester, folder=str(number), workers=next(workers)) for number in range(count)]


def begin(bench: Bench, *args: str) -> subprocess.Popen[str]:
    """Start a session in its own process group, not forked from a server, so that it receives its signals itself."""
    arguments = bench.arguments(*args, "--jsbench-output=out", "--jsbench-concurrency=2")
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.Popen(command, cwd=bench.path, stdout=subprocess.PIPE, text=True, start_new_session=True)


def begin_timed(bench: Bench) -> subprocess.Popen[str]:
    """Start a session that records when each of its calls begins."""
    bench.write({"conftest.py": DESCRIBED})
    bench.case("c00")
    return begin(bench, "--jsbench-engine-option=answers=answering:timed", "--jsbench-repeats=200")


def wait_for(path: Path, text: str = "") -> None:
    deadline = time.monotonic() + 60
    while not (path.exists() and text in path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.slow
@posix
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_a_summary_and_all_that_was_paid_for(pytester: pytest.Pytester) -> None:
    sides = [with_twelve_cases(bench) for bench in benches(pytester, 2)]
    for bench in sides:
        bench.write({"slow": ""})
    processes = [begin(bench, ENGINE[0]) for bench in sides]
    for bench in sides:
        wait_for(bench.path / "calls.txt", "c05")
    time.sleep(0.3)

    for process in processes:
        os.killpg(process.pid, signal.SIGINT)  # to all processes of the group, as a terminal sends it

    for bench, process in zip(sides, processes, strict=True):
        output, _ = process.communicate(timeout=60)
        assert process.returncode == pytest.ExitCode.INTERRUPTED
        figures = metrics(bench)
        assert figures["completions"] >= 4
        assert figures["missing_reasons"]["stopped"] == figures["missing"] >= 6
        assert "not run, stopped" in " ".join(output.split())


@pytest.mark.slow
@posix
@pytest.mark.usefixtures("interruptible")
def test_signal_stops_calls_in_all_processes_and_the_run_is_summarized(pytester: pytest.Pytester) -> None:
    sides = benches(pytester, 4)
    processes = [begin_timed(bench) for bench in sides]
    for bench in sides:
        wait_for(bench.path / "calls.txt")
    time.sleep(0.2)

    sent = time.monotonic()
    for process, number in zip(processes, [signal.SIGINT] * 2 + [signal.SIGTERM] * 2, strict=True):
        process.send_signal(number)

    for bench, process in zip(sides, processes, strict=True):
        process.communicate(timeout=60)
        assert process.returncode == pytest.ExitCode.INTERRUPTED
        calls = [float(line) for line in bench.calls()]
        assert max(calls) < sent + 0.5
        figures = bench.run_json()["metrics"]
        assert figures["missing_reasons"]["stopped"] == figures["missing"] == 200 - figures["completions"] > 0
        assert bench.run_json()["verdict"]["because"][0].startswith("the session was stopped")


def test_no_child_is_left_when_the_run_is_summarized(bench: Bench) -> None:
    bench.case("right")
    bench.write(
        {
            "conftest.py": """
            from pytest_jsbench.core import guarded_calls

            before = {id(calls) for calls in guarded_calls._calls if calls.is_running()}

            def started():
                return [calls for calls in guarded_calls._calls if calls.is_running() and id(calls) not in before]

            def pytest_runtest_logreport(report):
                print("during the tests", len(started()) > 0)

            def pytest_jsbench_summary():
                print("in the summary", len(started()))
            """.replace("\n            ", "\n")
        }
    )

    result = bench.run("-s")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*during the tests True*", "*in the summary 0*"])


@pytest.mark.slow
@posix
def test_a_second_sigterm_ends_the_process_at_once(bench: Bench) -> None:
    bench.write({"twice": ""})

    process = begin_timed(bench)
    for noted in ("calls.txt", "interrupted"):
        wait_for(bench.path / noted)
        process.send_signal(signal.SIGTERM)

    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert (bench.path / "interrupted").exists()


@posix
def test_the_signals_of_an_embedding_program_are_its_own_again_after_a_run(bench: Bench) -> None:
    bench.case("c00")
    arrived: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: arrived.append(number))
    try:
        bench.write({"conftest.py": "import os, signal\n\ndef pytest_runtest_setup():\n    os.kill(os.getpid(), 15)\n"})
        bench.run(*ENGINE[1:]).assert_outcomes(passed=1)
        handler = signal.getsignal(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert arrived == [signal.SIGTERM, signal.SIGTERM]
    assert getattr(handler, "__name__", "") == "<lambda>"


@pytest.mark.slow
@posix
def test_a_full_disk_stops_the_calls_and_loses_nothing_that_was_written(bench: Bench) -> None:
    for number in range(60):
        bench.case(f"c{number:02}")
    arguments = bench.arguments(*ENGINE, "--jsbench-concurrency=1", "-p", "no:cacheprovider")

    done = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, *arguments], cwd=bench.path, capture_output=True, text=True, check=False
    )

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    run = bench.run_in()
    written = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()[1:]]
    called = bench.calls()
    assert 5 < len(written) <= len(called) <= len(written) + 3
    assert "not run, disk full" in " ".join(done.stdout.split())
    assert not list(run.glob("*.part"))
    bench.run(*ENGINE, "--jsbench-resume=out").assert_outcomes(passed=59, failed=1)

    assert set(bench.calls()).isdisjoint(record["id"] for record in written)


def test_failed_answer_is_kept_when_a_plugin_reruns_the_test(bench: Bench) -> None:
    bench.write({"conftest.py": RUN_AGAIN})
    bench.case("c01")
    bench.case("c02")

    bench.run(*ENGINE)

    assert bench.calls().count("c02") == 1
    assert [record["verdict"]["passed"] for record in bench.records()] == [True, False]


ENDING = """
import answering, pytest

def pytest_runtest_logreport(report):
    if report.when == "call":
        answering.begun.wait(30)
        pytest.exit("enough")

def pytest_unconfigure():
    answering.ended.set()
"""


def test_answer_after_the_end_is_not_part_of_the_run(bench: Bench) -> None:
    bench.write({"conftest.py": ENDING})
    bench.case("first")
    bench.case("late")

    late = "--jsbench-engine-option=answers=answering:late"
    bench.run(late, "--jsbench-output=out", "--jsbench-concurrency=2")

    run = bench.run_in()
    deadline = time.monotonic() + 30
    while len(read_run(run).outcomes) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [record["id"] for record in bench.records()] == ["first"]
    assert bench.run_json()["metrics"]["completions"] == 1
    assert [record.key.id for record in Records(read(run / "records.late.jsonl").outcomes)] == ["late"]


FEW_THREADS = """
import os, threading

start = threading.Thread.start

def limited(self):
    if self.name == "jsbench-3" and os.path.exists("exhausted"):
        raise RuntimeError("can't start new thread")
    start(self)

threading.Thread.start = limited
"""


@pytest.mark.slow
@with_workers
def test_run_without_free_threads_ends_in_one_line_and_resumes(twelve: Bench) -> None:
    twelve.write({"conftest.py": FEW_THREADS, "exhausted": ""})

    result = twelve.run_subprocess(*ENGINE, "--jsbench-concurrency=8")

    result.assert_outcomes(skipped=12)
    assert result.ret != pytest.ExitCode.OK
    assert metrics(twelve)["missing_reasons"]["exhausted"] == 12
    text = " ".join(line.strip() for line in result.outlines)
    assert text.count("warning    only 3 of 8 threads for calls in flight started: ") == 1
    assert "INTERNALERROR" not in text
    assert "Traceback" not in text
    (twelve.path / "exhausted").unlink()
    twelve.run_subprocess(*ENGINE, "--jsbench-resume=out").assert_outcomes(passed=11, failed=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bench", "engine"),
    [
        ("plain", ("--jsbench-engine=answering:Hungry", "--jsbench-engine-option=x=1")),
        ("xdist", ("--jsbench-engine-option=answers=answering:hungry",)),
    ],
    ids=["an engine", "a function, with workers"],
    indirect=["bench"],
)
def test_a_run_that_has_no_more_memory_keeps_what_it_has_and_goes_on_later(
    twelve: Bench, engine: tuple[str, ...]
) -> None:
    twelve.write({"exhausted": ""})
    hungry = (*engine, "--jsbench-concurrency=1", "--jsbench-output=out")

    result = twelve.run(*hungry)

    figures = metrics(twelve)
    assert figures["completions"] >= 1
    assert figures["missing_reasons"]["exhausted"] == figures["missing"] > 0
    assert "Traceback" not in result.stdout.str()
    result.stdout.fnmatch_lines(["warning    out of memory; *"])
    (twelve.path / "exhausted").unlink()
    twelve.run(*hungry, "--jsbench-resume=out").assert_outcomes(passed=12)
    assert twelve.calls() == [f"c{number:02}" for number in range(12)]


@both_ways
def test_call_that_uses_all_file_descriptors_loses_no_record(twelve: Bench) -> None:
    freeing = "import answering\n\ndef pytest_runtest_logreport(report):\n    answering.held.clear()\n"
    twelve.write({"conftest.py": freeing})
    greedy = ("--jsbench-engine=answering:Greedy", "--jsbench-engine-option=x=1", "--jsbench-concurrency=1")

    result = twelve.run_subprocess(*greedy, "--jsbench-output=out", "-k", "c00")

    result.assert_outcomes(passed=1)
    assert len(twelve.records()) == 1
    result.stdout.no_fnmatch_line("*not on disk*")


@with_workers
def test_an_engine_that_a_worker_cannot_build_is_one_line_and_no_crash(twelve: Bench) -> None:
    result = twelve.run("--jsbench-engine=answering:Away", "--jsbench-engine-option=x=1", "--jsbench-output=out")

    result.assert_outcomes(skipped=12)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert metrics(twelve)["missing_reasons"]["error"] == 12
    result.stdout.fnmatch_lines(["warning    engine 'answering:Away' cannot be built: RuntimeError: the licence*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
