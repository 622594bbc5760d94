"""The comparison of two runs by the outcomes of their cases."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NotRequired

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.json_values import Fraction, to_json
from pytest_jsbench.core.text import counted
from pytest_jsbench.metrics.case_outcomes import CACHED, MEASURES, CaseOutcome, Ends, Matches
from pytest_jsbench.metrics.statistics import (
    DifferenceFigures,
    DifferenceOfSeveral,
    PairedDifference,
    PairedRatio,
    Share,
    adjusted,
    paired_difference,
    paired_ratio,
)
from pytest_jsbench.records.setting_differences import SettingDifference, differences

if TYPE_CHECKING:
    from pytest_jsbench.records.setting_differences import Setting

#: by which two runs of the same may differ as a whole, whatever their cases say; and shares of cached tokens
_DRIFT = 0.05


class ValueFigures(DifferenceOfSeveral):
    """A comparison of values, as files have it."""

    #: cases of which fewer values are right than then
    worse: list[str]
    #: cases of which more values are right than then
    better: list[str]
    #: cases of which other values were expected then, or compared otherwise
    changed: list[str]
    #: the same figures of the answers with every value of a field right, by its name
    fields: Mapping[str, DifferenceOfSeveral]
    #: what came out of it, for people
    sentence: str


class OwnTestFigures(DifferenceFigures):
    """A comparison of how the project's own tests ended, as files have it."""

    #: cases of which a test takes a smaller share of the answers now
    worse: list[str]
    #: what came out of it, for people
    sentence: str


class ComparisonFigures(DifferenceFigures):
    """A comparison with another run, over the cases of both, as files have it."""

    #: the file or folder compared with
    source: str
    #: cases of which a smaller share of the attempts passes now
    newly_failing: list[str]
    #: cases of which a greater share of the attempts passes now
    newly_passing: list[str]
    #: cases of both that one of them did not decide
    undecided: NotRequired[list[str]]
    #: cases of both with different schemas
    changed: NotRequired[list[str]]
    #: the settings in which the runs differ, as far as both say
    settings: NotRequired[list[SettingDifference]]
    #: all that in words
    sentence: str
    #: the comparison of values, by the answers with every value right and none invented, over the cases of both that
    #: expect the same; absent where none are expected in one of them
    values: NotRequired[ValueFigures]
    #: the comparison of how the project's own tests ended, by the answers that their test takes, over the cases of
    #: which that is known in both; absent where it is of none
    tests: NotRequired[OwnTestFigures]
    #: of what was measured in both, by name: the median over cases of this run's value / the baseline's
    ratios: NotRequired[Mapping[str, PairedRatio]]


