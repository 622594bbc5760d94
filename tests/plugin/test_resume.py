from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.bench import Bench, with_workers
from tests.support.run_files import without_times

ENGINE = ("--jsbench-engine-option=answers=answering:faltering", "--jsbench-retries=0")


@pytest.fixture
def counted(bench: Bench) -> Bench:
    """Create five cases with a log of their calls; files list the calls that fail and those that kill their process."""
    bench.write({"broken.txt": "", "deadly.txt": ""})
    for name in ("a", "b", "c", "violated", "broken"):
        bench.case(name)
    return bench


def runs(bench: Bench) -> list[Path]:
    return sorted((bench.path / "out").iterdir())


def records(run: Path) -> list[dict[str, Any]]:
    lines = (run / "records.jsonl").read_text().splitlines()[1:]
    recorded: list[dict[str, Any]] = without_times([json.loads(line) for line in lines])
    return recorded


@pytest.mark.slow
@with_workers
def test_resumed_run_makes_only_missing_calls(counted: Bench) -> None:
    counted.write({"broken.txt": "broken"})
    broken = counted.run(*ENGINE, "--jsbench-output=out")
    broken.stdout.fnmatch_lines(["resume *rerun with --jsbench-resume=out to make only the missing calls"])
    assert counted.calls() == ["a", "b", "broken", "c", "violated"]
    counted.write({"broken.txt": ""})
    counted.case("grown")

    result = counted.run(*ENGINE, "--jsbench-output=out", "--jsbench-resume=out")

    assert counted.calls() == ["broken", "grown"]
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.no_fnmatch_line("resume *")
    first, second = runs(counted)
    result.stdout.fnmatch_lines(
        [
            f"jsbench: resuming {first.name}: 4 answers reused, 1 failed call retried",
            "pass rate  5/6 = *",
            f"resumed    4 answers reused from {first.name}*",
        ]
    )
    assert [path.name for path in sorted(second.glob("records*.jsonl"))] == ["records.jsonl"]
    data = json.loads((second / "run.json").read_text())
    assert (data["run"]["resumed_from"], data["run"]["resumed"], data["run"]["complete"]) == (first.name, 4, True)
    counted.workers = ()
    counted.run(*ENGINE, "--jsbench-output=out")
    assert records(second) == records(runs(counted)[2])


def test_a_resumed_answer_is_judged_as_this_run_judges(mixed: Bench) -> None:
    mixed.run("--jsbench-output=out")
    mixed.answers = dict.fromkeys(mixed.answers, "nothing of the kind")

    result = mixed.run("--jsbench-resume=out", "--jsbench-extra-fields=allow", "--junitxml=junit.xml")

    # the schema now allows extra fields, and the failed call is retried
    result.assert_outcomes(passed=2, failed=7)
    assert (mixed.path / "junit.xml").read_text().count('<property name="jsbench.resumed" value="True"') == 7


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process the POSIX way")
def test_a_process_that_is_killed_loses_no_more_than_the_calls_in_flight(pytester: pytest.Pytester) -> None:
    bench = Bench(pytester=pytester)
    bench.write({"broken.txt": "", "deadly.txt": "c07"})
    for number in range(12):
        bench.case(f"c{number:02}")
    killed = bench.run_subprocess(*ENGINE, "--jsbench-output=out", "--jsbench-concurrency=1")
    assert killed.ret != 0
    assert bench.calls() == [f"c{number:02}" for number in range(8)]
    bench.write({"deadly.txt": ""})

    result = bench.run(*ENGINE, "--jsbench-output=out", "--jsbench-resume=out")

    result.assert_outcomes(passed=11, failed=1)
    assert bench.calls() == [f"c{number:02}" for number in range(7, 12)]
    assert len(records(runs(bench)[-1])) == 12
