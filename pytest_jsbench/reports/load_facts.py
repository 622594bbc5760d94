"""Report the load of a run: how calls began, what was in time, first and later calls of a schema, and plain calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_jsbench.core.text import dollars, format_count, printable
from pytest_jsbench.metrics.figures import FIGURES
from pytest_jsbench.reports.blocks import NOT_APPLICABLE, Fact, share_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_jsbench.metrics.metrics import Metrics
    from pytest_jsbench.metrics.statistics import Distribution
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.facts import AttemptFacts
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.runs import Run

#: Delay of starts in seconds from which the report says that the rate was not kept.
_LONG_DELAY = 0.1
#: Maximum number of plain calls that the report names.
_MOST_NAMED = 3


def facts_of_load(run: Run, summary: Summary, names: Mapping[str, str]) -> Iterator[Fact]:
    """Yield facts about the load and the service level, of each variant by its short name; none without them."""
    if not run.metadata.has_load:
        return
    for name, part in summary.variants.items() or [("", summary)]:
        yield from _facts(run.metadata, part.total, f"{names[name]}: " if name else "")
    yield from _plain_problems(run)


def _facts(metadata: RunMetadata, total: Metrics, of: str) -> Iterator[Fact]:
    """Yield the figures of a run or of a variant; `of` is a prefix with the name of the variant."""
    if metadata.rate:
        yield "load", f"{of}{'; '.join(_starts(metadata, total))}"
    if metadata.slo:
        in_time = share_text(total.in_time) if total.in_time.n else f"{NOT_APPLICABLE} (no limited time was measured)"
        yield FIGURES["good_rate"].heading.lower(), f"{of}{in_time} answers within {printable(metadata.slo)}"
    yield "goodput", f"{of}{'; '.join(_goodput(metadata, total))}"
    if total.ttft_cold.count:
        yield "cold", f"{of}{_first_and_later(total)}"
    if metadata.plain_share:
        yield "plain", f"{of}{'; '.join(_plain(total))}"


def _plain_problems(run: Run) -> Iterator[Fact]:
    """Yield the first attempts whose plain calls had a problem."""
    found = [(attempt, problems) for attempt in run.outcomes if (problems := _problems(attempt))]
    for attempt, problems in found[:_MOST_NAMED]:
        yield "", f"{problems}: plain call next to {printable(run.name_of(attempt.attempt))}"
    if found:
        more = len(found) - _MOST_NAMED
        answers = "load.plain in records.jsonl has the answers"
        yield "", f"… and next to {format_count(more, 'more attempt')}; {answers}" if more > 0 else answers


def _problems(attempt: AttemptFacts) -> str:
    """Return the problems of an attempt's plain calls; empty if there are none."""
    plain = () if attempt.load is None else attempt.load.plain
    return ", ".join(call.problem.value for call in plain if call.problem is not None)


def _starts(metadata: RunMetadata, total: Metrics) -> Iterator[str]:
    """Yield the rate that was set and the achieved one, and how late calls began."""
    achieved = NOT_APPLICABLE if total.achieved_rate is None else f"{total.achieved_rate:.2f}/s"
    yield f"{format_count(total.start_delay.count, 'call')} at {printable(metadata.rate)}, achieved {achieved}"
    p50, p99 = total.start_delay.p50, total.start_delay.p99
    if p50 is None or p99 is None:
        return
    yield f"starts late by {p50:.3f} s (median), {p99:.3f} s (99th percentile), {total.start_delay.max:.3f} s (max)"
    if p99 >= _LONG_DELAY:
        yield (
            "the rate was not kept: calls waited for this machine (add -n), for --jsbench-concurrency, for limits, or "
            "for the provider"
        )


def _goodput(metadata: RunMetadata, total: Metrics) -> Iterator[str]:
    """Yield the goodput, and the share, cost and tokens of passed answers."""
    passed = FIGURES["good_rate"].title.lower() if metadata.slo else "passed"
    speed = NOT_APPLICABLE if total.goodput is None else f"{total.goodput:.2f}"
    yield f"{speed} answers per second {passed}"
    if metadata.slo:
        yield f"{share_text(total.good_rate)} attempts {passed}"
    if total.output_tokens_per_valid is not None:
        yield f"{total.output_tokens_per_valid:,.0f} tokens out per passed answer"
    if total.cost_per_valid is not None:
        yield f"{dollars(total.cost_per_valid)} per passed answer"


def _first_and_later(total: Metrics) -> str:
    """Return the TTFT of the first and of the later calls of the schemas."""
    first = f"TTFT {_median(total.ttft_cold)} of the first calls of {format_count(total.ttft_cold.count, 'schema')}"
    if not total.ttft_warm.count:
        sent = "all later calls were sent before its first token; lower --jsbench-concurrency"
        return f"{first}; {NOT_APPLICABLE} later ({sent})"
    return f"{first}, {_median(total.ttft_warm)} of {format_count(total.ttft_warm.count, 'later call')} (medians)"


def _median(times: Distribution) -> str:
    return NOT_APPLICABLE if times.p50 is None else f"{times.p50:.3f} s"


def _plain(total: Metrics) -> Iterator[str]:
    """Yield how many plain calls went well, and what was wrong with the others."""
    yield f"{share_text(total.plain_ok)} calls without a schema were answered without a problem"
    problems = [f"{problem} {count}" for problem, count in total.plain_problems.items() if count]
    if problems:
        yield ", ".join(problems)
    if total.plain_repeated.n:
        yield f"{share_text(total.plain_repeated)} answers repeat their line"
    if total.plain_ttft.p50 is not None:
        yield f"TTFT {_median(total.plain_ttft)} (median)"
    if total.plain_cost is not None:
        yield f"cost {dollars(total.plain_cost)}"
