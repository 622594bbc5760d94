from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.loopback import KEY_VARIABLE, engine_arguments, serve, write_cases
from pytest_jsbench.cli.main import main
from tests.support.bench import Bench, with_workers
from tests.support.run_files import without_times


def test_shards_put_together_are_the_run_in_one_piece(bench: Bench) -> None:
    for number in range(5):
        bench.case(f"c{number}", '{"n": -1}' if number == 3 else '{"n": 1}')
    bench.case("d", task="other")
    folders = []
    for shard in ("1/2", "2/2"):
        folder = f"out-{shard[0]}"
        result = bench.run(f"--jsbench-shard={shard}", f"--jsbench-output={folder}")
        result.stdout.fnmatch_lines([f"jsbench: dataset schemas, 3 cases (shard {shard} of 6), 16 in flight"])
        folders.append(str(bench.path / folder))
    bench.workers = ()
    bench.run("--jsbench-output=whole")
    out = io.StringIO()

    code = main(["merge", *folders, "--output", str(bench.path / "out" / "merged")], out=out)

    assert code == 1
    assert without_times(bench.records()) == without_times(bench.records("whole"))
    assert "pass rate  5/6 = 0.833" in out.getvalue()
    data, whole = bench.run_json(), bench.run_json("whole")
    assert data["run"]["dataset"] == whole["run"]["dataset"]
    assert main(["merge", *folders, "-o", str(bench.path / "m"), "--min-pass-rate", "0.8"], out=out) == 0
    assert json.loads((bench.path / "m" / "run.json").read_text())["gates"][0]["met"]


@with_workers
def test_job_and_its_workers_use_the_shard_of_the_scheduler(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        bench.case(f"c{number}")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")

    result = bench.run("--jsbench-shard=auto/2", "--jsbench-output=out")

    result.stdout.fnmatch_lines(["jsbench: dataset schemas, 2 cases (shard 2/2 by JOB_COMPLETION_INDEX=1, of 4), *"])
    assert [record["id"] for record in bench.records()] == ["c1", "c3"]
    assert bench.run_json()["run"]["dataset"]["shard"] == "2/2"


def test_nothing_is_sharded_unless_it_is_asked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.case("a")
    bench.case("b")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")

    bench.run("--jsbench-output=out")

    assert len(bench.records()) == 2


def test_workers_that_are_started_by_name_on_this_machine_are_taken(bench: Bench) -> None:
    bench.case("a")

    bench.run("--dist=load", "--tx=2*popen").assert_outcomes(passed=1)


@pytest.mark.skipif("JSBENCH_MACHINES" not in os.environ, reason="starts six sessions: tox -e machines runs it")
def test_five_shards_with_one_killed_are_merged_resumed_and_merged(tmp_path: Path) -> None:
    cases, in_flight = 500, 16
    write_cases(tmp_path / "schemas" / "t", cases)
    merge = ["merge", *(str(tmp_path / f"shard-{number}") for number in range(5))]
    merge += ["--output", str(tmp_path / "merged"), "--min-pass-rate", "1"]

    with serve(latency=0.2) as provider:

        def shard(number: int, *more: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", "pytest", *engine_arguments(provider.url), "--jsbench-dataset=schemas"]
            command += [f"--jsbench-concurrency={in_flight}", f"--jsbench-shard={number}of5"]
            command += ["--jsbench-min-pass-rate=0", f"--jsbench-output=shard-{number}", *more]
            environment = {**os.environ, KEY_VARIABLE: "none"}
            return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)

        with shard(0) as killed:
            while sum(provider.counts().values()) < 40:
                assert killed.poll() is None
                time.sleep(0.05)
            killed.send_signal(signal.SIGKILL)
        for number in (1, 2, 3, 4):
            assert shard(number).wait() == 0
        first = main(merge, out=io.StringIO())
        assert shard(0, "--jsbench-resume=shard-0").wait() == 0
        second = main(merge, out=io.StringIO())
        asked = sum(provider.counts().values())

    assert (first, second) == (1, 0)  # what was not made counts as failed
    records = (tmp_path / "merged" / "records.jsonl").read_text().splitlines()[1:]
    assert len({json.loads(line)["id"] for line in records}) == len(records) == cases
    assert asked - cases <= in_flight
