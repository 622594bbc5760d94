"""Write `report.html`: a run as a single page that loads no other resources and runs only its own script."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import MissingRequirement
from pytest_jsbench.core.files import write_atomically
from pytest_jsbench.core.text import printable
from pytest_jsbench.metrics.figure import Figure
from pytest_jsbench.metrics.figures import FIGURES, TIMES
from pytest_jsbench.records.setting_differences import RECORDED
from pytest_jsbench.reports.blocks import TableBlock
from pytest_jsbench.reports.html.case_list import pack_cases
from pytest_jsbench.reports.html.pictures import pictures_of_run
from pytest_jsbench.reports.overview import SPREAD_TIMES, table_of_failures, table_of_spread
from pytest_jsbench.reports.repeats import table_of_agreement
from pytest_jsbench.reports.run_report import (
    differing_cases,
    distinguishing_settings,
    facts,
    facts_of_variants,
    heading,
    rates_by_task,
    table_of_fields,
    table_of_keywords,
    table_of_tasks,
    table_of_variants,
)
from pytest_jsbench.reports.tool_report import table_of_tools

if TYPE_CHECKING:
    from jinja2 import Environment

    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.gates import GateResult
    from pytest_jsbench.metrics.metrics import Metrics
    from pytest_jsbench.metrics.statistics import Distribution
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.runs import Run
    from pytest_jsbench.reports.blocks import Fact
    from pytest_jsbench.reports.run_json import GateFigures


def write(
    path: Path,
    run: Run,
    summary: Summary,
    gates: Sequence[GateResult] | Sequence[GateFigures] = (),
    comparisons: Mapping[str, Comparison] | None = None,
    more: Sequence[Fact] = (),
) -> None:
    """Render the page and write it atomically; raise JSBenchError if this fails."""
    write_atomically(path, render(run, summary, gates, comparisons, more))


def render(
    run: Run,
    summary: Summary,
    gates: Sequence[GateResult] | Sequence[GateFigures] = (),
    comparisons: Mapping[str, Comparison] | None = None,
    more: Sequence[Fact] = (),
) -> Iterator[str]:
    """
    Yield the page in parts; untrusted text is escaped.

    `comparisons` with the baseline are by variant, with an empty key in a run without variants; `more` are further
    facts.
    """
    environment = page_environment("report.html needs jinja2")
    from markupsafe import Markup

    style = page_part("report.css")
    script = page_part("report.js")
    compared = comparisons or {}
    broken = {name: keyword for name, keyword in summary.keywords.items() if keyword.faults}
    not_violated = {name: keyword for name, keyword in summary.keywords.items() if not keyword.faults}
    return environment.get_template("report.html").generate(
        policy=policy_of(style, script),
        style=Markup(style),  # noqa: S704  our own file
        script=Markup(script),  # noqa: S704  our own file
        version=version("pytest-jsbench"),
        run=run.metadata,
        run_verdict=run.verdict,
        is_recorded=run.metadata.engine in RECORDED,
        dataset=run.metadata.dataset.get("source"),
        total=summary.total,
        figures=FIGURES,
        gates=gates,
        heading=heading(run.metadata) if run.variants else run.metadata.model,
        variants=table_of_variants(run, summary) if summary.variants else None,
        asked=distinguishing_settings(run, summary),
        by_task=rates_by_task(summary),
        tasks=table_of_tasks(run, summary),
        comparisons_of_variants=facts_of_variants(summary),
        comparisons=[(name, comparison, _facts_of_comparison(comparison)) for name, comparison in compared.items()],
        pictures=pictures_of_run(run, summary, compared),
        differing=differing_cases(summary) if summary.differing else None,
        failures=table_of_failures(summary.total),
        facts=[*facts(run, summary), *more],
        keywords=table_of_keywords(replace(summary, keywords=broken)),
        kept_keywords=table_of_keywords(replace(summary, keywords=not_violated)),
        fields=table_of_fields(summary),
        tools=table_of_tools(summary.total),
        agreement=table_of_agreement(summary.total),
        charts=charts(summary.total),
        spreads=[table_of_spread(time, summary) for time in SPREAD_TIMES if getattr(summary.total, time).count],
        cases=pack_cases(run, compared),
    )


def _facts_of_comparison(comparison: Comparison) -> list[Fact]:
    """Return the facts of the comparison with a baseline."""
    from pytest_jsbench.reports.comparison_report import apart, facts_of_ratchet, facts_of_tests_and_values

    changes = facts_of_ratchet(comparison)
    return [*changes, *facts_of_tests_and_values(comparison), *apart(comparison.settings)]


#: Package with the templates that pages of other packages use too.
_PACKAGE = "pytest_jsbench.reports.html"


def page_environment(needed: str, *packages: str) -> Environment:
    """
    Return a jinja2 environment that escapes all text, with the templates of these packages and of this package.

    Raise MissingRequirement with the message `needed` if jinja2 is not installed.
    """
    require_jinja2(needed)
    return _environment(*packages)


@functools.cache
def _environment(*packages: str) -> Environment:
    """Return the environment, which keeps the compiled templates."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader(package, "page") for package in (*packages, _PACKAGE)])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.filters["visible"] = _escape_hidden
    return environment


