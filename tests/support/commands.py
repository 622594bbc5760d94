"""Run commands on runs that the tests made, and check their output and error messages."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_jsbench.cli.main import main
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports.run_json import run_to_dict, write_run
from tests.support import examples
from tests.support.examples import record


def run(path: Path, model: str, passed: int, *, of: int = 20, cost: float | None = None) -> Path:
    found = examples.run(
        *(record(f"c{at}", verdict=examples.PASSED if at < passed else examples.VIOLATED) for at in range(of))
    )
    found = replace(found, metadata=examples.metadata(model=model))
    summary = summarize(found)
    summary = replace(summary, total=examples.with_figures(summary.total, cost=cost, priced=of if cost else 0))
    write_run(path, run_to_dict(found, summary, config_path="pytest.ini"))
    return path


def of_variants(folder: Path, **outcomes: str) -> Path:
    """Write the directory of a run with variants, each given by how its cases end."""
    found = examples.compared(**outcomes)
    found = replace(found, metadata=replace(found.metadata, run_id=folder.name))
    folder.mkdir()
    write_run(folder / "run.json", run_to_dict(found, summarize(found), config_path="c"))
    (folder / "records.jsonl").touch()
    return folder


def ran(*arguments: object) -> tuple[int, str]:
    """Run a command; return its exit status and its output."""
    out = io.StringIO()
    return main([str(argument) for argument in arguments], out=out), out.getvalue()


def shown(*arguments: object) -> str:
    status, text = ran(*arguments)
    assert status == 0
    return text


def failed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(argument) for argument in arguments], out=io.StringIO()) == 2
    error = capsys.readouterr().err
    assert error.startswith("jsbench: ")
    assert len(error.splitlines()) == 1
    return error
