"""Compare two runs by the outcomes of their cases."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NotRequired

from pytest_jsbench.core.cases import CaseKey

# Natural is the type of inherited fields, which msgspec resolves in this module on Python 3.14.
from pytest_jsbench.core.json_values import Fraction, Natural, to_json  # noqa: F401
from pytest_jsbench.core.text import format_count
from pytest_jsbench.metrics.case_outcomes import CACHED, MEASURES, CaseOutcome, Ends, Matches
from pytest_jsbench.metrics.difference_sentences import difference_sentence
from pytest_jsbench.metrics.ratchet import Ratchet
from pytest_jsbench.metrics.statistics import (
    DifferenceFigures,
    DifferenceOfSeveral,
    PairedDifference,
    PairedRatio,
    Share,
    adjust_p_values,
    paired_difference,
    paired_ratio,
)
from pytest_jsbench.metrics.trigger_comparison import TriggerComparison, TriggerFigures, compare_triggers
from pytest_jsbench.records.setting_differences import SettingDifference, differences

if TYPE_CHECKING:
    from pytest_jsbench.records.setting_differences import Setting

#: Largest relative difference between the times of two runs that is attributed to drift of the machine or provider.
#: Also the largest difference between the shares of cached tokens for which times are comparable.
_DRIFT = 0.05


class ValueFigures(DifferenceOfSeveral):
    """Comparison of the values in the answers of two runs, as written to files."""

    #: Names of the cases with fewer right values than in the other run.
    worse: list[str]
    #: Names of the cases with more right values than in the other run.
    better: list[str]
    #: Names of the cases whose expected values or comparers differ between the runs.
    changed: list[str]
    #: For each field, the difference in the share of answers in which all values of the field are right.
    fields: Mapping[str, DifferenceOfSeveral]
    #: Result of the comparison in one sentence.
    sentence: str


class EndsFigures(DifferenceFigures):
    """Comparison of the results of the project's own tests, or of second tries, in two runs, as written to files."""

    #: Names of the cases in which a smaller share of the answers passes than in the other run.
    worse: list[str]
    #: Result of the comparison in one sentence.
    sentence: str


class ComparisonFigures(DifferenceFigures):
    """Comparison with another run over the common cases, as written to files."""

    #: File or directory of the other run.
    source: str
    #: Names of the cases in which a smaller share of the attempts passes than in the other run.
    newly_failing: list[str]
    #: Names of the cases in which a larger share of the attempts passes than in the other run.
    newly_passing: list[str]
    #: Names of the baseline's cases that this run does not have, or whose schema is invalid in this run; absent if the
    #: runs were not compared as a run and its baseline.
    vanished: NotRequired[list[str]]
    #: Names of the cases that fail in this run, and that the baseline does not have with the same schema.
    arrived_failing: NotRequired[list[str]]
    #: Names of the cases in which every attempt passed in the baseline, and some attempt failed in this run.
    broken: NotRequired[list[str]]
    #: Names of the common cases that are undecided in at least one of the runs.
    undecided: NotRequired[list[str]]
    #: Names of the common cases whose schemas differ between the runs.
    changed: NotRequired[list[str]]
    #: Settings that differ between the runs, as far as both runs record them.
    settings: NotRequired[list[SettingDifference]]
    #: Result of the comparison in one sentence.
    sentence: str
    #: Comparison of the share of answers in which every value is right and no value is invented, over the cases
    #: for which both runs expect the same values; absent if one of the runs expects no values.
    values: NotRequired[ValueFigures]
    #: Comparison of the share of answers that pass the project's own test, over the cases with a test result in both
    #: runs; absent if there are no such cases.
    tests: NotRequired[EndsFigures]
    #: Comparison of the share of answers that pass at once or after a second try, over the cases in which this is known
    #: in both runs; absent unless both runs made second tries.
    repairs: NotRequired[EndsFigures]
    #: Comparison of the decisions to call a tool; absent unless both runs have answers for which the model decided.
    triggers: NotRequired[TriggerFigures]
    #: Comparison of the share of pairs of conforming answers with equal values, over the cases with such pairs in both
    #: runs; absent if there are no such cases.
    agreement: NotRequired[EndsFigures]
    #: Ratio of this run to the other run for each quantity that both runs measured, as a median over cases.
    ratios: NotRequired[Mapping[str, PairedRatio]]


