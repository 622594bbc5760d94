"""Describe how a project's application coped with the faults that `jsbench.endpoint` injected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_jsbench.core.text import format_count, list_names, printable
from pytest_jsbench.records.fault_reports import Coping, FaultReport

if TYPE_CHECKING:
    from pytest_jsbench.reports.blocks import Fact

#: Maximum number of tests that one line names.
_MOST_NAMED = 3
#: Ends after which a line names the tests, since they may be mistakes of the application.
_NAMED = (Coping.RETURNED, Coping.HUNG, Coping.UNOBSERVED)
_EXPLAINED = {
    Coping.RETURNED: "returned without an exception after a broken or missing answer",
    Coping.UNOBSERVED: "unobserved; call the application within jsbench.endpoint.faults.watch()",
}


def facts_of_faults(reports: Sequence[FaultReport]) -> Iterator[Fact]:
    """Yield the number of faults by how the application coped, and a line for each fault and way to cope."""
    ends = Counter(report.coping for report in reports)
    counts = ", ".join(f"{coping} {ends[coping]}" for coping in Coping if ends[coping])
    yield "faults", f"{len(reports):,} injected: {counts}"
    groups: dict[tuple[str, Coping], list[FaultReport]] = {}
    for report in sorted(reports, key=lambda each: (list(Coping).index(each.coping), each.fault)):
        groups.setdefault((report.fault, report.coping), []).append(report)
    for (fault, coping), group in groups.items():
        parts = [_EXPLAINED.get(coping, coping.value), *_retries(group)]
        parts += [", ".join(sorted({report.error for report in group if report.error}))]
        parts += [_tests(group)] if coping in _NAMED else []
        yield "", f"{fault}: {'; '.join(part for part in parts if part)}"


def _retries(group: Iterable[FaultReport]) -> Iterator[str]:
    """Yield how often the application called again, and how long it waited."""
    reports = list(group)
    waits = [wait for report in reports for wait in report.waits]
    if not waits:
        return
    asked = max((report.retry_after for report in reports if report.retry_after is not None), default=None)
    least, most = f"{min(waits):.2f}", f"{max(waits):.2f}"
    waited = f"after {least} s" if least == most else f"after {least} to {most} s"
    yield f"called again {format_count(len(waits), 'time')}, {waited}"
    if asked is not None:
        short = sum(report.waited_too_short for report in reports)
        kept = f"ignored in {format_count(short, 'test')}" if short else "respected"
        yield f"Retry-After {asked:g} s was {kept}"


def _tests(group: Iterable[FaultReport]) -> str:
    names = list(dict.fromkeys(printable(f"{report.task}::{report.id}") for report in group))
    return list_names(names, _MOST_NAMED)
