from __future__ import annotations

import base64
import gzip
import importlib.util
import itertools
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree as ET

import pytest

from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.plugin.controller import outputs
from pytest_jsbench.plugin.controller.outputs import LiveOutputs, RunFolder
from pytest_jsbench.plugin.controller.run_state import RunState
from pytest_jsbench.plugin.worker import items
from pytest_jsbench.reports import every_eval_ever
from pytest_jsbench.reports.evaluations import read_run
from pytest_jsbench.reports.html import report
from pytest_jsbench.reports.html.report import CaseList
from pytest_jsbench.runner.record_keeper import AttemptResult
from pytest_jsbench.runs.journal import Journal
from pytest_jsbench.runs.outcomes import AttemptOutcome
from tests import examples
from tests.examples import record
from tests.plugin.conftest import Bench

needs_jinja2 = pytest.mark.skipif(importlib.util.find_spec("jinja2") is None, reason="needs the extra report")


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


def test_a_test_of_many_says_only_what_its_junit_file_needs_and_that_says_where_the_rest_is(
    plain: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (items, outputs):
        monkeypatch.setattr(module, "MANY", 1)
    plain.write({"conftest.py": "def pytest_runtest_logreport(report): print('said', dict(report.user_properties))"})
    plain.case("a")
    plain.case("b", "no JSON")

    result = plain.run("--jsbench-output=out", "--junitxml=junit.xml", "-s")

    said = "said {'jsbench.task': 'orders', 'jsbench.failure_type': 'syntax_error'}"
    assert said in result.stdout.str()
    (run,) = (plain.path / "out").iterdir()
    suite = ET.parse(plain.path / "junit.xml").getroot()[0]
    properties = {one.get("name"): one.get("value") for one in suite.findall("properties/property")}
    assert properties["jsbench.details"] == (
        f"2 attempts are too many for all of their details to be here; they are in {run}: records.jsonl, report.html"
    )
    assert [[one.tag for one in case] for case in suite.iter("testcase")] == [[], ["failure"]]
    assert [one.get("type") for one in suite.iter("failure")] == ["syntax_error"]


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


@needs_jinja2
def test_what_is_made_while_the_run_goes_is_what_is_made_of_its_records(
    mixed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "FEW", 2)
    monkeypatch.setattr(report, "CHUNK", 3)
    of_records = Mock(side_effect=CaseList.of)
    monkeypatch.setattr(CaseList, "of", of_records)

    mixed.run("--jsbench-output=out")

    assert not of_records.called
    (folder,) = (mixed.path / "out").iterdir()
    run = read_run(folder)
    (rows,) = folder.rglob("*_samples.jsonl")
    every_eval_ever.write(mixed.path / "again", run, summarize(run))
    (again,) = (mixed.path / "again").rglob("*_samples.jsonl")
    assert sorted(rows.read_text().splitlines()) == sorted(again.read_text().splitlines())
    assert len(rows.read_text().splitlines()) == 8
    page = shown((folder / "report.html").read_text())
    assert page == shown("".join(report.render(run, summarize(run))))
    assert len(page) == 9
    assert not list(folder.rglob("*.part"))


def shown(page: str) -> dict[str, Any]:
    """What a page lists of each case, and its details."""
    packed = dict(re.findall('<script type="text/plain" id="([a-z0-9]+)">([^<]*)</script>', page))
    found = {name: json.loads(gzip.decompress(base64.b64decode(text))) for name, text in packed.items()}
    index = found.pop("index")
    details = [one for number in range(len(found)) for one in found[f"chunk{number}"]]
    assert [len(found[f"chunk{number}"]) for number in range(len(found))] == [
        end - start for start, end in itertools.pairwise([*index["starts"], len(details)])
    ]
    return {one["name"]: [one, detail] for one, detail in zip(index["cases"], details, strict=True)}


def test_what_is_made_while_the_run_goes_is_not_used_where_it_is_not_of_exactly_the_runs_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "CHUNK", 1)
    journal = Journal(tmp_path / "records.jsonl", examples.metadata())
    records = [record("a"), record("b", verdict=examples.VIOLATED), record("c")]
    run = examples.run(*records)
    run = replace(run, outcomes=tuple(AttemptOutcome.of(one, journal.append(one)) for one in records))
    journal.close()

    def added(*numbers: int) -> LiveOutputs:
        live = LiveOutputs(tmp_path, examples.metadata())
        for number in numbers:
            live.add(run.outcomes[number], records[number] if number else None)
        live.close()
        return live

    assert added(0, 2, 1).holds(run)
    assert not added(0, 1).holds(run)
    assert not added(0, 1, 2, 1).holds(run)
    shutil.rmtree(tmp_path / "every_eval_ever")
    (tmp_path / "every_eval_ever").write_text("in the way")
    assert not added(0, 1, 2).holds(run)
    assert not list(tmp_path.rglob("*.part"))


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


def test_what_was_reported_of_a_file_that_is_put_aside_is_read_there(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "records.gw0.jsonl", examples.metadata())
    place = journal.append(record("a"))
    journal.close()
    with journal.path.open("a") as file:
        file.write('{"type": "rec\n{}\n')
    reported = RunState([record("a").key])
    reported.plan([record("a").attempt])
    reported.take(AttemptResult(result=AttemptOutcome.of(record("a"), place)))
    folder = RunFolder(tmp_path)

    assert len(list(folder.add_to(reported))) == 1
    written = folder.write(reported.to_run(examples.metadata()))

    assert list(written.records) == [record("a")]
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["records.gw0.jsonl.unreadable", "records.jsonl"]


def test_a_run_that_a_hook_keeps_can_be_read_after_its_files_are_one(mixed: Bench) -> None:
    mixed.write(
        {
            "conftest.py": "import pathlib\n"
            "kept = []\n"
            "def pytest_jsbench_summary(run):\n"
            "    kept.append(run)\n"
            "def pytest_unconfigure():\n"
            "    for run in kept:\n"
            "        pathlib.Path('kept.log').write_text(' '.join(record.key.id for record in run.records))\n"
        }
    )

    mixed.run("--jsbench-output=out")

    assert (mixed.path / "kept.log").read_text().split() == [one["id"] for one in mixed.records()]


def test_the_rows_of_each_variant_are_made_while_the_run_goes(tmp_path: Path) -> None:
    run = examples.compared(a="pv", b="pp")
    live = LiveOutputs(tmp_path / "live", run.metadata)
    for outcome in run.outcomes:
        live.add(outcome, None)

    every_eval_ever.write(tmp_path / "live", run, summarize(run), samples=live.samples)
    live.close()

    every_eval_ever.write(tmp_path / "again", run, summarize(run))
    made, again = (
        {path.name: path.read_text() for path in (tmp_path / name).rglob("*_samples.jsonl")}
        for name in ("live", "again")
    )
    assert made == again
    assert len(made) == 2
