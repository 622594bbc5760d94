from __future__ import annotations

import base64
import gzip
import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pytest_jsbench.core.child_process import Program
from pytest_jsbench.lab.interchange import every_eval_ever
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.plugin.controller import live_outputs
from pytest_jsbench.plugin.controller.live_outputs import FEW, LiveOutputs
from pytest_jsbench.reports.evaluations import read_run
from pytest_jsbench.reports.html import report
from pytest_jsbench.reports.html.case_list import CaseList
from pytest_jsbench.runs.journal import Journal
from pytest_jsbench.runs.outcomes import AttemptOutcome, Run
from tests import examples
from tests.examples import record
from tests.plugin.conftest import Bench

needs_jinja2 = pytest.mark.skipif(importlib.util.find_spec("jinja2") is None, reason="needs the extra report")


@pytest.fixture(autouse=True)
def _starts_fast() -> None:
    """How the process ends is what is tested here: each is a new interpreter."""


@needs_jinja2
@pytest.mark.parametrize("fails", [False, True])
def test_what_is_made_while_the_run_goes_is_what_is_made_of_its_records(
    mixed: Bench, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    for number in range(FEW):
        mixed.case(f"more{number}")
    of_records = Mock(side_effect=CaseList.of)
    monkeypatch.setattr(CaseList, "of", of_records)
    if fails:
        monkeypatch.setattr(live_outputs, "Program", without_folder)

    mixed.run("--jsbench-output=out")

    assert of_records.called is fails
    (folder,) = (mixed.path / "out").iterdir()
    run = read_run(folder)
    (rows,) = folder.rglob("*_samples.jsonl")
    every_eval_ever.write(mixed.path / "again", run, summarize(run))
    (again,) = (mixed.path / "again").rglob("*_samples.jsonl")
    assert sorted(rows.read_text().splitlines()) == sorted(again.read_text().splitlines())
    assert len(rows.read_text().splitlines()) == 8 + FEW
    page = shown((folder / "report.html").read_text())
    assert page == shown("".join(report.render(run, summarize(run))))
    assert len(page) == 9 + FEW
    assert not list(folder.rglob("*.part"))


def without_folder(**values: Any) -> Program:
    """A process that begins and then fails."""
    return Program(**{**values, "settings": {**values["settings"], "folder": "/dev/null"}})


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


def on_disk(run: Run, folder: Path) -> Run:
    """The run, its records in a journal in the folder."""
    journal = Journal(folder / "records.jsonl", run.metadata)
    outcomes = tuple(AttemptOutcome.of(one, journal.append(one)) for one in run.records)
    journal.close()
    return replace(run, outcomes=outcomes)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """One that is large enough."""
    verdicts = itertools.cycle([examples.PASSED, examples.VIOLATED])
    return on_disk(
        examples.run(*(record(f"c{number:03}", verdict=next(verdicts)) for number in range(FEW + 10))), tmp_path
    )


def test_it_is_used_where_it_is_of_exactly_the_runs_attempts(tmp_path: Path, run: Run) -> None:
    def added(*outcomes: AttemptOutcome) -> live_outputs.MadeOutputs | None:
        live = LiveOutputs(tmp_path, run.metadata)
        for outcome in outcomes:
            live.add(outcome)
        live.finish()
        return live.made_of(run)

    made = added(*reversed(run.outcomes))
    assert made is not None
    assert made.samples[""]["count"] == len(run.outcomes)
    assert made.cases.pack(run, {}).index == CaseList.of(replace(run, outcomes=run.outcomes[::-1])).pack(run, {}).index
    assert added(*run.outcomes[1:]) is None
    assert added(*run.outcomes, run.outcomes[3]) is None
    assert added(*run.outcomes[1:], replace(run.outcomes[0], source=run.outcomes[0].read())) is None


def test_it_is_not_used_where_its_process_failed_and_nothing_is_raised(tmp_path: Path, run: Run) -> None:
    def broken(*, at: int) -> LiveOutputs:
        live = LiveOutputs(tmp_path, run.metadata)
        for number, outcome in enumerate(run.outcomes):
            live.add(outcome)
            if number == at:
                live._thread.submit(int).result()
                assert live._child is not None
                live._child.kill()
        live.finish()
        return live

    assert broken(at=FEW // 2).made_of(run) is None
    assert broken(at=len(run.outcomes) - 1).made_of(run) is None
    assert not list(tmp_path.rglob("*.part"))
    shutil.rmtree(tmp_path / "every_eval_ever")
    (tmp_path / "every_eval_ever").write_text("in the way")
    assert broken(at=-1).made_of(run) is None


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="of POSIX")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("interrupted", [True, False])
def test_nobody_waits_long_for_a_process_that_hangs(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, *, interrupted: bool
) -> None:
    monkeypatch.setattr(live_outputs, "_PATIENCE", 30.0 if interrupted else 0.5)
    live = LiveOutputs(tmp_path, run.metadata)
    for outcome in run.outcomes:
        live.add(outcome)
    live._thread.submit(int).result()
    assert live._child is not None
    live._child._process.send_signal(signal.SIGSTOP)
    if interrupted:
        threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()

    live.finish()

    assert live.made_of(run) is None
    assert live._child._process.poll() is not None
    assert not list(tmp_path.rglob("*.part"))


def test_without_another_thread_it_makes_nothing(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    live = LiveOutputs(tmp_path, run.metadata)
    monkeypatch.setattr(live._thread, "submit", Mock(side_effect=RuntimeError("can't start new thread")))

    for outcome in run.outcomes:
        live.add(outcome)
    live.finish()

    assert live.made_of(run) is None


def test_what_was_not_finished_goes_with_it(tmp_path: Path, run: Run) -> None:
    live = LiveOutputs(tmp_path, run.metadata)
    for outcome in run.outcomes:
        live.add(outcome)
    live._thread.submit(int).result()
    assert list(tmp_path.rglob("*.part"))

    live.close()

    assert not list(tmp_path.rglob("*_samples.jsonl*"))


def test_the_rows_of_each_variant_are_apart(tmp_path: Path) -> None:
    run = on_disk(examples.compared(a="pv" * 30, b="pp" * 30), tmp_path)
    live = LiveOutputs(tmp_path / "live", run.metadata)
    for outcome in run.outcomes:
        live.add(outcome)
    live.finish()
    made = live.made_of(run)
    assert made is not None

    every_eval_ever.write(tmp_path / "live/every_eval_ever", run, summarize(run), samples=made.samples)

    every_eval_ever.write(tmp_path / "again/every_eval_ever", run, summarize(run))
    files = [
        {
            path.relative_to(tmp_path / name): re.sub('"retrieved_timestamp": .*', "", path.read_text())
            for path in (tmp_path / name).rglob("*.json*")
        }
        for name in ("live", "again")
    ]
    assert files[0] == files[1]
    assert len(files[0]) == 4
