"""Build the tables that the pictures of a page draw: failures, the spread of times, outcomes and differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_jsbench.core.text import format_count
from pytest_jsbench.metrics.case_outcomes import PASSED
from pytest_jsbench.metrics.comparison import beyond_drift
from pytest_jsbench.metrics.figures import FIGURES, TIMES
from pytest_jsbench.metrics.metrics import COUNTED_FAILURES
from pytest_jsbench.metrics.statistics import quantile
from pytest_jsbench.records.records import Cause
from pytest_jsbench.reports.blocks import Cell, Column, Row, TableBlock
from pytest_jsbench.reports.run_report import ends_of

if TYPE_CHECKING:
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.metrics import Metrics
    from pytest_jsbench.metrics.summary import Summary

#: Times whose spread is drawn.
SPREAD_TIMES = ("ttft", "tgt")
#: Quantiles of a time, with their headings.
_QUANTILES = {
    0.05: "5th percentile",
    0.25: "25th",
    0.5: "Median",
    0.75: "75th",
    0.95: "95th",
}
#: Maximum number of cases in a matrix that have a row of their own.
_MOST_CASES = 24
#: Quantities whose ratios are drawn.
_RATIOS = ("ttft", "tgt", "output_tokens", "cost")
#: Heading of the count in the table of failures.
ATTEMPTS = FIGURES["planned"].heading
#: Conclusion of a comparison with a significant difference.
REAL = "a real difference"
#: Conclusion of any other comparison.
NOT_REAL = "not distinguishable"


def table_of_failures(total: Metrics) -> TableBlock:
    """Return a row per failure type that occurred, and per other cause of a failed test, most attempts first."""
    failures = {kind.value: total.failure_counts[kind] for kind in COUNTED_FAILURES}
    failures |= {cause.value: count for cause, count in total.test_failures.items() if cause is not Cause.ANSWER}
    ranked = sorted(failures.items(), key=lambda pair: -pair[1])
    rows: tuple[Row, ...] = tuple((name, (count,)) for name, count in ranked if count)
    return TableBlock(head="Type", columns=(Column(heading=ATTEMPTS),), rows=rows)


def table_of_spread(time: str, summary: Summary) -> TableBlock:
    """Return the quantiles and the count of a time, with a row per variant, or per task and for the total."""
    parts = {name: part.total for name, part in summary.variants.items()} or {**summary.tasks, "total": summary.total}
    columns = (*(Column.of(TIMES[time], heading) for heading in _QUANTILES.values()), Column(heading="n"))
    rows: list[Row] = []
    for name, metrics in parts.items():
        ordered = getattr(metrics, time).ordered
        cells: list[Cell] = [quantile(ordered, q) for q in _QUANTILES]
        rows.append((name, (*cells, len(ordered))))
    head = "Variant" if summary.variants else "Task"
    title = f"{TIMES[time].title} ({TIMES[time].unit})"
    return TableBlock(head=head, columns=columns, rows=tuple(rows), total=not summary.variants, folded=title)


def matrix_of_cases(summary: Summary) -> TableBlock:
    """Return a row per case in which variants differ, with its outcomes, and a row for each group of other cases."""
    shown = summary.differing[:_MOST_CASES]
    rows: list[Row] = []
    for key in shown:
        ends = ends_of(summary, key)
        rows.append((str(key), tuple(ends.get(name, "") for name in summary.variants)))
    rows += _groups(summary, len(summary.differing) - len(shown))
    columns = tuple(Column(heading=name, left=True, foreign=True) for name in summary.variants)
    return TableBlock(head="Case", columns=columns, rows=tuple(rows), folded="Cases by variant")


def _groups(summary: Summary, more: int) -> Iterator[Row]:
    """
    Yield a row for each group of cases without a row of their own.

    The groups are cases that differ, cases that all variants pass, cases that no variant passes, and cases that are
    missing or undecided in a variant.
    """
    differing = frozenset(summary.differing)
    variants = len(summary.variants)
    groups = Counter[str]()
    for key in summary.outcomes:
        ends = [part.outcomes[key] for part in summary.variants.values() if key in part.outcomes]
        if key in differing:
            continue
        if len(ends) < variants or any(not (end.passed or end.failed) for end in ends):
            groups[""] += 1
        else:
            groups[PASSED if ends[0].passed else "failed"] += 1
    if more:
        yield f"… {format_count(more, 'more case')} that differ", ("",) * variants
    if count := groups[PASSED]:
        yield f"{format_count(count, 'case')} that all pass", (PASSED,) * variants
    if count := groups["failed"]:
        yield f"{format_count(count, 'case')} that none passes", ("failed",) * variants
    if count := groups[""]:
        yield f"{format_count(count, 'case')} not answered in all variants", ("",) * variants


def table_of_differences(comparisons: Sequence[tuple[str, Comparison]]) -> TableBlock:
    """
    Return a row per comparison of two runs or variants that have decided cases in common.

    The comparisons of values, own tests, second tries and repeated answers, if there are any, have rows of their own.
    """
    columns = (
        *(Column(heading=heading, form="{:+.3f}") for heading in ("Difference", "95 % from", "to")),
        *(Column(heading=heading) for heading in (FIGURES["cases"].title, "Down", "Up")),
        Column(heading="p", form="{:.2g}"),
        Column(heading="Conclusion", left=True),
    )
    rows: list[Row] = []
    for name, comparison in comparisons:
        changes = {"": comparison.difference}
        if comparison.values is not None:
            changes[", values all right"] = comparison.values.difference
        if comparison.tests is not None:
            changes[", own tests"] = comparison.tests.difference
        if comparison.repairs is not None:
            changes[", second tries"] = comparison.repairs.difference
        if comparison.agreement is not None:
            changes[", agreement"] = comparison.agreement.difference
        for what, change in changes.items():
            if change.value is not None:
                counts = (change.n, change.fell, change.rose)
                ends = (change.value, change.ci_low, change.ci_high)
                rows.append((f"{name}{what}", (*ends, *counts, change.p_adjusted, REAL if change.real else NOT_REAL)))
    return TableBlock(head="Compared", columns=columns, rows=tuple(rows))


def table_of_ratios(comparisons: Sequence[tuple[str, Comparison]]) -> TableBlock:
    """Return a row per comparison and quantity that both runs measured, without ratios of too few cases."""
    columns = (
        Column(heading="Quantity", left=True),
        *(Column(heading=heading, form="{:.2f}") for heading in ("Ratio", "95 % from", "to")),
        Column(heading=FIGURES["cases"].title),
        Column(heading="Conclusion", left=True),
    )
    rows: list[Row] = []
    for name, comparison in comparisons:
        for measure in _RATIOS:
            ratio = comparison.ratios.get(measure)
            if ratio is not None and ratio.ci_low is not None:
                ends = (ratio.value, ratio.ci_low, ratio.ci_high)
                conclusion = REAL if beyond_drift(ratio) else NOT_REAL
                title = (TIMES.get(measure) or FIGURES[measure]).title
                rows.append((name, (title, *ends, ratio.n, conclusion)))
    return TableBlock(head="Compared", columns=columns, rows=tuple(rows))
