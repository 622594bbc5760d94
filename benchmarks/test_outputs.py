"""Measure summarising and writing a run of ten thousand cases, one round each."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.lab.interchange import every_eval_ever
from pytest_jsbench.metrics.summary import Summary, summarize
from pytest_jsbench.prompts.named import schema_prompt
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports.html import report
from pytest_jsbench.reports.run_json import run_to_dict, write_run
from pytest_jsbench.reports.run_report import summary_markdown
from tests.support import examples

CASES = 10_000


@pytest.fixture(scope="module")
def run() -> Run:
    dataset = open_dataset(Selection(source="builtin"))
    found = [case for key in dataset.keys() if isinstance(case := dataset.case(key), Case)]
    chance = random.Random(7)

    records = []
    for number in range(CASES):
        case = found[number % len(found)]
        verdict = examples.PASSED if chance.random() < 0.7 else examples.VIOLATED
        text = json.dumps({"values": [chance.random() for _ in range(30)]})
        records.append(
            Record.of(
                key=CaseKey(task=case.key.task, id=f"{case.key.id}-{number}"),
                repeat=0,
                schema=case.schema,
                prompt=schema_prompt(case),
                generation=examples.completion(text, ttft=chance.random(), tgt=1 + chance.random()),
                verdict=verdict,
            )
        )
    return examples.run(*records)


@pytest.fixture(scope="module")
def summary(run: Run) -> Summary:
    return summarize(run)


def once(benchmark: Any, call: Callable[[], object]) -> None:
    benchmark.pedantic(call, rounds=1, iterations=1)


def test_summarize(benchmark: Any, run: Run) -> None:
    once(benchmark, lambda: summarize(run))


def test_run_json(benchmark: Any, run: Run, summary: Summary, tmp_path: Path) -> None:
    once(benchmark, lambda: write_run(tmp_path / "run.json", run_to_dict(run, summary, config_path="x")))
    benchmark.extra_info["bytes"] = (tmp_path / "run.json").stat().st_size


def test_summary_md(benchmark: Any, run: Run, summary: Summary) -> None:
    once(benchmark, lambda: summary_markdown(run, summary))


def test_every_eval_ever(benchmark: Any, run: Run, summary: Summary, tmp_path: Path) -> None:
    once(benchmark, lambda: every_eval_ever.write(tmp_path, run, summary))


def test_report_html(benchmark: Any, run: Run, summary: Summary, tmp_path: Path) -> None:
    once(benchmark, lambda: report.write(tmp_path / "report.html", run, summary))
    benchmark.extra_info["bytes"] = (tmp_path / "report.html").stat().st_size
