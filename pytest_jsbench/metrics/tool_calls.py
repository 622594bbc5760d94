"""Count the tool calls of answers to cases that offer tools: by tool, and what was called instead of what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.metrics.attempt_groups import cluster_by_case
from pytest_jsbench.metrics.statistics import Proportion
from pytest_jsbench.records.facts import ToolCalls

#: An answer's calls, with its case.
CallsOfCase = tuple[CaseKey, ToolCalls]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCounts:
    """Counts of the calls of one tool in one answer."""

    expected: int
    called: int

    @property
    def right(self) -> int:
        """Number of calls that are expected."""
        return min(self.expected, self.called)


def count_by_tool(answers: Iterable[CallsOfCase]) -> dict[str, list[tuple[CaseKey, ToolCounts]]]:
    """Return the counts of each tool that is called or expected, by name; only answers with known expected calls."""
    by_tool: dict[str, list[tuple[CaseKey, ToolCounts]]] = {}
    for key, calls in answers:
        if calls.expected is None:
            continue
        called = Counter(calls.called)
        expected = Counter(calls.expected)
        for name in called | expected:
            by_tool.setdefault(name, []).append((key, ToolCounts(expected=expected[name], called=called[name])))
    return dict(sorted(by_tool.items()))


def precision_by_tool(answers: Iterable[CallsOfCase]) -> dict[str, Proportion]:
    """Return for each tool the expected calls / calls."""
    return {
        name: cluster_by_case((key, counts.right, counts.called) for key, counts in of_tool)
        for name, of_tool in count_by_tool(answers).items()
    }


def recall_by_tool(answers: Iterable[CallsOfCase]) -> dict[str, Proportion]:
    """Return for each tool the expected calls that were made / expected calls."""
    return {
        name: cluster_by_case((key, counts.right, counts.expected) for key, counts in of_tool)
        for name, of_tool in count_by_tool(answers).items()
    }


def count_confusions(answers: Iterable[CallsOfCase]) -> dict[str, int]:
    """
    Return how often a tool was called instead of another, as `called instead of expected`, the most frequent first.

    In an answer that lacks expected calls, each surplus call counts for each missing call.
    """
    confusions: Counter[str] = Counter()
    for _, calls in answers:
        if calls.expected is None:
            continue
        called = Counter(calls.called)
        expected = Counter(calls.expected)
        for missing in expected - called:
            confusions.update(f"{surplus} instead of {missing}" for surplus in called - expected)
    return dict(confusions.most_common())
