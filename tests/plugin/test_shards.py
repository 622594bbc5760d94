from __future__ import annotations

import io
import json

import pytest

from pytest_jsbench.cli.main import main
from tests.plugin.conftest import Bench
from tests.plugin.test_records import without_times


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


def test_a_shard_that_is_none_is_one_line(plain: Bench) -> None:
    plain.case("a")

    result = plain.run("--jsbench-shard=3/2")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --jsbench-shard: expected NUMBER/COUNT such as 2/5, or 1of5 *, found '3/2'"])


def test_a_job_takes_the_shard_that_its_scheduler_numbers_and_its_workers_do_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        bench.case(f"c{number}")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")

    result = bench.run("--jsbench-shard=auto/2", "--jsbench-output=out")

    result.stdout.fnmatch_lines(["jsbench: dataset schemas, 2 cases (shard 2/2 by JOB_COMPLETION_INDEX=1, of 4), *"])
    assert [record["id"] for record in bench.records()] == ["c1", "c3"]
    assert bench.run_json()["run"]["dataset"]["shard"] == "2/2"


def test_nothing_is_sharded_unless_it_is_asked(plain: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    plain.case("a")
    plain.case("b")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")

    plain.run("--jsbench-output=out")

    assert len(plain.records()) == 2