class PairFigures(ComparisonFigures):
    """Comparison of two variants of a run, as written to files."""

    #: Name of the variant that is the baseline; equal to `source`.
    first: str
    #: Name of the variant that is compared with the baseline.
    second: str
    #: p-value adjusted for the number of comparisons (Holm).
    p_value_adjusted: Fraction
    #: Whether `p_value_adjusted` is below 0.05.
    real: bool
    #: Rewriting of the schemas in the second variant, such as `inline`; absent if both have the same schemas.
    rewriting: NotRequired[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueComparison:
    """Comparison of the values in two runs' answers by case; p-values are adjusted for the number of tests."""

    #: Difference in the share of answers in which every value is right and no value is invented.
    difference: PairedDifference
    #: For each field, the difference in the share of answers in which all values of the field are right.
    fields: Mapping[str, PairedDifference]
    #: Cases with fewer right values in the second run.
    worse: tuple[CaseKey, ...]
    #: Cases with more right values in the second run.
    better: tuple[CaseKey, ...]
    #: Cases for which the runs expect different values, or compare values in different ways.
    changed: tuple[CaseKey, ...]
    #: Number of cases whose values were compared in the first run, but not for every attempt in the second run.
    undecided_now: int

    @property
    def differing(self) -> dict[str, PairedDifference]:
        """Differences of the fields that changed in some case, by p-value in ascending order."""
        apart = {name: difference for name, difference in self.fields.items() if difference.fell or difference.rose}
        return dict(sorted(apart.items(), key=lambda pair: pair[1].p_value))

    @property
    def sentences(self) -> list[tuple[str, str]]:
        """Sentence on whole answers, with an empty name, and a sentence on each field that differs, with its name."""
        tests = f" (adjusted for {self.difference.comparisons} tests, Holm)" if self.difference.comparisons > 1 else ""
        whole = f"{difference_sentence(self.difference, does='have every value right', same='no change in any')}{tests}"
        right = {
            name: difference_sentence(difference, does="have it right") for name, difference in self.differing.items()
        }
        return [("", whole), *right.items()]

    def to_dict(self) -> ValueFigures:
        """Return the value comparison as JSON values."""
        return {
            **self.difference.to_dict_of_several(),
            "worse": [str(key) for key in self.worse],
            "better": [str(key) for key in self.better],
            "changed": [str(key) for key in self.changed],
            "fields": {name: difference.to_dict_of_several() for name, difference in self.fields.items()},
            "sentence": self.sentences[0][1],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOfEnds:
    """Comparison of two runs by what follows the verdict: the project's own tests, or second tries."""

    #: Difference in the share of answers that pass; the p-value is adjusted for the number of comparisons.
    difference: PairedDifference
    #: Cases in which a smaller share of the answers passes in the second run.
    worse: tuple[CaseKey, ...]
    #: Number of cases with a result in the first run, but not for every attempt in the second run.
    undecided_now: int
    #: Verb for success, and words for no change.
    does: str
    same: str
    #: Noun for what a case has several of.
    repeated: str = "attempts"

    @property
    def sentence(self) -> str:
        """Result of the comparison in one sentence."""
        return difference_sentence(self.difference, does=self.does, same=self.same, repeated=self.repeated)

    def to_dict(self) -> EndsFigures:
        """Return the comparison as JSON values."""
        return {**self.difference.to_dict(), "worse": [str(key) for key in self.worse], "sentence": self.sentence}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Comparison of two runs by the share of attempts that pass in each case."""

    #: Difference over the cases that are decided in both runs.
    difference: PairedDifference
    #: Difference if every undecided attempt in the second run counts as a failure.
    worst: PairedDifference
    #: Number of cases that are decided in the first run, but have undecided attempts in the second run.
    undecided_now: int
    #: Cases in which a smaller share of the attempts passes in the second run.
    newly_failing: tuple[CaseKey, ...]
    #: Cases in which a larger share of the attempts passes in the second run.
    newly_passing: tuple[CaseKey, ...]
    #: Common cases that are undecided in at least one of the runs.
    undecided: tuple[CaseKey, ...]
    #: Common cases whose schemas differ between the runs.
    changed: tuple[CaseKey, ...]
    #: Number of cases that only the first run has.
    first_alone: int
    #: Number of cases that only the second run has.
    second_alone: int
    #: Number of cases with more attempts in one run than in the other; the surplus attempts are not compared.
    shortened: int
    #: Settings that differ between the runs, as far as both runs record them.
    settings: tuple[SettingDifference, ...] = ()
    #: Comparison of values; None if there is no case for which both runs compared values.
    values: ValueComparison | None = None
    #: Comparison of the project's own tests; None if no test reached a result in both runs.
    tests: ComparisonOfEnds | None = None
    #: Comparison of second tries; None unless both runs made some.
    repairs: ComparisonOfEnds | None = None
    #: Comparison of the decisions to call a tool; None unless the model decided in both runs.
    triggers: TriggerComparison | None = None
    #: Comparison of repeated answers; None unless both runs have cases with two conforming answers.
    agreement: ComparisonOfEnds | None = None
    #: Cases that are worse than in the first run, one by one; None if the first run is not a baseline.
    ratchet: Ratchet | None = None
    #: For each quantity that both runs measured, the ratio of the second run to the first run.
    ratios: Mapping[str, PairedRatio] = field(default_factory=dict)
    #: Share of input tokens that came from a cache in the first run and in the second run; None if one of the runs does
    #: not report this.
    cached: tuple[float, float] | None = None
    #: Whether two variants ran at the same time on one machine, so that their times are not compared.
    at_once: bool = False

    def without_times(self) -> Comparison:
        """Return the comparison without ratios of times, for two variants that ran at the same time on one machine."""
        ratios = {name: ratio for name, ratio in self.ratios.items() if not _is_time(name)}
        return replace(self, ratios=ratios, at_once=True)

    def no_worse(self, margin: float) -> bool | None:
        """Return whether the interval shows that the second run is not worse by the margin; None if unknown."""
        return None if self.difference.ci_low is None else self.difference.ci_low > -margin

    def no_worse_sentence(self, margin: float) -> str:
        """Describe whether the interval shows that the second run is not worse by the margin."""
        low = self.difference.ci_low
        if low is None:
            return "no case was decided on both sides: nothing can be compared"
        worst = f"at worst {low:+.3f}, the lower bound of the 95 % interval"
        return f"{'shown' if self.no_worse(margin) else 'not shown'} for a margin of {margin:g} ({worst})"

    @property
    def ratio_sentences(self) -> list[tuple[str, str]]:
        """
        Sentences on ratios, and notes, each with a heading; ratios over too few cases are left out.

        A time is called longer or shorter only if its whole interval is outside of the range by which two runs of the
        same setup may differ.
        """
        bounded = {name: ratio for name, ratio in self.ratios.items() if ratio.ci_low is not None}
        facts = (
            [("ratios", "; ".join(_ratio_sentence(name, ratio) for name, ratio in bounded.items()))] if bounded else []
        )
        if any(map(_is_time, bounded)) and self.cached is not None and abs(self.cached[1] - self.cached[0]) > _DRIFT:
            shares = " → ".join(f"{100 * share:.0f} %" for share in self.cached)
            facts.append(("warning", f"the share of cached tokens differs ({shares}): times are not comparable"))
        if self.at_once:
            facts.append(("note", "the variants ran at the same time on one machine: their times are not compared"))
        return facts

    @property
    def real(self) -> bool:
        """Whether the difference in pass rates is significant, given the number of comparisons."""
        return self.difference.real

    @property
    def sentence(self) -> str:
        """Result of the comparison in one sentence."""
        return difference_sentence(self.difference)

    @property
    def changes(self) -> dict[str, tuple[CaseKey, ...]]:
        """Cases that pass less often or more often than in the first run, by a word for the change."""
        words = ("down", "up") if self.difference.repeated else ("broke", "fixed")
        return {word: keys for word, keys in zip(words, (self.newly_failing, self.newly_passing), strict=True) if keys}

    def __repr__(self) -> str:
        return f"<{self.sentence}>"

    def to_dict(self, *, source: str) -> dict[str, Any]:
        """Return the comparison as JSON values; `source` names the other run."""
        return {
            "source": source,
            **self.difference.to_dict(),
            "newly_failing": [str(key) for key in self.newly_failing],
            "newly_passing": [str(key) for key in self.newly_passing],
            **({} if self.ratchet is None else self.ratchet.to_dict()),
            "undecided": [str(key) for key in self.undecided],
            "changed": [str(key) for key in self.changed],
            "settings": to_json(self.settings),
            "sentence": self.sentence,
            **({} if self.values is None else {"values": self.values.to_dict()}),
            **({} if self.tests is None else {"tests": self.tests.to_dict()}),
            **({} if self.repairs is None else {"repairs": self.repairs.to_dict()}),
            **({} if self.triggers is None else {"triggers": self.triggers.to_dict()}),
            **({} if self.agreement is None else {"agreement": self.agreement.to_dict()}),
            **({"ratios": to_json(self.ratios)} if self.ratios else {}),
        }

    def to_dict_of_several(self, *, source: str) -> dict[str, Any]:
        """Return this comparison as JSON values, with the p-value that is adjusted for several comparisons."""
        return {**self.to_dict(source=source), **self.difference.to_dict_of_several(), "real": self.real}


def beyond_drift(ratio: PairedRatio) -> int:
    """Return 1 if the whole interval of the ratio is above the range of drift, -1 if it is below, otherwise 0."""
    if ratio.ci_low is None or ratio.ci_high is None:
        return 0
    return (ratio.ci_low > 1 + _DRIFT) - (ratio.ci_high < 1 - _DRIFT)


def _is_time(measure: str) -> bool:
    return MEASURES[measure] != measure


def _ratio_sentence(name: str, ratio: PairedRatio) -> str:
    assert ratio.ci_low is not None
    assert ratio.ci_high is not None
    if _is_time(name):
        title = name.upper()
        words = {1: ": longer", -1: ": shorter", 0: ""}
    else:
        title = name.replace("_", " ")
        words = {1: ": more", -1: ": less", 0: ""}
    interval = f"{ratio.ci_low:.2f} to {ratio.ci_high:.2f} over {format_count(ratio.n, 'case')}"
    return f"{title} {ratio.value:.2f} ({interval}){words[beyond_drift(ratio)]}"


def same_cases(*runs: Mapping[CaseKey, CaseOutcome] | None) -> bool:
    """Return whether all runs record their cases and have the same cases with the same schemas."""
    first, *others = runs
    if not first:
        return False
    return all(
        other is not None
        and other.keys() == first.keys()
        and all(outcome.has_same_schema(other[key]) for key, outcome in first.items())
        for other in others
    )


def compare(
    first: Mapping[CaseKey, CaseOutcome],
    second: Mapping[CaseKey, CaseOutcome],
    settings: Sequence[SettingDifference] = (),
) -> Comparison:
    """Compare the second run with the first over common cases; surplus attempts in one of the runs are ignored."""
    shared = [key for key in second if key in first]
    same = [key for key in shared if first[key].has_same_schema(second[key])]
    most = {key: min(len(first[key].attempts), len(second[key].attempts)) for key in same}
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
        changed=tuple(key for key in shared if key not in most),
        first_alone=len(first) - len(shared),
        second_alone=len(second) - len(shared),
        shortened=sum(len(first[key].attempts) != len(second[key].attempts) for key in pairs),
        settings=tuple(settings),
        values=_compare_values({key: (was.matches, now.matches) for key, (was, now) in pairs.items()}),
        tests=_compare_ends(
            {key: (was.tests, now.tests) for key, (was, now) in pairs.items()},
            does="pass their test",
            same="the same test result in each",
        ),
        repairs=_compare_ends(
            {key: (was.repaired, now.repaired) for key, (was, now) in pairs.items()},
            does="pass at once or after a second try",
            same="the same result of the second tries in each",
        ),
        triggers=compare_triggers((was.triggers, now.triggers) for was, now in pairs.values()),
        agreement=_compare_agreement(pairs),
        ratios={
            name: ratio
            for name in MEASURES
            if (
                ratio := paired_ratio(
                    (was.find_measurements(name), now.find_measurements(name)) for was, now in pairs.values()
                )
            ).n
        },
        cached=_cached_shares(pairs.values()),
    )


def _cached_shares(pairs: Collection[tuple[CaseOutcome, CaseOutcome]]) -> tuple[float, float] | None:
    """Return the share of input tokens that came from a cache in each run; None if a run does not report it."""
    shares = []
    for run in (0, 1):
        tokens = [(sum(pair[run].find_measurements(name)) for name in (CACHED, "input_tokens")) for pair in pairs]
        cached, whole = map(sum, zip(*tokens, strict=True)) if tokens else (0, 0)
        shares.append(cached / whole if whole and any(CACHED in pair[run].measures for pair in pairs) else None)
    first, second = shares
    return None if first is None or second is None else (first, second)


def _compare_values(pairs: Mapping[CaseKey, tuple[Matches, Matches]]) -> ValueComparison | None:
    matched = {
        key: pair for key, pair in pairs.items() if all(any(match is not None for match in matches) for matches in pair)
    }
    if not matched:
        return None
    changed = tuple(key for key, (was, now) in matched.items() if len(_comparers(was) | _comparers(now)) > 1)
    other = frozenset(changed)
    shared = {key: pair for key, pair in matched.items() if key not in other}
    fields: dict[str, list[tuple[Share, Share]]] = {}
    for was, now in shared.values():
        for name in dict.fromkeys(name for match in (*was, *now) if match is not None for name in match.fields):
            fields.setdefault(name, []).append((_count_right(was, name), _count_right(now, name)))
    exact = [(_count_exact(was), _count_exact(now)) for was, now in shared.values()]
    first, *rest = adjust_p_values([paired_difference(shares) for shares in (exact, *fields.values())])
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
        undecided_now=sum(
            _count_exact(was)[1] > 0 and _count_exact(now)[1] < max(1, len(now)) for was, now in pairs.values()
        ),
    )


def _compare_ends(pairs: Mapping[CaseKey, tuple[Ends, Ends]], *, does: str, same: str) -> ComparisonOfEnds | None:
    shares = {key: (_count_true(was), _count_true(now)) for key, (was, now) in pairs.items()}
    decided = {key: (was, now) for key, (was, now) in shares.items() if was[1] and now[1]}
    if not decided:
        return None
    return ComparisonOfEnds(
        difference=paired_difference(decided.values()),
        worse=tuple(key for key, (was, now) in decided.items() if now[0] * was[1] < was[0] * now[1]),
        undecided_now=sum(was[1] > 0 and now[1] < max(1, len(pairs[key][1])) for key, (was, now) in shares.items()),
        does=does,
        same=same,
    )


def _compare_agreement(pairs: Mapping[CaseKey, tuple[CaseOutcome, CaseOutcome]]) -> ComparisonOfEnds | None:
    counts = {key: (was.agreement, now.agreement) for key, (was, now) in pairs.items()}
    shares = {key: (was, now) for key, (was, now) in counts.items() if was is not None and now is not None}
    if not shares:
        return None
    return ComparisonOfEnds(
        difference=paired_difference(shares.values()),
        worse=tuple(key for key, (was, now) in shares.items() if now[0] * was[1] < was[0] * now[1]),
        undecided_now=sum(
            was.agreement is not None and len(now.decided) < len(now.attempts) for was, now in pairs.values()
        ),
        does="have equal values",
        same="the same agreement of the answers to each",
        repeated="pairs of answers",
    )


def _comparers(matches: Matches) -> frozenset[str]:
    return frozenset(match.compared_with for match in matches if match is not None and match.compared_with)


def _count_exact(matches: Matches) -> Share:
    return _count_true(None if match is None or match.problem else match.exact for match in matches)


def _count_right(matches: Matches, field: str) -> Share:
    counts = [None if match is None else match.fields.get(field) for match in matches]
    return _count_true(None if count is None else count[0] == count[1] for count in counts)


def _count_true(ends: Iterable[bool | None]) -> Share:
    """Return the number of true values, and the number of values that are not None."""
    ended = [end for end in ends if end is not None]
    return sum(ended), len(ended)


def adjust_together(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Adjust the p-values of several comparisons, separately for verdicts and for each further comparison."""
    by_cases = adjust_p_values([comparison.difference for comparison in comparisons])
    valued = [comparison.values for comparison in comparisons if comparison.values is not None]
    tests = iter(adjust_p_values([test for values in valued for test in (values.difference, *values.fields.values())]))
    ends = iter(adjust_p_values([each.tests.difference for each in comparisons if each.tests is not None]))
    tries = iter(adjust_p_values([each.repairs.difference for each in comparisons if each.repairs is not None]))
    agreed = iter(adjust_p_values([each.agreement.difference for each in comparisons if each.agreement is not None]))
    adjusted_comparisons = []
    for comparison, difference in zip(comparisons, by_cases, strict=True):
        values = comparison.values
        of_tests = comparison.tests
        if values is not None:
            values = replace(values, difference=next(tests), fields={name: next(tests) for name in values.fields})
        if of_tests is not None:
            of_tests = replace(of_tests, difference=next(ends))
        repairs = comparison.repairs
        if repairs is not None:
            repairs = replace(repairs, difference=next(tries))
        agreement = comparison.agreement
        if agreement is not None:
            agreement = replace(agreement, difference=next(agreed))
        adjusted_comparisons.append(
            replace(
                comparison,
                difference=difference,
                values=values,
                tests=of_tests,
                repairs=repairs,
                agreement=agreement,
            )
        )
    return adjusted_comparisons


#: Maximum size of a group in which all pairs of runs are compared. In a larger group, each run is compared only with
#: the first run, since this choice does not depend on results.
_MOST_PAIRED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Comparison of two runs, or of two variants of one run."""

    first: str
    second: str
    #: Comparison of the second with the first; its p-value is adjusted for the number of pairs.
    comparison: Comparison
    #: Rewriting of the schemas in the second variant; empty if both have the same schemas.
    rewriting: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the pair as JSON values."""
        rewriting = {"rewriting": self.rewriting} if self.rewriting else {}
        compared = self.comparison.to_dict_of_several(source=self.first)
        return {"first": self.first, "second": self.second, **rewriting, **compared}


#: Name of a run, the outcomes of its cases, and its settings.
RunOutcomes = tuple[str, "Mapping[CaseKey, CaseOutcome]", "Mapping[str, Setting]"]


def pairs(*groups: Sequence[RunOutcomes]) -> list[Pair]:
    """
    Compare the runs of each group in pairs, with p-values adjusted for the number of all pairs.

    In a large group, each run is compared only with the first run of the group.
    """
    chosen_pairs = itertools.chain.from_iterable(
        zip(itertools.repeat(group[0]), group[1:]) if len(group) > _MOST_PAIRED else itertools.combinations(group, 2)
        for group in groups
    )
    unadjusted = [
        Pair(
            first=first,
            second=second,
            comparison=compare(before, after, differences([their, our], same_cases=same_cases(before, after))),
        )
        for (first, before, their), (second, after, our) in chosen_pairs
    ]
    compared = adjust_together([pair.comparison for pair in unadjusted])
    return [replace(pair, comparison=comparison) for pair, comparison in zip(unadjusted, compared, strict=True)]


def find_differing_cases(runs: Mapping[str, Mapping[CaseKey, CaseOutcome]]) -> tuple[CaseKey, ...]:
    """Return the cases that some of the runs pass and others fail, the most evenly divided ones first."""
    passed: Counter[CaseKey] = Counter()
    decided: Counter[CaseKey] = Counter()
    for run in runs.values():
        for key, outcome in run.items():
            if outcome.passed or outcome.failed:
                decided[key] += 1
                passed[key] += outcome.passed
    apart = [key for key, count in decided.items() if 0 < passed[key] < count]
    return tuple(sorted(apart, key=lambda key: abs(2 * passed[key] - decided[key]) / decided[key]))
