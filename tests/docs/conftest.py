from __future__ import annotations

import importlib
import json
import pkgutil
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_jsbench
from pytest_jsbench.cli import compare
from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.extensions import find_entry_points
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.engines import registry
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.records import Record
from pytest_jsbench.reports.run_json import run_to_dict, write_run
from pytest_jsbench.verdicts import Verdict, judge
from tests.support import examples
from tests.support.page_blocks import PAGES, RUNS, blocks_of
from tests.support.stand_in_engines import AcceptingFactory, StandInFactory
from tools.reference import ROOT

CALLING = ("local", "openai", "anthropic", "llguidance", "outlines", "xgrammar")


@pytest.fixture(autouse=True)
def _own_sessions(session_modules: None, not_a_worker: None) -> None:
    """Start each session fast, and with its own environment."""


@pytest.fixture
def folder(files: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory in which the commands of the pages are run."""
    shutil.copytree(files, pytester.path, dirs_exist_ok=True)
    monkeypatch.syspath_prepend(pytester.path)
    return pytester.path


@pytest.fixture(scope="session")
def files(imported: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with docs/examples, the files that pages show, and earlier runs."""
    path = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / "docs" / "examples", path, dirs_exist_ok=True)
    for page in PAGES:
        for block in blocks_of(page):
            if block.file is not None:
                (path / block.file).parent.mkdir(parents=True, exist_ok=True)
                (path / block.file).write_text(block.text, "utf-8")
    shutil.copy(path / "api.json", path / "openapi.json")
    shutil.copy(ROOT / "examples" / "invoices" / "invoices.py", path)
    (path / "my_app").mkdir()
    shutil.copy(path / "shop.py", path / "my_app" / "models.py")
    _runs(path)
    _benchmark(path)
    _labelled(path)
    return path


@pytest.fixture(scope="session")
def imported() -> None:
    """Import the whole package once, since pytester forgets modules that were first imported in its runs."""
    for module in pkgutil.walk_packages(pytest_jsbench.__path__, "pytest_jsbench."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("genai_prices", "jinja2.sandbox"):
        importlib.import_module(name)


def _runs(path: Path) -> None:
    dataset = open_dataset(Selection(source="builtin", limit=1))
    cases = [case for key in dataset.keys() if isinstance(case := dataset.case(key), Case)]
    for number, name in enumerate(RUNS):
        verdicts = [examples.VIOLATED if n > number else examples.PASSED for n in range(len(cases))]
        run = examples.run(*(_record(case, verdict) for case, verdict in zip(cases, verdicts, strict=True)))
        folder = path / "runs" / name
        folder.mkdir(parents=True)
        journal.write(folder / "records.jsonl", run.metadata, run.records)
        write_run(folder / "run.json", run_to_dict(run, summarize(run), config_path="unknown"))
    (path / "other").mkdir()
    (path / "other" / "eval.json").write_text('{"config_path": "x", "backend": "y", "metrics": {"tgt_p50": 2}}')


def _record(case: Case, verdict: Verdict) -> Record:
    return examples.record(case.key.id, task=case.key.task, schema=case.schema, verdict=verdict)


def _labelled(path: Path) -> None:
    (path / "labelled").mkdir()
    schema = {"schema_id": "s", "task": "t", "schema": {"type": "integer"}}
    (path / "labelled" / "schemas.jsonl").write_text(json.dumps(schema))
    answer = {"id": "a", "schema_id": "s", "valid": True, "data": 1}
    (path / "labelled" / "instances.jsonl").write_text(json.dumps(answer))


def _benchmark(path: Path) -> None:
    """Write JSONSchemaBench in the hub's layout, with one task of three schemas."""
    import pyarrow
    import pyarrow.parquet

    rows = [{"json_schema": json.dumps({"type": "object", "title": str(n)}), "unique_id": f"o{n}"} for n in range(3)]
    for place in ("epfl-dlab/JSONSchemaBench", "PATH/TO/JSONSchemaBench"):
        task = path / place / "Glaiveai2K"
        task.mkdir(parents=True)
        card = "- config_name: Glaiveai2K\n  - split: test\n    path: Glaiveai2K/test-*\n"
        (path / place / "README.md").write_text(card)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), task / "test-0.parquet")


class KeptCalls(GuardedCalls):
    """Calls with a child that outlives the run, since starting one for each run takes longer than the run."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="session")
def kept_calls() -> Iterator[KeptCalls]:
    kept = KeptCalls()
    yield kept
    GuardedCalls.close(kept)


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch, kept_calls: KeptCalls) -> None:
    """Replace all engines by ones that make no calls, and share one judge."""
    monkeypatch.setattr(judge, "GuardedCalls", lambda: kept_calls)
    for name in CALLING:
        factory = registry.find(name)
        kind = AcceptingFactory if factory.has_matcher else StandInFactory
        home = registry._BUILT_IN.get(name) or find_entry_points("engine", error=EngineError)[name].value
        monkeypatch.setattr(home.replace(":", "."), kind(factory))
    # Plotting takes seconds, and other tests cover it.
    monkeypatch.setattr(compare, "picture", lambda *_: None)
    monkeypatch.setattr(compare, "save", lambda _, output: output.touch())
    for provider in ("OPENAI", "ANTHROPIC", "OPENROUTER", "GEMINI"):
        monkeypatch.setenv(f"{provider}_API_KEY", "none")
