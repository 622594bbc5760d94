"""`report.html`: a run as one page that loads nothing and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import MissingRequirement
from pytest_jsbench.core.files import write_atomically
from pytest_jsbench.core.text import printable
from pytest_jsbench.metrics.figures import COUNTED_FAILURES, TIMES
from pytest_jsbench.reports.comparison_table import apart, beside_verdicts
from pytest_jsbench.reports.html.case_list import CaseList
from pytest_jsbench.reports.summary_table import facts
from pytest_jsbench.reports.variant_table import asked, cost_of_many, heading, standing, tokens_of_one

if TYPE_CHECKING:
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.gates import GateResult
    from pytest_jsbench.metrics.metrics import Metrics
    from pytest_jsbench.metrics.statistics import Distribution
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.runs.outcomes import Run


def write(
    path: Path,
    run: Run,
    summary: Summary,
    gates: Sequence[GateResult] = (),
    comparisons: Mapping[str, Comparison] | None = None,
    cases: CaseList | None = None,
) -> None:
    """Write the page in one step, and as it is made; JSBenchError where that fails."""
    write_atomically(path, render(run, summary, gates, comparisons, cases))


def render(
    run: Run,
    summary: Summary,
    gates: Sequence[GateResult] = (),
    comparisons: Mapping[str, Comparison] | None = None,
    cases: CaseList | None = None,
) -> Iterator[str]:
    """
    The page, in parts; text of a model, a schema or a file is never markup in it.

    `comparisons` with a baseline are by variant, or that of no name. `cases` are the run's, where they have been listed
    already.
    """
    if importlib.util.find_spec("jinja2") is None:
        raise MissingRequirement("report.html needs jinja2: pip install 'pytest-jsbench[report]'")
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["visible"] = _visible
    style, script = _page("report.css"), _page("report.js")
    failures = [(kind.value, summary.total.failure_counts[kind]) for kind in COUNTED_FAILURES]
    cases, known = cases or CaseList.of(run), comparisons or {}
    return environment.from_string(_page("report.html")).generate(
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
        heading=heading(run.metadata) if run.variants else run.metadata.model,
        variants=_variants(run, summary),
        standing=list(standing(summary)),
        comparisons=[(name, one, [*beside_verdicts(one), *apart(one.settings)]) for name, one in known.items()],
        failures=sorted(((name, count) for name, count in failures if count), key=lambda pair: -pair[1]),
        labelled=run.metadata.labelled,
        facts=facts(run, summary),
        broken_keywords=[pair for pair in summary.keywords.items() if pair[1].faults],
        kept_keywords=[pair for pair in summary.keywords.items() if not pair[1].faults],
        charts=charts(summary.total),
        cases=cases.pack(run, known),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantRow:
    """A variant, as a row of the page's table."""

    name: str
    #: the settings that tell it from the others
    asked: str
    summary: Summary
    #: of an answer, on average; None where it is not known
    tokens: float | None
    #: US dollars for a thousand answers; None where it is not known
    cost: float | None


def _variants(run: Run, summary: Summary) -> list[VariantRow]:
    told = asked(run, summary)
    return [
        VariantRow(
            name=name,
            asked=told[name],
            summary=found,
            tokens=tokens_of_one(found.total),
            cost=cost_of_many(found.total),
        )
        for name, found in summary.variants.items()
    ]


def _page(name: str) -> str:
    return files("pytest_jsbench.reports.html").joinpath("page", name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """A Content-Security-Policy that loads nothing, and runs no script but this one."""
    return (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _visible(text: Any, limit: int | None = 300) -> str:
    return printable(str(text), limit)


_BINS = 24
_PITCH = 10
_HEIGHT = 55
#: multiples of the 95th percentile that the bars of equal width reach
_REACH = 2
#: times that have no chart
_NOT_DRAWN = ("gct", "queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The measurements from `start` up to `end`."""

    start: float
    end: float
    count: int
    x: int
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A histogram of one time; the last bar holds all beyond `edge`, so that an outlier does not flatten the others."""

    title: str
    unit: str
    low: float
    #: where the last bar begins to hold all up to `high`
    edge: float
    high: float
    spread: Distribution
    bars: tuple[Bar, ...]
    width: int = _BINS * _PITCH


def charts(metrics: Metrics) -> list[Chart]:
    """A chart for each time that has measurements."""
    spreads = [(getattr(metrics, row.name), row) for row in TIMES.values() if row.name not in _NOT_DRAWN]
    return [_chart(spread, row.title, row.unit) for spread, row in spreads if spread.count]


def _chart(spread: Distribution, title: str, unit: str) -> Chart:
    low, high = spread.ordered[0], spread.ordered[-1]
    common = _REACH * ((spread.p95 or low) - low)
    edge = low + common if 0 < common < high - low else high
    width = (edge - low) / _BINS or 1.0
    counts = [0] * _BINS
    for value in spread.ordered:
        counts[min(_BINS - 1, int((value - low) / width))] += 1
    tallest = max(counts)
    bars = tuple(
        Bar(
            start=low + at * width,
            end=high if at == _BINS - 1 else low + (at + 1) * width,
            count=count,
            x=at * _PITCH,
            y=round(_HEIGHT * (1 - count / tallest), 2),
            height=round(_HEIGHT * count / tallest, 2),
        )
        for at, count in enumerate(counts)
        if count
    )
    return Chart(title=title, unit=unit, low=low, edge=edge, high=high, spread=spread, bars=bars)
