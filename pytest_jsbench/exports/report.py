"""`report.html`: a run as one page that needs nothing from outside and executes nothing but its own script."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.files import write_atomically
from pytest_jsbench.core.text import printable
from pytest_jsbench.errors import MissingRequirement
from pytest_jsbench.exports.report_cases import chunks, index
from pytest_jsbench.exports.report_charts import charts
from pytest_jsbench.exports.table import facts
from pytest_jsbench.metrics import COUNTED_FAILURES

if TYPE_CHECKING:
    from pytest_jsbench.comparisons import Comparison
    from pytest_jsbench.gates import GateResult
    from pytest_jsbench.records import Run
    from pytest_jsbench.summaries import Summary


def write(
    path: Path,
    run: Run,
    summary: Summary,
    gates: Sequence[GateResult] = (),
    comparison: Comparison | None = None,
) -> None:
    """Write the page in one step; JSBenchError when it cannot be."""
    write_atomically(path, render(run, summary, gates, comparison))


def render(run: Run, summary: Summary, gates: Sequence[GateResult] = (), comparison: Comparison | None = None) -> str:
    """The page; whatever a model, a schema or a file said is text in it and nothing else."""
    if importlib.util.find_spec("jinja2") is None:
        raise MissingRequirement("report.html needs jinja2: pip install 'pytest-jsbench[report]'")
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["visible"] = _visible
    style, script = _page("report.css"), _page("report.js")
    failures = [(kind.value, summary.total.failure_counts[kind]) for kind in COUNTED_FAILURES]
    return environment.from_string(_page("report.html")).render(
        policy=_policy(style, script),
        style=Markup(style),  # noqa: S704  our own file
        script=Markup(script),  # noqa: S704  our own file
        version=version("pytest-jsbench"),
        run=run.metadata,
        run_verdict=run.verdict,
        dataset=run.metadata.dataset.get("source"),
        total=summary.total,
        rows=[*summary.tasks.items(), ("total", summary.total)],
        gates=gates,
        comparison=comparison,
        failures=sorted(((name, count) for name, count in failures if count), key=lambda pair: -pair[1]),
        labelled=run.metadata.labelled,
        facts=facts(run, summary),
        broken_keywords=[pair for pair in summary.keywords.items() if pair[1].faults],
        kept_keywords=[pair for pair in summary.keywords.items() if not pair[1].faults],
        charts=charts(summary.total),
        index=index(run, comparison),
        chunks=chunks(run),
    )


def _page(name: str) -> str:
    return files("pytest_jsbench.exports").joinpath("page", name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """A Content-Security-Policy by which nothing is loaded, and nothing runs but this very script."""
    return (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _visible(text: Any, limit: int = 300) -> str:
    return printable(str(text), limit)
