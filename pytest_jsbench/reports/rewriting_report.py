"""Report which cases a variant with rewritten schemas leaves out, and why."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.text import format_count, list_names, printable
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.runs import Records, Run
from pytest_jsbench.reports.blocks import Fact

#: Maximum number of cases that are named for each reason.
_MOST_NAMED = 5


def facts_of_rewritings(run: Run) -> Iterator[Fact]:
    """Yield the cases that each variant leaves out because their schemas cannot be rewritten, by reason."""
    by_variant: dict[str, dict[CaseKey, AttemptFacts]] = {}
    for outcome in run.outcomes:
        if outcome.not_rewritten:
            by_variant.setdefault(outcome.variant, {}).setdefault(outcome.key, outcome)
    for variant, by_case in by_variant.items():
        by_reason: dict[str, list[str]] = {}
        for key, record in zip(by_case, Records(tuple(by_case.values())), strict=True):
            by_reason.setdefault(record.verdict.message, []).append(str(key))
        count = format_count(len(by_case), "case")
        yield "not rewritten", f"{count} left out of {variant or 'the run'}"
        for reason, names in by_reason.items():
            yield "", f"{len(names)}: {reason}: {list_names([*map(printable, names)], _MOST_NAMED)}"