class PairFigures(ComparisonFigures):
    """The comparison of two variants of a run, as files have it."""

    #: the variant that is compared with; also `source`
    first: str
    #: the variant that is compared
    second: str
    #: the p-value for as many comparisons as there are (Holm)
    p_value_adjusted: Fraction
    #: whether that is below 0.05
    real: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueComparison:
    """The values of two runs' answers, compared by case; p-values are adjusted for the number of tests."""

    #: of the answers of which every value is right, and none invented
    difference: PairedDifference
    #: by field, of the answers of which every value of the field is right
    fields: Mapping[str, PairedDifference]
    #: cases of whose values fewer are right in the second run, and more
    worse: tuple[CaseKey, ...]
    better: tuple[CaseKey, ...]
    #: cases of which the runs expect other values, or compare them otherwise
    changed: tuple[CaseKey, ...]
    #: cases of which it is known in the first run, and not of each answer of the second, whether every value is right
    undecided_now: int

    @property
    def differing(self) -> dict[str, PairedDifference]:
        """The fields that are not right in the same cases, those first that differ most surely."""
        apart = {name: difference for name, difference in self.fields.items() if difference.fell or difference.rose}
        return dict(sorted(apart.items(), key=lambda pair: pair[1].p_value))

    @property
    def told(self) -> list[tuple[str, str]]:
        """The result in sentences for people: of whole answers by no name, and of each differing field."""
        tests = f" (adjusted for {self.difference.comparisons} tests, Holm)" if self.difference.comparisons > 1 else ""
        whole = f"{told(self.difference, does='have every value right', same='no change in any')}{tests}"
        right = {name: told(difference, does="have it right") for name, difference in self.differing.items()}
        return [("", whole), *right.items()]

    def to_dict(self) -> ValueFigures:
        """The comparison as JSON values."""
        return {
            **self.difference.to_dict_of_several(),
            "worse": [str(key) for key in self.worse],
            "better": [str(key) for key in self.better],
            "changed": [str(key) for key in self.changed],
            "fields": {name: difference.to_dict_of_several() for name, difference in self.fields.items()},
            "sentence": self.told[0][1],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOfTests:
    """The ends of the project's own tests of two runs, compared by case."""

    #: of the answers that their test took; the p-value is adjusted for the number of comparisons
    difference: PairedDifference
    #: cases of which a test took fewer answers in the second run
    worse: tuple[CaseKey, ...]
    #: cases of which a test ended in the first run, and not of each attempt of the second
    undecided_now: int

    @property
    def sentence(self) -> str:
        """The result in one sentence for people."""
        return told(self.difference, does="pass their test", same="the same end of the test")

    def to_dict(self) -> OwnTestFigures:
        """The comparison as JSON values."""
        return {**self.difference.to_dict(), "worse": [str(key) for key in self.worse], "sentence": self.sentence}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The cases of two runs, compared by the share of each case's attempts that passes."""

    #: over the cases that both runs decided
    difference: PairedDifference
    #: with every undecided attempt of the second run counted as a failure
    worst: PairedDifference
    #: cases that the first run decided, and the second not in each attempt
    undecided_now: int
    #: cases of which a smaller share passes in the second run, and a greater one
    newly_failing: tuple[CaseKey, ...]
    newly_passing: tuple[CaseKey, ...]
    #: cases in both runs that one of them did not decide
    undecided: tuple[CaseKey, ...]
    #: cases with one name and different schemas
    changed: tuple[CaseKey, ...]
    #: cases in the first run alone, and in the second alone
    first_alone: int
    second_alone: int
    #: cases with more attempts in one run than in the other; they are compared by as many first attempts as both have
    shortened: int
    #: in which the runs differ, as far as both say
    settings: tuple[SettingDifference, ...] = ()
    #: None where values of no case are known in both
    values: ValueComparison | None = None
    #: None where no test of a project's own ended in both
    tests: ComparisonOfTests | None = None
    #: of what was measured in both, by name
    ratios: Mapping[str, PairedRatio] = field(default_factory=dict)
    #: the share of input tokens that came from a cache, in the first run and in the second; None where one does not say
    cached: tuple[float, float] | None = None
    #: they were asked at once on one machine, which their times shared: there are no ratios of these
    at_once: bool = False

    def asked_at_once(self) -> Comparison:
        """The comparison of two that were asked at once on one machine."""
        ratios = {name: ratio for name, ratio in self.ratios.items() if not _is_time(name)}
        return replace(self, ratios=ratios, at_once=True)

    def no_worse(self, margin: float) -> bool | None:
        """True where the second run is shown to be no worse by the margin; None where nothing can be compared."""
        return None if self.difference.ci_low is None else self.difference.ci_low > -margin

    def no_worse_told(self, margin: float) -> str:
        """Say whether the second run is shown to be no worse by the margin: by the lower bound of the difference."""
        low = self.difference.ci_low
        if low is None:
            return "no case was decided in both: nothing can be compared"
        worst = f"at worst {low:+.3f}, the lower bound of the 95 % interval"
        return f"{'shown' if self.no_worse(margin) else 'not shown'} for a margin of {margin:g} ({worst})"

    @property
    def ratios_told(self) -> list[tuple[str, str]]:
        """
        The ratios in sentences for people, under a word for them; nothing of what too few cases tell.

        A time is called longer only where its interval says so, and by more than two runs of the same may differ.
        """
        bounded = {name: ratio for name, ratio in self.ratios.items() if ratio.ci_low is not None}
        facts = [("ratios", "; ".join(_ratio_told(name, ratio) for name, ratio in bounded.items()))] if bounded else []
        if any(map(_is_time, bounded)) and self.cached is not None and abs(self.cached[1] - self.cached[0]) > _DRIFT:
            shares = " → ".join(f"{100 * share:.0f} %" for share in self.cached)
            facts.append(("warning", f"the share of cached tokens differs ({shares}): times are not those of one work"))
        if self.at_once:
            facts.append(("note", "both were asked at once on one machine: their times are not compared"))
        return facts

    @property
    def real(self) -> bool:
        """True where the difference is significant, given the number of comparisons."""
        return self.difference.real

    @property
    def sentence(self) -> str:
        """The result in one sentence for people."""
        return told(self.difference)

    @property
    def changes(self) -> dict[str, tuple[CaseKey, ...]]:
        """The cases that pass less and more than before, under a word for people; none of a kind without one."""
        words = ("down", "up") if self.difference.repeated else ("broke", "fixed")
        return {word: keys for word, keys in zip(words, (self.newly_failing, self.newly_passing), strict=True) if keys}

    def __repr__(self) -> str:
        return f"<{self.sentence}>"

    def to_dict(self, *, source: str) -> dict[str, Any]:
        """The comparison as JSON values; `source` says what was compared with."""
        return {
            "source": source,
            **self.difference.to_dict(),
            "newly_failing": [str(key) for key in self.newly_failing],
            "newly_passing": [str(key) for key in self.newly_passing],
            "undecided": [str(key) for key in self.undecided],
            "changed": [str(key) for key in self.changed],
            "settings": to_json(self.settings),
            "sentence": self.sentence,
            **({} if self.values is None else {"values": self.values.to_dict()}),
            **({} if self.tests is None else {"tests": self.tests.to_dict()}),
            **({"ratios": to_json(self.ratios)} if self.ratios else {}),
        }

    def to_dict_of_several(self, *, source: str) -> dict[str, Any]:
        """The same of one of several comparisons."""
        return {**self.to_dict(source=source), **self.difference.to_dict_of_several(), "real": self.real}


def beyond_drift(ratio: PairedRatio) -> int:
    """Give 1 or -1 where the whole interval is above or below what two runs of the same may differ by; else 0."""
    if ratio.ci_low is None or ratio.ci_high is None:
        return 0
    return (ratio.ci_low > 1 + _DRIFT) - (ratio.ci_high < 1 - _DRIFT)


def _is_time(measure: str) -> bool:
    return MEASURES[measure] != measure


def _ratio_told(name: str, ratio: PairedRatio) -> str:
    assert ratio.ci_low is not None
    assert ratio.ci_high is not None
    is_time, apart = _is_time(name), beyond_drift(ratio)
    words = ("", ": longer", ": shorter") if is_time else ("", ": more", ": less")
    word = words[apart]
    title = name.upper() if is_time else name.replace("_", " ")
    return (
        f"{title} {ratio.value:.2f} ({ratio.ci_low:.2f} to {ratio.ci_high:.2f} over {counted(ratio.n, 'case')}){word}"
    )


def told(change: PairedDifference, *, does: str = "pass", same: str = "the same verdict on each") -> str:
    """The result of a comparison in one sentence for people; `does` is what a case that succeeds does."""
    if change.value is None:
        return "no case was decided in both: nothing can be compared"
    cases, ups = counted(change.n, "case"), ""
    if not (change.fell or change.rose):
        return f"as many attempts {does} in each of {cases}" if change.repeated else f"{same} of {cases}"
    if change.repeated:
        more = f"{abs(change.value):.3f} {'higher' if change.value > 0 else 'lower'}" if change.value else "the same"
        words = f"the share of attempts that {does} is {more} over {cases}"
        ups = f"; {counted(change.rose, 'case')} up, {change.fell} down"
    elif change.value == 0:
        words = f"as many of {cases} {does}"
    else:
        words = f"{abs(change.rose - change.fell)} {'more' if change.value > 0 else 'fewer'} of {cases} {does}"
    interval = f"({change.value:+.3f}, 95 % interval {change.ci_low:+.3f} to {change.ci_high:+.3f}{ups})"
    return f"{words} {interval}: {_conclusion(change)}"


def _conclusion(change: PairedDifference) -> str:
    """The significance of a difference by its test, with a reason where the interval suggests the opposite."""
    words = "a real difference" if change.real else "not distinguishable from no change"
    test, why = "sign-flip test" if change.repeated else "exact test", ""
    zero = change.ci_low is None or change.ci_high is None or change.ci_low <= 0 <= change.ci_high
    if not change.real and not zero and change.comparisons > 1:
        why = f", adjusted for {change.comparisons} comparisons; the interval is of this pair alone"
    elif change.real is zero:
        why = f"; the interval {'holds' if zero else 'leaves out'} 0, but is approximate"
    return f"{words} ({test}: p = {change.p_adjusted:.2g}{why})"


def same_cases(*runs: Mapping[CaseKey, CaseOutcome] | None) -> bool:
    """True where all runs say which cases they had, and had the same ones with the same schemas."""
    first, *others = runs
    if not first:
        return False
    return all(
        other is not None
        and other.keys() == first.keys()
        and all(len({outcome.schema, other[key].schema} - {""}) < 2 for key, outcome in first.items())
        for other in others
    )


def compare(
    first: Mapping[CaseKey, CaseOutcome],
    second: Mapping[CaseKey, CaseOutcome],
    settings: Sequence[SettingDifference] = (),
) -> Comparison:
    """The comparison of a second run with a first, over the cases and as many attempts as both have."""
    shared = [key for key in second if key in first]
    schemas = {key: {outcome.schema for outcome in (first[key], second[key]) if outcome.schema} for key in shared}
    most = {key: min(len(first[key].attempts), len(second[key].attempts)) for key in shared if len(schemas[key]) < 2}
    pairs = {key: (first[key].first(count), second[key].first(count)) for key, count in most.items()}
    first_decided = {key: pair for key, pair in pairs.items() if pair[0].decided}
    decided = {key: pair for key, pair in first_decided.items() if pair[1].decided}
    gained = {key: now.passes * was.share[1] - was.passes * now.share[1] for key, (was, now) in decided.items()}
    return Comparison(
        difference=paired_difference((was.share, now.share) for was, now in decided.values()),
        worst=paired_difference((was.share, (now.passes, len(now.attempts))) for was, now in first_decided.values()),
        undecided_now=sum(len(now.decided) < len(now.attempts) for _, now in first_decided.values()),
        newly_failing=tuple(key for key, count in gained.items() if count < 0),
        newly_passing=tuple(key for key, count in gained.items() if count > 0),
        undecided=tuple(key for key in pairs if key not in decided),
        changed=tuple(key for key in shared if len(schemas[key]) > 1),
        first_alone=len(first) - len(shared),
        second_alone=len(second) - len(shared),
        shortened=sum(len(first[key].attempts) != len(second[key].attempts) for key in pairs),
        settings=tuple(settings),
        values=_compare_values({key: (was.matches, now.matches) for key, (was, now) in pairs.items()}),
        tests=_compare_tests({key: (was.tests, now.tests) for key, (was, now) in pairs.items()}),
        ratios={
            name: ratio
            for name in MEASURES
            if (ratio := paired_ratio((was.measured(name), now.measured(name)) for was, now in pairs.values())).n
        },
        cached=_cached_shares(pairs.values()),
    )


def _cached_shares(pairs: Collection[tuple[CaseOutcome, CaseOutcome]]) -> tuple[float, float] | None:
    """The share of input tokens that came from a cache in each run, over the attempts that say both."""
    shares = []
    for run in (0, 1):
        tokens = [(sum(pair[run].measured(name)) for name in (CACHED, "input_tokens")) for pair in pairs]
        cached, whole = map(sum, zip(*tokens, strict=True)) if tokens else (0, 0)
        shares.append(cached / whole if whole and any(CACHED in pair[run].measures for pair in pairs) else None)
    first, second = shares
    return None if first is None or second is None else (first, second)


def _compare_values(pairs: Mapping[CaseKey, tuple[Matches, Matches]]) -> ValueComparison | None:
    matched = {key: pair for key, pair in pairs.items() if all(any(match is not None for match in one) for one in pair)}
    if not matched:
        return None
    changed = tuple(key for key, (was, now) in matched.items() if len(_compared_with(was) | _compared_with(now)) > 1)
    other = frozenset(changed)
    shared = {key: pair for key, pair in matched.items() if key not in other}
    fields: dict[str, list[tuple[Share, Share]]] = {}
    for was, now in shared.values():
        for name in dict.fromkeys(name for match in (*was, *now) if match is not None for name in match.fields):
            fields.setdefault(name, []).append((_right(was, name), _right(now, name)))
    exact = [(_exact(was), _exact(now)) for was, now in shared.values()]
    first, *rest = adjusted([paired_difference(shares) for shares in (exact, *fields.values())])
    gained: Counter[CaseKey] = Counter()
    for key, pair in shared.items():
        for before, after in zip(*pair, strict=True):
            if before is not None and after is not None and not (before.problem or after.problem):
                gained[key] += after.right - before.right
    return ValueComparison(
        difference=first,
        fields=dict(zip(fields, rest, strict=True)),
        worse=tuple(key for key, count in gained.items() if count < 0),
        better=tuple(key for key, count in gained.items() if count > 0),
        changed=changed,
        undecided_now=sum(_exact(was)[1] > 0 and _exact(now)[1] < max(1, len(now)) for was, now in pairs.values()),
    )


def _compare_tests(pairs: Mapping[CaseKey, tuple[Ends, Ends]]) -> ComparisonOfTests | None:
    shares = {key: (_share(was), _share(now)) for key, (was, now) in pairs.items()}
    decided = {key: (was, now) for key, (was, now) in shares.items() if was[1] and now[1]}
    if not decided:
        return None
    return ComparisonOfTests(
        difference=paired_difference(decided.values()),
        worse=tuple(key for key, (was, now) in decided.items() if now[0] * was[1] < was[0] * now[1]),
        undecided_now=sum(was[1] > 0 and now[1] < max(1, len(pairs[key][1])) for key, (was, now) in shares.items()),
    )


def _compared_with(matches: Matches) -> frozenset[str]:
    return frozenset(match.compared_with for match in matches if match is not None and match.compared_with)


def _exact(matches: Matches) -> Share:
    return _share(None if match is None or match.problem else match.exact for match in matches)


def _right(matches: Matches, field: str) -> Share:
    counts = [None if match is None else match.fields.get(field) for match in matches]
    return _share(None if count is None else count[0] == count[1] for count in counts)


def _share(ends: Iterable[bool | None]) -> Share:
    """Count those that are known and true."""
    ended = [end for end in ends if end is not None]
    return sum(ended), len(ended)


def several(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Comparisons that are made together, with p-values for their number; those of values for the number of theirs."""
    by_cases = adjusted([comparison.difference for comparison in comparisons])
    valued = [comparison.values for comparison in comparisons if comparison.values is not None]
    tests = iter(adjusted([test for values in valued for test in (values.difference, *values.fields.values())]))
    ends = iter(adjusted([comparison.tests.difference for comparison in comparisons if comparison.tests is not None]))
    together = []
    for comparison, difference in zip(comparisons, by_cases, strict=True):
        values, of_tests = comparison.values, comparison.tests
        if values is not None:
            values = replace(values, difference=next(tests), fields={name: next(tests) for name in values.fields})
        if of_tests is not None:
            of_tests = replace(of_tests, difference=next(ends))
        together.append(replace(comparison, difference=difference, values=values, tests=of_tests))
    return together


#: with more runs than this each is compared with the first alone, which is not chosen by its figures
_MOST_PAIRED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two runs, or two variants of one, compared case by case."""

    first: str
    second: str
    #: its p-value is adjusted for the number of pairs
    comparison: Comparison

    def to_dict(self) -> dict[str, Any]:
        """The pair as JSON values."""
        return {"first": self.first, "second": self.second, **self.comparison.to_dict_of_several(source=self.first)}


#: a run by its name, the outcomes of its cases, and its settings
Standing = tuple[str, "Mapping[CaseKey, CaseOutcome]", "Mapping[str, Setting]"]


def pairs(*groups: Sequence[Standing]) -> list[Pair]:
    """The pairs of runs in each group, with p-values for the number of all; of many runs each with the first alone."""
    chosen = itertools.chain.from_iterable(
        zip(itertools.repeat(group[0]), group[1:]) if len(group) > _MOST_PAIRED else itertools.combinations(group, 2)
        for group in groups
    )
    unadjusted = [
        Pair(
            first=first,
            second=second,
            comparison=compare(before, after, differences([their, our], same_cases=same_cases(before, after))),
        )
        for (first, before, their), (second, after, our) in chosen
    ]
    compared = several([pair.comparison for pair in unadjusted])
    return [replace(pair, comparison=comparison) for pair, comparison in zip(unadjusted, compared, strict=True)]


def differing(runs: Mapping[str, Mapping[CaseKey, CaseOutcome]]) -> tuple[CaseKey, ...]:
    """The cases that some of the runs pass and others fail, those first about which they are divided most evenly."""
    passed: Counter[CaseKey] = Counter()
    decided: Counter[CaseKey] = Counter()
    for run in runs.values():
        for key, outcome in run.items():
            if outcome.passed or outcome.passes < len(outcome.decided):
                decided[key] += 1
                passed[key] += outcome.passed
    apart = [key for key, count in decided.items() if 0 < passed[key] < count]
    return tuple(sorted(apart, key=lambda key: abs(2 * passed[key] - decided[key]) / decided[key]))
