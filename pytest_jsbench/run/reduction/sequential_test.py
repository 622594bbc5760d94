"""
Decide by a sequential probability ratio test (A. Wald, 1945) whether a candidate still fails often enough.

A model may fail by chance, so one answer decides nothing. The test compares two hypotheses: the candidate fails as
often as the case itself, or only a fifth as often. Each answer adds the logarithm of the ratio of its probabilities;
the test ends at the bounds for the two error rates. With a case that always fails, two failures accept a candidate,
and one conforming answer rejects it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Maximum number of answers for one decision; after these, the candidate is rejected.
MOST_ANSWERS = 32
#: Number of answers from which the share of failures of the case itself is estimated, at most and at least.
MOST_BASELINE = 10
LEAST_FAILURES = 3
_HIGHEST, _LOWEST = 0.95, 0.3
_RATIO = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialTest:
    """A test with its two hypotheses and error rates."""

    #: Share of failures of a candidate that fails like the case.
    share: float
    #: Probability of accepting a candidate that fails only a fifth as often.
    false_accept: float = 0.05
    #: Probability of rejecting a candidate that fails like the case.
    false_reject: float = 0.1

    def decide(self, failures: int, others: int) -> bool | None:
        """Return whether the candidate is accepted after these answers; None if more answers are needed."""
        rare = self.share / _RATIO
        ratio = failures * math.log(self.share / rare) + others * math.log((1 - self.share) / (1 - rare))
        if ratio >= math.log((1 - self.false_reject) / self.false_accept):
            return True
        if ratio <= math.log(self.false_reject / (1 - self.false_accept)) or failures + others >= MOST_ANSWERS:
            return False
        return None


@dataclass(frozen=True, slots=True)
class OneAnswer:
    """The rule for deterministic results, such as those of a grammar: one result decides."""

    def decide(self, failures: int, others: int) -> bool | None:
        """Return whether the candidate is accepted; None before the first result."""
        return failures > 0 if failures + others else None


Rule = SequentialTest | OneAnswer


def needs_more_baseline(failures: int, others: int) -> bool:
    """Return whether more answers are needed to estimate how often the case itself fails."""
    return failures < LEAST_FAILURES and failures + others < MOST_BASELINE


def rule_for(failures: int, others: int) -> SequentialTest:
    """Return the test for a case that failed this often."""
    share = failures / (failures + others)
    return SequentialTest(share=min(max(share, _LOWEST), _HIGHEST))


def confirming(rule: Rule) -> Rule:
    """Return the stricter rule for the result, which must not rest on chance among many candidates."""
    return rule if isinstance(rule, OneAnswer) else SequentialTest(share=rule.share, false_accept=0.01)
