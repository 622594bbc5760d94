from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core import child_service
from pytest_jsbench.core.child_process import ChildProcess
from pytest_jsbench.core.errors import JudgeError
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.verdicts import Judge, JudgePolicy
from tests.support.stand_in_judge import troubled

RS_ONLY = JudgePolicy(validator="jsonschema-rs", timeout=60)
ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX signals and sessions")


@pytest.fixture(autouse=True)
def _starts_fast() -> None:
    """Start each process as a new interpreter, since these tests are about its start and end."""


@pytest.fixture
def judge() -> Iterator[Judge]:
    with Judge(RS_ONLY) as judge:
        judge.inspect(True)
        yield judge


def child_of(judge: Judge) -> subprocess.Popen[bytes]:
    child = judge._calls._child
    assert child is not None
    return child._process


def start(tmp_path: Path, program: str, **options: Any) -> subprocess.Popen[str]:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        **options,
    )


def gone(pid: int, within: float) -> bool:
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").exists() and " Z " in Path(f"/proc/{pid}/stat").read_text():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
def test_judging_needs_at_most_200_mb_and_five_times_the_answer_size(tmp_path: Path) -> None:
    program = """
        import json
        from pytest_jsbench.verdicts.in_process import InProcessJudge
        from pytest_jsbench.verdicts.verdicts import JudgePolicy
        judge = InProcessJudge(JudgePolicy())
        for unit, times, schema in (
            ("1", 70_000, {"items": {"type": "string"}}),
            ('{"a":1}', 120_000, {"type": "string"}),
            ("1", 600_000, {"items": {"type": "string"}}),
        ):
            text = f"[{','.join([unit] * times)}]"
            for verdict in judge.judge(json.dumps(schema), text, truncated=False):
                pass
            # only this program: getrusage includes the process that started it
            (peak,) = (int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
            print(json.dumps([verdict.failure_type, len(verdict.violations), peak <= 5 * len(text) + 200e6, peak]))
    """
    output, errors = start(tmp_path, program).communicate(timeout=60)
    results = [json.loads(line)[:3] for line in output.splitlines()]
    wrong = "schema_violation"
    assert results == [[wrong, 20, True], [wrong, 1, True], [wrong, 0, True]], output + errors


@posix
def test_ctrl_c_in_the_terminal_does_not_reach_the_child(judge: Judge) -> None:
    process = child_of(judge)
    assert os.getsid(process.pid) != os.getsid(0)
    os.kill(process.pid, signal.SIGINT)
    assert judge.judge(True, "1").passed
    assert child_of(judge) is process


@pytest.mark.slow
@posix
@pytest.mark.parametrize("busy", [True, False])
def test_the_child_ends_with_its_parent(tmp_path: Path, busy: bool) -> None:
    program = """
        import json, os, sys, threading, time
        from pytest_jsbench.verdicts import Judge, JudgePolicy
        from tests.support.stand_in_judge import StandInCalls
        judge = Judge(JudgePolicy(validator="jsonschema-rs", timeout=0.5), calls=StandInCalls())
        judge.inspect(True)
        endless = json.loads(sys.stdin.readline())
        print(judge._calls._child._process.pid, flush=True)
        if endless:
            threading.Thread(target=judge.judge, args=(endless, "1"), daemon=True).start()
            while not judge._calls._lock.locked():
                time.sleep(0.001)
            time.sleep(0.05)
        os._exit(0)
    """
    process = start(tmp_path, program, stdin=subprocess.PIPE)
    output, errors = process.communicate(json.dumps(troubled("validate") if busy else None) + "\n", timeout=30)
    assert output.strip().isdecimal(), errors
    assert gone(int(output), within=4)


