from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pytest_jsbench.plugin.controller.outputs import RunFolder
from pytest_jsbench.plugin.controller.run_state import RunState
from pytest_jsbench.runs.journal import Journal
from tests import examples
from tests.examples import record
from tests.plugin.conftest import Bench


def test_everything_is_written_and_says_the_same(mixed: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(mixed.path / "step.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (mixed.path / "step.md").write_text("before\n")

    result = mixed.run("--jsbench-output=out", "--junitxml=junit.xml", "--jsbench-gate=pass_rate>=0.9")

    (run,) = (mixed.path / "out").iterdir()
    names = {path.relative_to(run).parts[0] for path in run.rglob("*")}
    assert {"records.jsonl", "run.json", "summary.md", "every_eval_ever"} <= names
    assert (mixed.path / "step.md").read_text() == "before\n" + (run / "summary.md").read_text()
    assert "gate **NOT MET**" in (run / "summary.md").read_text()
    result.stdout.fnmatch_lines(["::error title=jsbench talk%3A%3Acut::truncated: *", "verdict    FAILED: *"])
    suite = ET.parse(mixed.path / "junit.xml").getroot()[0]
    properties = {one.get("name"): one.get("value") for one in suite.findall("properties/property")}
    assert (properties["jsbench.verdict"], properties["jsbench.pass_rate"]) == ("failed", "0.125")
    assert (suite.get("errors"), suite.get("failures"), suite.get("skipped")) == ("1", "6", "1")
    (error,) = suite.iter("error")
    assert (error.get("type"), (error.get("message") or "")[:9]) == ("api_error", "api_error")


def test_a_run_that_is_not_kept_has_its_records_and_figures_only(plain: Bench) -> None:
    plain.case("a")

    plain.run("--jsbench-gate=n>=1")

    (folder,) = Path(plain.path / ".pytest_cache/d/jsbench").iterdir()
    assert {path.name for path in folder.iterdir()} == {"records.jsonl", "run.json"}


def test_what_cannot_be_written_is_a_warning_and_no_failure(plain: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    plain.case("a")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(plain.path))

    result = plain.run()

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["warning    cannot write GITHUB_STEP_SUMMARY: *"])


def test_records_that_cannot_be_read_are_put_aside_and_said_and_the_others_count(tmp_path: Path) -> None:
    good, torn = tmp_path / "records.gw0.jsonl", tmp_path / "records.gw1.jsonl"
    journal = Journal(good, examples.metadata())
    journal.append(record("a"))
    journal.close()
    torn.write_text('{"type": "rec\n{}\n')
    reported = RunState([record("a").key])
    reported.plan([record("a").attempt])

    (said,) = RunFolder(tmp_path).add_to(reported)

    assert reported.complete
    assert said.startswith(f"{torn}:1: ")
    assert said.endswith("; it is kept as records.gw1.jsonl.unreadable")
    assert [path.name for path in sorted(tmp_path.iterdir())] == [good.name, "records.gw1.jsonl.unreadable"]