def compile_page() -> None:
    """Compile the templates of `render` before it is called; raise MissingRequirement if jinja2 is not installed."""
    environment = page_environment("report.html needs jinja2")
    for name in ("report.html", "self_contained.html", "macros.html"):
        environment.get_template(name)


def require_jinja2(needed: str) -> None:
    """Raise MissingRequirement with the message `needed` if jinja2 is not installed."""
    if importlib.util.find_spec("jinja2") is None:
        raise MissingRequirement(f"{needed}: pip install 'pytest-jsbench[report]'")


def html_table(table: TableBlock) -> str:
    """Return the table as HTML for a notebook, with all text escaped."""
    heads = "".join(
        f"<th>{_escape(head)}</th>"
        for head in (table.head, *(column_of_table.heading for column_of_table in table.columns))
    )
    lines = [f"<tr>{heads}</tr>"]
    for name, cells in table.rows:
        texts = [name, *(column.exact_text_of(cell) for column, cell in zip(table.columns, cells, strict=True))]
        lines.append(f"<tr>{''.join(f'<td>{_escape(text)}</td>' for text in texts)}</tr>")
    return "\n".join(["<table>", *lines, "</table>"])


def _escape(text: str) -> str:
    return html.escape(printable(text, None))


def page_part(name: str, package: str = _PACKAGE) -> str:
    """Return the text of a file in the directory `page` of a package."""
    return files(package).joinpath("page", name).read_text("utf-8")


def policy_of(style: str, script: str = "") -> str:
    """Return the content security policy of a page that loads nothing, and has only this style and script."""
    scripts = f"script-src {_source(script)}; " if script else ""
    return f"default-src 'none'; {scripts}style-src {_source(style)}; base-uri 'none'; form-action 'none'"


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _escape_hidden(text: Any, limit: int | None = 300) -> str:
    return printable(str(text), limit)


_BINS = 24
#: Limit of the bars with equal width, as a multiple of the distance from the minimum to the 95th percentile.
_REACH = 2
#: Times for which the page has no chart.
_NOT_DRAWN = ("gct", "queue", "ttft_lateness")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """
    Histogram of a time; the last bar includes all values above `edge`, so that outliers do not
    flatten the others.
    """

    figure: Figure
    spread: Distribution
    low: float
    #: Start of the last bar, which ends at `high`.
    edge: float
    high: float
    #: Number of values in each bar.
    counts: tuple[int, ...]


def charts(metrics: Metrics) -> list[Chart]:
    """Return a histogram for each time that was measured."""
    spreads = [(row, getattr(metrics, row.name)) for row in TIMES.values() if row.name not in _NOT_DRAWN]
    return [_chart(row, spread) for row, spread in spreads if spread.count]


def _chart(figure: Figure, spread: Distribution) -> Chart:
    low = spread.ordered[0]
    high = spread.ordered[-1]
    common = _REACH * ((spread.p95 or low) - low)
    edge = low + common if 0 < common < high - low else high
    width = (edge - low) / _BINS or 1.0
    counts = [0] * _BINS
    for value in spread.ordered:
        counts[min(_BINS - 1, int((value - low) / width))] += 1
    return Chart(figure=figure, spread=spread, low=low, edge=edge, high=high, counts=tuple(counts))