@pytest.mark.slow
@posix
def test_forked_process_gets_its_own_child_while_a_thread_waits(tmp_path: Path) -> None:
    program = """
        import json, os, signal, sys, threading, time, warnings
        from pytest_jsbench.verdicts import Judge, JudgePolicy
        warnings.simplefilter("ignore", DeprecationWarning)  # for each fork with threads, since Python 3.12
        endless = json.loads(sys.stdin.readline())
        from tests.support.stand_in_judge import StandInCalls
        calls = StandInCalls()
        judge = Judge(JudgePolicy(validator="jsonschema-rs", timeout=60), calls=calls)
        judge.inspect(True)
        child = judge._calls._child._process
        if os.fork() == 0:
            assert judge.judge({"type": "integer"}, '"x"').keyword == "type"
            assert judge._calls._child._process.pid != child.pid
            raise SystemExit(0)
        assert os.wait()[1] == 0
        assert judge.judge({"type": "integer"}, "1").passed
        assert judge._calls._child._process is child
        thread = threading.Thread(target=judge.judge, args=(endless, "1"))
        thread.start()
        while not judge._calls._lock.locked():
            time.sleep(0.001)
        if os.fork() == 0:
            signal.alarm(20)
            assert judge.judge({"type": "integer"}, '"x"').keyword == "type"
            calls.close()
            os._exit(0)
        assert os.wait()[1] == 0
        assert thread.is_alive()
        child.kill()
        thread.join()
        assert judge.judge({"type": "integer"}, "1").passed
        print("well")
    """
    process = start(tmp_path, program, stdin=subprocess.PIPE)
    assert process.communicate(json.dumps(troubled("validate")) + "\n", timeout=60) == ("well\n", "")


@pytest.mark.slow
def test_nothing_is_left_behind_at_exit(tmp_path: Path) -> None:
    program = """
        import sys, warnings
        warnings.simplefilter("error")
        from pytest_jsbench import Judge, judge
        assert judge({"type": "integer"}, "1").passed
        kept = Judge()
        assert kept.judge(True, "1").passed
        print("well")
    """
    process = start(tmp_path, program)
    assert (*process.communicate(timeout=60), process.returncode) == ("well\n", "", 0)


def test_the_users_environment_and_folder_do_not_matter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("json", "jsonschema_rs", "queue", "types", "pytest_jsbench", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    startup = tmp_path / "startup.py"
    startup.write_text("print('noise')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(startup))
    monkeypatch.setenv("PYTHONINSPECT", "1")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    with Judge() as judge:
        assert judge.judge({"pattern": "[[a]"}, '"a"').passed
        process = child_of(judge)
    assert process.returncode == 0


@posix
def test_the_time_for_the_start_does_not_run_on() -> None:
    with contextlib.closing(GuardedCalls(alarm="thread")) as calls:
        assert calls.call("signal:getitimer", signal.ITIMER_REAL, seconds=30) == [0, 0]


def started_by(program: Path, text: str) -> Judge:
    """Return a judge whose child runs this program instead of its own."""
    program.write_text(text)
    return Judge(RS_ONLY, calls=GuardedCalls(start=partial(ChildProcess, program=str(program))))


def test_child_that_fails_to_start_reports_the_reason(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match=r"did not start: RuntimeError: no memory; run '.* -m pip check'"):
        started_by(tmp_path / "program.py", "raise RuntimeError('no memory')").inspect(True)


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    without = "import runpy, sys; sys.modules['jsonschema_rs'] = None\n"
    text = f"{without}runpy.run_path({child_service.__file__!r}, run_name='__main__')"
    with pytest.raises(JudgeError, match="jsonschema_rs"):
        started_by(tmp_path / "program.py", text).inspect(True)


def test_process_of_the_judge_imports_nothing_of_engines_and_calls() -> None:
    program = "import sys, pytest_jsbench.verdicts.in_process; print(*sys.modules)"

    imported = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert "pytest_jsbench.verdicts.verdicts" in imported
    assert {"pytest_jsbench.core.generations", "pytest_jsbench.core.guarded_calls"}.isdisjoint(imported)
