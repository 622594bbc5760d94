"""
Test that all outputs agree on every way in which a run can end, and that PASSED requires every
attempt to be right.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.bench import Bench
from tests.support.project_tests import ASKS, BAD, GOOD, KEPT, run_one, verdict

DOWN = {"fault": "connection", "message": "refused"}
LEAST = "--jsbench-min-pass-rate="


@dataclass(frozen=True, kw_only=True)
class Way:
    """A run's cases, tests and options, and its expected end."""

    status: str
    exit_status: int
    #: Beginning of each reason.
    because: tuple[str, ...]
    #: Answers of the dataset's cases; a test file, if any, runs in addition.
    cases: tuple[Any, ...] = ()
    #: Schema of the first case.
    schema: Any = None
    code: str = ""
    args: tuple[str, ...] = ()
    own_process: bool = False
    #: Expected line on the terminal.
    shown: str = ""


def ends(status: str, *because: str, exit_status: int | None = None, **rest: Any) -> Way:
    """Return an expected end; the default exit status is 0 if the run passed, otherwise 1."""
    usual = 0 if status == "passed" else 1
    return Way(status=status, exit_status=usual if exit_status is None else exit_status, because=because, **rest)


RIGHT, WRONG = '{"n": 1}', '{"n": -1}'
WAYS = {
    "all passed": ends("passed", "all 2 attempts passed", cases=(RIGHT, RIGHT)),
    "a case failed": ends("failed", "1 test failed: jsbench::orders::c1", cases=(RIGHT, WRONG)),
    "a case failed and a call broke": ends(
        "failed",
        "1 test failed by its answer: jsbench::orders::c1",
        "1 attempt of 3 without an answer",
        cases=(RIGHT, WRONG, DOWN),
    ),
    "a gate is met": ends(
        "passed",
        "the gate is met",
        "1 test failed, which the gate allows: jsbench::orders::c1",
        cases=(RIGHT, WRONG),
        args=(f"{LEAST}0.5",),
        shown="gate       pass_rate 1/2 = 0.5, gate >= 0.5: met",
    ),
    "a gate is not met": ends(
        "failed",
        "the gate is not met: pass_rate>=0.9",
        cases=(RIGHT, WRONG),
        args=(f"{LEAST}0.9",),
        shown="gate       pass_rate 1/2 = 0.5, gate >= 0.9: NOT MET",
    ),
    "a gate on broken calls": ends(
        "incomplete",
        "the gate is not met, because too little",
        cases=(DOWN,),
        args=(f"{LEAST}0",),
        shown="gate       pass_rate n/a, gate >= 0: NOT MET, nothing judged",
    ),
    "a gate on what is deselected": ends(
        "incomplete",
        "the gate is not met, because too little",
        code=f"{ASKS}def test_it(jsbench): {GOOD}\n",
        args=("-k", "nothing", f"{LEAST}0"),
    ),
    "a gate on what is skipped": ends(
        "incomplete",
        "the gate is not met, because too little",
        code=f"{ASKS}@pytest.mark.skip\ndef test_it(jsbench): {GOOD}\n",
        args=(f"{LEAST}0",),
    ),
    "only broken calls": ends("incomplete", "2 attempts of 2 without an answer", cases=(DOWN, DOWN)),
    "some broken calls": ends("incomplete", "1 attempt of 2 without an answer", cases=(RIGHT, DOWN)),
    "a broken schema": ends(
        "failed", "1 test with a broken schema", "1 attempt of 2", cases=(RIGHT, RIGHT), schema={"type": "intger"}
    ),
    "a broken schema with a gate": ends(
        "failed",
        "1 test with a broken schema",
        "the gate is not met, because too little",
        cases=(RIGHT, RIGHT),
        schema={"type": "intger"},
        args=(f"{LEAST}1",),
    ),
    "a broken schema that is left out": ends(
        "passed",
        "the gate is met",
        cases=(RIGHT, RIGHT),
        schema={"type": "intger"},
        args=(f"{LEAST}1", "--jsbench-invalid-schemas=skip"),
    ),
    "nothing but a schema that is left out": ends(
        "incomplete",
        "nothing was measured",
        cases=(RIGHT,),
        schema={"type": "intger"},
        args=("--jsbench-invalid-schemas=skip",),
        exit_status=5,
    ),
    "unjudged": ends("incomplete", "1 attempt could not", cases=(RIGHT, RIGHT), schema={"$ref": "#"}),
    "deselected": ends(
        "passed",
        "the attempt passed",
        "1 more test was deselected",
        cases=(RIGHT, RIGHT),
        args=("--deselect=jsbench::orders::c1",),
    ),
    "deselected with a gate that is met": ends(
        "passed",
        "the gate is met",
        "2 more tests were deselected",
        cases=(RIGHT, RIGHT, RIGHT),
        args=("--deselect=jsbench::orders::c1", "--deselect=jsbench::orders::c2", f"{LEAST}1"),
    ),
    "-x": ends(
        "failed",
        "1 test failed",
        "the session was stopped",
        "2 attempts of 3",
        cases=(WRONG, RIGHT, RIGHT),
        args=("-x", "--jsbench-concurrency=1"),
    ),
    "--maxfail, and a gate that is met": ends(
        "incomplete", "the session was stopped", cases=(RIGHT, WRONG), args=("--maxfail=1", f"{LEAST}0.5")
    ),
    "Ctrl-C": ends(
        "incomplete",
        "the session was stopped",
        code=f"{ASKS}def test_a(jsbench): {GOOD}\ndef test_b(): raise KeyboardInterrupt\n",
        own_process=True,
        exit_status=2,
    ),
    "pytest.exit": ends(
        "incomplete",
        "the session was stopped: enough",
        code=f"{ASKS}def test_a(jsbench): {GOOD}\ndef test_b(): pytest.exit('enough')\n{ASKS}def test_c(jsbench): 0",
        args=(f"{LEAST}0.5",),
        exit_status=2,
    ),
    "another test failed": ends(
        "failed",
        "test_one.py::test_b failed",
        code=f"{ASKS}def test_a(jsbench): {GOOD}\ndef test_b(): assert 0\n",
        args=(f"{LEAST}0.5",),
    ),
    "a module that cannot be collected": ends(
        "failed",
        "test_one.py could not be collected",
        cases=(RIGHT,),
        code="import nothing_of_this_name",
        args=(f"{LEAST}0.5", "--continue-on-collection-errors"),
    ),
    "an assertion about the answer failed after a bad answer": ends(
        "failed",
        "test_one.py::test_a failed",
        code=f"{ASKS}def test_a(jsbench): assert {GOOD}.instance['n'] == 2\n{ASKS}def test_bad(jsbench): {BAD}\n",
        args=(f"{LEAST}0.5",),
    ),
    "a failure that the test caught": ends(
        "failed", "1 test failed", code=f"{ASKS}def test_a(jsbench):\n    with pytest.raises(AssertionError): {BAD}\n"
    ),
    "a setup that broke": ends(
        "failed",
        "test_one.py::test_b failed in its setup",
        code=(
            f"@pytest.fixture\ndef gone(): 1 / 0\n{ASKS}def test_b(gone, jsbench): {GOOD}\n"
            f"{ASKS}def test_a(jsbench): {GOOD}\n"
        ),
    ),
    "a teardown that broke": ends(
        "failed",
        "test_one.py::test_b failed in its teardown",
        code=f"@pytest.fixture\ndef gone():\n    yield\n    1 / 0\n{ASKS}def test_b(gone, jsbench): {GOOD}\n",
        args=(f"{LEAST}1",),
    ),
    "only expected failures": ends(
        "incomplete",
        "0 of 1 attempt passed, though no test failed; to allow this, set a gate such as pass_rate>=0",
        code=f"{ASKS}@pytest.mark.xfail\ndef test_a(jsbench): {BAD}\n",
    ),
    "an expected failure and a pass": ends(
        "passed",
        "1 of 2 attempts passed, and no test failed",
        code=f"{ASKS}@pytest.mark.xfail\ndef test_a(jsbench): {BAD}\n{ASKS}def test_b(jsbench): {GOOD}\n",
    ),
    "a failure that was expected and did not come": ends(
        "failed",
        "test_one.py::test_a failed",
        code=f"{ASKS}@pytest.mark.xfail(strict=True)\ndef test_a(jsbench): {GOOD}\n",
    ),
    "only answers that tests are to decide about": ends(
        "incomplete",
        "0 of 1 attempt passed, though no test failed; to allow this, set a gate such as pass_rate>=0",
        code=f"{ASKS}@pytest.mark.jsbench(check=False)\ndef test_a(jsbench): {BAD}\n",
    ),
    "a test that was skipped after its answer": ends(
        "passed", "the attempt passed", code=f"{ASKS}def test_a(jsbench):\n    {GOOD}\n    pytest.skip('later')\n"
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_output_says_the_same_of_each_way_to_end(bench: Bench, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    for number, answer in enumerate(way.cases):
        bench.case(f"c{number}", answer, schema=None if number else way.schema)
    if way.own_process:
        monkeypatch.setattr(bench.pytester, "runpytest_inprocess", bench.pytester.runpytest_subprocess)
    args = (*KEPT, "--jsbench-retries=0", *way.args)
    if way.cases:
        bench.write({"test_one.py": way.code} if way.code else {})
        result = bench.run(*args, *(["jsbench", "test_one.py"] if way.code else []))
    else:
        result = run_one(bench, way.code, *args)

    status, because = verdict(bench, result)

    assert (status, result.ret) == (way.status, way.exit_status), because
    assert len(because) == len(way.because), because
    assert all(reason.startswith(start) for reason, start in zip(because, way.because, strict=True)), because
    assert not way.shown or way.shown in result.outlines
    first, *others = [line for line in result.outlines if line.startswith("::")]
    assert (
        first
        == f"::{'notice' if status == 'passed' else 'error'} title=jsbench::{status.upper()}: {'; '.join(because)}"
    )
    assert all(line.startswith("::warning" if status == "passed" else "::error") for line in others)
    folder = bench.run_in()
    metrics = json.loads((folder / "run.json").read_text())["metrics"]
    if status == "passed":
        assert metrics["passed"] > 0
        assert metrics["missing"] == metrics["failed"] == metrics["unjudged"] == 0
    shown = re.findall(r"^\| `[^|]*` \| `(\w+)` \| `", (folder / "summary.md").read_text(), flags=re.M)
    assert len(shown) == len(others)
