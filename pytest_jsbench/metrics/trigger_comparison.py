"""
Compare the decisions of two runs to call a tool, with the first run as the reference.

The figures are those of the vendor verifiers of Kimi K2, there named tool_call_precision, tool_call_recall and
tool_call_f1: the reference is the official deployment, and the other run is a vendor's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypedDict

from pytest_jsbench.core.json_values import Fraction, Natural
from pytest_jsbench.core.text import format_count
from pytest_jsbench.metrics.statistics import Proportion, clustered

#: For each attempt at a case, whether the answer calls a tool; None if unknown, or if the model did not decide.
Triggers = tuple[bool | None, ...]


class TriggerFigures(TypedDict):
    """Comparison of the decisions to call a tool, as written to files; the other run is the reference."""

    #: Number of pairs of answers to the same question in which the model of each run decided.
    n: Natural
    #: Number of pairs in which both answers call a tool.
    both: Natural
    #: Number of pairs in which only the answer of the other run calls a tool.
    missed: Natural
    #: Number of pairs in which only the answer of this run calls a tool.
    surplus: Natural
    #: Share of this run's answers with a call in which the other run calls a tool, too; null without calls.
    precision: Fraction | None
    #: Share of the other run's answers with a call in which this run calls a tool, too; null without calls.
    recall: Fraction | None
    #: Harmonic mean of precision and recall; null if no answer has a call.
    f1: Fraction | None
    #: Lower bound of the 95 % interval of `f1`.
    f1_ci_low: Fraction | None
    #: Upper bound of the 95 % interval of `f1`.
    f1_ci_high: Fraction | None
    #: Result of the comparison in one sentence.
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerComparison:
    """Agreement of the second run's decisions to call a tool with those of the first run."""

    n: int
    precision: Proportion
    recall: Proportion
    f1: Proportion
    #: Number of answers with a decision only in the first run, because the second run has no answer there.
    undecided_now: int

    @property
    def sentence(self) -> str:
        """Result of the comparison in one sentence."""
        answers = format_count(self.n, "answer")
        if self.f1.value is None:
            return f"decisions to call a tool: neither run calls one in {answers}"
        bounds = f"95 % interval {self.f1.ci_low:.3f} to {self.f1.ci_high:.3f}"
        precision, recall = (f"{rate.successes}/{rate.n}" for rate in (self.precision, self.recall))
        rates = f"F1 {self.f1.value:.3f} ({bounds}), precision {precision}, recall {recall}"
        return f"decisions to call a tool: {rates} over {answers}"

    def to_dict(self) -> TriggerFigures:
        """Return the comparison as JSON values."""
        both = self.precision.successes
        return {
            "n": self.n,
            "both": both,
            "missed": self.recall.n - both,
            "surplus": self.precision.n - both,
            "precision": self.precision.value,
            "recall": self.recall.value,
            "f1": self.f1.value,
            "f1_ci_low": self.f1.ci_low,
            "f1_ci_high": self.f1.ci_high,
            "sentence": self.sentence,
        }


def compare_triggers(cases: Iterable[tuple[Triggers, Triggers]]) -> TriggerComparison | None:
    """
    Compare the decisions in each case, attempt by attempt; None if no attempt has a decision in both runs.

    The attempts at a case are one cluster, as in all rates.
    """
    counts: list[tuple[int, int, int, int]] = []
    undecided = 0
    for first, second in cases:
        pairs = list(zip_longest(first, second))  # a case without any answer has no decisions
        undecided += sum(before is not None and now is None for before, now in pairs)
        decided = [(before, now) for before, now in pairs if before is not None and now is not None]
        if decided:
            both = sum(before and now for before, now in decided)
            called = [sum(each) for each in zip(*decided, strict=True)]
            counts.append((both, called[0], called[1], len(decided)))
    if not counts:
        return None
    return TriggerComparison(
        n=sum(size for *_, size in counts),
        precision=clustered((both, now) for both, _, now, _ in counts if now),
        recall=clustered((both, before) for both, before, _, _ in counts if before),
        f1=clustered((2 * both, before + now) for both, before, now, _ in counts if before + now),
        undecided_now=undecided,
    )
