from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pytest_jsbench import journal
from pytest_jsbench.engines import registry
from pytest_jsbench.engines.base import AcceptorFactory
from pytest_jsbench.exports.runjson import run_to_dict, write_run
from pytest_jsbench.summaries import summarize
from pytest_jsbench.verdicts import Verdict
from tests import examples
from tests.docs.blocks import blocks_of
from tests.docs.reference import ROOT
from tests.docs.standins import AcceptingFactory, StandInFactory
from tests.plugin.conftest import not_a_worker, plain  # noqa: F401  fixtures

for needed in ("yaml", "pydantic", "jinja2", "matplotlib", "openai", "pyarrow.parquet"):
    pytest.importorskip(needed, reason="needs the extras")

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
CALLING = ("local", "openai", "anthropic", "llguidance", "outlines", "xgrammar")


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a reader would run what the pages say: docs/examples, the files that pages show, and what has been run."""
    path = pytester.path
    shutil.copytree(ROOT / "docs" / "examples", path, dirs_exist_ok=True)
    for page in PAGES:
        for block in blocks_of(page):
            if block.file is not None:
                (path / block.file).parent.mkdir(parents=True, exist_ok=True)
                (path / block.file).write_text(block.text, "utf-8")
    shutil.copy(path / "api.json", path / "openapi.json")
    (path / "my_app").mkdir()
    shutil.copy(path / "shop.py", path / "my_app" / "models.py")
    _runs(path)
    _benchmark(path)
    monkeypatch.syspath_prepend(path)
    return path


def _runs(path: Path) -> None:
    for name in ("a", "b", "c"):
        run = examples.run(*(examples.record(f"case{n}", verdict=_verdict(name, n)) for n in range(4)))
        (path / "runs" / name).mkdir(parents=True)
        journal.write(path / "runs" / name / "records.jsonl", run.metadata, run.records)
        data = run_to_dict(run, summarize(run), config_path="unknown")
        write_run(path / "runs" / name / "run.json", data)
    (path / "other").mkdir()
    (path / "other" / "eval.json").write_text(json.dumps({"config_path": "x", "backend": "y", "metrics": {"tgt_p50": 2}}))


def _verdict(name: str, number: int) -> Verdict:
    return examples.PASSED if number < "abc".index(name) + 2 else examples.VIOLATED


def _benchmark(path: Path) -> None:
    """JSONSchemaBench as it lies on the hub, with one task of three schemas."""
    import pyarrow
    import pyarrow.parquet

    rows = [{"json_schema": json.dumps({"type": "object", "title": str(n)}), "unique_id": f"o{n}"} for n in range(3)]
    for place in ("epfl-dlab/JSONSchemaBench", "PATH/TO/JSONSchemaBench"):
        task = path / place / "Glaiveai2K"
        task.mkdir(parents=True)
        card = "- config_name: Glaiveai2K\n  - split: test\n    path: Glaiveai2K/test-*\n"
        (path / place / "README.md").write_text(card)
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), task / "test-0.parquet")


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine calls anybody."""
    for name in CALLING:
        module = __import__(registry._BUILT_IN[name], fromlist=["FACTORY"])
        kind = AcceptingFactory if isinstance(module.FACTORY, AcceptorFactory) else StandInFactory
        monkeypatch.setattr(module, "FACTORY", kind(module.FACTORY))
    for provider in ("OPENAI", "ANTHROPIC", "OPENROUTER", "GEMINI"):
        monkeypatch.setenv(f"{provider}_API_KEY", "none")
