"""Describe a paired difference in one sentence, with its interval and whether it is significant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_jsbench.core.text import format_count

if TYPE_CHECKING:
    from pytest_jsbench.metrics.statistics import PairedDifference


def difference_sentence(
    change: PairedDifference,
    *,
    does: str = "pass",
    same: str = "the same verdict on each",
    repeated: str = "attempts",
) -> str:
    """
    Return the difference in one sentence.

    `does` is the verb for success, `same` the words for no change, and `repeated` the noun for what a case has several
    of.
    """
    if change.value is None:
        return "no case was decided on both sides: nothing can be compared"
    cases = format_count(change.n, "case")
    if not (change.fell or change.rose):
        return f"the same number of {repeated} {does} in each of {cases}" if change.repeated else f"{same} of {cases}"
    ups = ""
    if change.repeated:
        more = "the same"
        if change.value:
            more = f"{abs(change.value):.3f} {'higher' if change.value > 0 else 'lower'}"
        words = f"the share of {repeated} that {does} is {more} over {cases}"
        ups = f"; {format_count(change.rose, 'case')} up, {change.fell} down"
    elif change.value == 0:
        words = f"equally many of {cases} {does}"
    else:
        words = f"{abs(change.rose - change.fell)} {'more' if change.value > 0 else 'fewer'} of {cases} {does}"
    interval = f"({change.value:+.3f}, 95 % interval {change.ci_low:+.3f} to {change.ci_high:+.3f}{ups})"
    return f"{words} {interval}: {_conclusion(change)}"


def _conclusion(change: PairedDifference) -> str:
    """Describe whether the difference is significant, with an explanation if its interval suggests the opposite."""
    words = "a real difference" if change.real else "not distinguishable from no change"
    test = "sign-flip test" if change.repeated else "exact test"
    has_zero = change.ci_low is None or change.ci_high is None or change.ci_low <= 0 <= change.ci_high
    why = ""
    if not change.real and not has_zero and change.comparisons > 1:
        why = f", adjusted for {change.comparisons} comparisons; the interval is not adjusted"
    elif change.real is has_zero:
        why = f"; the interval {'includes' if has_zero else 'excludes'} 0, but is approximate"
    return f"{words} ({test}: p = {change.p_adjusted:.2g}{why})"
