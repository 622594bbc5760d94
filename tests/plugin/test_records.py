from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path

import pytest

from tests.support.bench import COUNTED, Bench, Ended, with_workers
from tests.support.run_files import validate, without_times


@pytest.mark.slow
def test_records_are_in_plan_order_with_and_without_workers(mixed: Bench) -> None:
    pytest.importorskip("xdist", reason="needs pytest-xdist")
    mixed.run("--jsbench-output=out")
    mixed.run("--jsbench-output=other", "-n", "2")

    assert [f"{record['task']}::{record['id']}" for record in mixed.records()] == [
        *("orders::invented", "orders::passed", "orders::violated", "talk::badschema", "talk::broke", "talk::cut"),
        *("talk::prose", "talk::refused", "talk::unsupported"),
    ]
    assert without_times(mixed.records()) == without_times(mixed.records("other"))


@with_workers
def test_what_is_written_conforms_to_the_published_schemas(ended: Ended) -> None:
    page = ["report.html"] if importlib.util.find_spec("jinja2") else []
    written = ["records.jsonl", *page, "run.json", "summary.md"]
    assert sorted(path.name for path in ended.bench.run_in().iterdir()) == written
    validate(ended.bench)


def test_without_a_cache_nothing_is_kept_and_that_is_said(bench: Bench) -> None:
    bench.case("a")

    result = bench.run("-p", "no:cacheprovider")

    result.stdout.fnmatch_lines(["records    not kept; set --jsbench-output=DIR to keep them"])
    assert not (bench.path / ".pytest_cache").exists()


@pytest.mark.slow
@with_workers
@pytest.mark.skipif(sys.platform == "win32", reason="kills a process the POSIX way")
def test_calls_made_ahead_by_a_dead_worker_are_not_repeated(bench: Bench) -> None:
    for number in range(12):
        bench.case(f"c{number:02}")
    bench.write(
        {
            "conftest.py": "import os, pathlib, signal, time\n"
            "def pytest_runtest_setup(item):\n"
            "    if item.name != 'c02':\n"
            "        return\n"
            "    (run,) = pathlib.Path('out').iterdir()\n"
            "    records = run / f'records.{os.environ[\"PYTEST_XDIST_WORKER\"]}.jsonl'\n"
            "    for _ in range(1000):\n"  # until all queued calls are answered
            "        if len(records.read_text().splitlines()) == 7:\n"
            "            break\n"
            "        time.sleep(0.01)\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
        }
    )

    bench.run_subprocess(COUNTED, "--jsbench-output=out")

    assert bench.calls() == [f"orders::c{number:02}" for number in range(12)]
    assert len(bench.records()) == 12


def test_a_disk_that_fills_up_is_said_and_the_run_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_jsbench.core.errors import JournalError
    from pytest_jsbench.records.journal import Journal

    all_answered = threading.Barrier(3)

    def full(self: Journal, record: object) -> None:
        all_answered.wait(60)  # after the first failure no more calls begin
        message = "cannot write records.jsonl: No space left on device"
        raise JournalError(message)

    monkeypatch.setattr(Journal, "append", full)
    for name in "abc":
        bench.case(name)

    result = bench.run("--jsbench-output=out")

    result.assert_outcomes(passed=3)
    _, warning, after = " ".join(line.strip() for line in result.outlines).partition("warning    ")
    assert after.startswith("cannot write records.jsonl: No space left on device; the record of orders::a and 2 more")
    assert warning not in after


def test_two_runs_at_once_do_not_share_a_folder(bench: Bench, tmp_path: Path) -> None:
    bench.case("a")
    bench.run("--jsbench-output=out")
    bench.run("--jsbench-output=out")

    assert len(list((bench.path / "out").iterdir())) == 2


def test_a_run_is_replayed_from_its_records_with_the_same_outcomes(mixed: Bench) -> None:
    mixed.run("--jsbench-output=first")
    (mixed.path / "answers.json").unlink()

    replayed = mixed.run_only(
        *("--jsbench-engine=replay", f"--jsbench-engine-option=records={mixed.run_in('first')}"),
        *("--jsbench-dataset=schemas", "--jsbench-output=second"),
    )

    assert "jsbench: engine replay, model scripted" in replayed.stdout.str()
    first, second = (
        {record["id"]: (record["verdict"], record["generation"]) for record in mixed.records(name)}
        for name in ("first", "second")
    )
    assert len(first) == 9
    assert first == second
