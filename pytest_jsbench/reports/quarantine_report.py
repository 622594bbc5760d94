"""Report the quarantined cases of a run: which failed, and which entries of the list need a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_jsbench.core.text import format_count, list_names, printable
from pytest_jsbench.metrics.quarantine import QuarantineState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_jsbench.metrics.quarantine import QuarantineEntry, QuarantineReport
    from pytest_jsbench.reports.blocks import Fact

_MOST_NAMED = 10


def facts_of_quarantine(report: QuarantineReport) -> Iterator[Fact]:
    """Yield the quarantined cases that failed, and the entries that can be removed, have expired or name no case."""
    source = printable(report.quarantine.source)
    failed, passed, undecided, expired, unknown = map(report.having, QuarantineState)
    left_out = format_count(len(report.left_out), "case")
    yield "quarantine", f"{left_out} of {source} left out of the gates and the verdict"
    if failed:
        yield "", f"failed, excused: {_list_entries(failed, dated=True)}"
    if passed:
        yield "", f"passed, can be removed from {source}: {_list_entries(passed)}"
    if undecided:
        yield "", f"without a result: {_list_entries(undecided)}"
    if expired:
        yield "", f"expired, count again: {_list_entries(expired, dated=True)}"
    if unknown:
        yield "", f"not among the dataset's cases in this run: {_list_entries(unknown)}"


def _list_entries(entries: Sequence[QuarantineEntry], *, dated: bool = False) -> str:
    names = [
        f"{entry.case} ({entry.until.isoformat()}: {entry.reason})" if dated else str(entry.case) for entry in entries
    ]
    return list_names(names, _MOST_NAMED)
