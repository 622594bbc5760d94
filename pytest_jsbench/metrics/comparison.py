"""The outcomes of a run's cases, and the comparison of two runs by them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.generations import tpot_ms
from pytest_jsbench.core.text import counted, printable
from pytest_jsbench.metrics.statistics import (
    PairedDifference,
    PairedRatio,
    Share,
    adjusted,
    paired_difference,
    paired_ratio,
)
from pytest_jsbench.records.settings import differences
from pytest_jsbench.values import Match
from pytest_jsbench.verdicts import NOT_THE_MODELS, FailureType

if TYPE_CHECKING:
    from pytest_jsbench.records.outcomes import AttemptOutcome
    from pytest_jsbench.records.records import Attempt
    from pytest_jsbench.records.settings import Setting, SettingDifference

PASSED = "passed"
MISSING = "missing"
#: outcomes that say nothing about the model
UNDECIDED = frozenset({MISSING, *NOT_THE_MODELS})
_ENDS = frozenset({PASSED, MISSING, *FailureType})
_DIGEST = 12
#: how the test of an attempt may have ended
_TESTS = (True, False, None)


#: measurements of an attempt that are compared, as ratios, by their figures
MEASURES = {
    **{name: f"{name}_p50" for name in ("ttft", "tpot", "tgt", "gct")},
    **{name: name for name in ("input_tokens", "output_tokens", "cost")},
}
#: beside them: the share of what was cached says whether times can be compared
_CACHED = "cached_tokens"
_MEASURED = (*MEASURES, _CACHED)
#: by which two runs of the same may differ as a whole, whatever their cases say; and shares of cached tokens
_DRIFT = 0.05
#: of a case's attempts, in order, by name; None where one has none
Measures = Mapping[str, tuple["float | None", ...]]
#: of a case's attempts, in order
Matches = tuple["Match | None", ...]
#: whether the project's own test passed that asked for each attempt; None where it did not end, or the call broke
Ends = tuple["bool | None", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """The outcomes of one case's attempts, in order: each `passed`, `missing` or a failure type."""

    #: the first hex digits of the schema's digest; empty where no attempt was recorded
    schema: str
    attempts: tuple[str, ...]
    #: how many values of each attempt's answer are right; empty where nothing is known of any
    matches: Matches = ()
    #: whether the test of each attempt passed; empty where none asked
    tests: Ends = ()
    #: times, tokens and cost of each attempt; none where nothing was measured
    measures: Measures = field(default_factory=dict)

    def measured(self, name: str) -> list[float]:
        """The measurements of that name, of the attempts that have one."""
        return [value for value in self.measures.get(name, ()) if value is not None]

    @property
    def passes(self) -> int:
        """The attempts that passed."""
        return self.attempts.count(PASSED)

    @property
    def passed(self) -> bool:
        """True where every attempt passed."""
        return self.passes == len(self.attempts)

    @property
    def decided(self) -> tuple[str, ...]:
        """The attempts that say something about the model."""
        return tuple(end for end in self.attempts if end not in UNDECIDED)

    @property
    def share(self) -> Share:
        """The attempts that passed, of those that say something about the model."""
        return self.passes, len(self.decided)

    @property
    def flaky(self) -> bool:
        """True where some attempts passed and some failed."""
        return 0 < self.passes < len(self.decided)

    def first(self, count: int) -> CaseOutcome:
        """The outcome of the first `count` attempts alone."""
        attempts, matches, tests = self.attempts[:count], self.matches[:count], self.tests[:count]
        measures = {name: values[:count] for name, values in self.measures.items()}
        return replace(self, attempts=attempts, matches=matches, tests=tests, measures=measures)

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        values = [None if match is None else match.to_dict() for match in self.matches]
        for match in filter(None, values):
            del match["differences"]
        return {
            "schema": self.schema,
            "attempts": list(self.attempts),
            **({"values": values} if values else {}),
            **({"tests": list(self.tests)} if self.tests else {}),
            **({"measures": {name: list(values) for name, values in self.measures.items()}} if self.measures else {}),
        }

    @classmethod
    def from_dict(cls, data: Any) -> CaseOutcome:
        """The inverse of `to_dict`; RecordError where the data are no outcome."""
        attempts = data.get("attempts") if isinstance(data, Mapping) else None
        schema = data.get("schema", "") if isinstance(data, Mapping) else None
        if not isinstance(schema, str) or not isinstance(attempts, list) or not attempts:
            message = 'a case is not {"schema": digits, "attempts": [how each ended]}'
            raise RecordError(message)
        if unknown := [end for end in attempts if not isinstance(end, str) or end not in _ENDS]:
            end = printable(repr(unknown[0]), 40)
            message = f"an attempt cannot end in {end}; expected passed, missing or a failure type"
            raise RecordError(message, found=unknown[0], expected=sorted(_ENDS))
        tests, count = data.get("tests", []), len(attempts)
        if not isinstance(tests, list) or len(tests) not in {0, count} or any(end not in _TESTS for end in tests):
            raise RecordError("tests of a case: expected true, false or null for each of its attempts")
        matches = _matches(data.get("values", []), count)
        measures = _measures(data.get("measures", {}), count)
        return cls(schema=schema, attempts=tuple(attempts), matches=matches, tests=tuple(tests), measures=measures)


def _measures(measures: Any, attempts: int) -> Measures:
    if not isinstance(measures, Mapping):
        raise RecordError("measures of a case: expected an object of what was measured of each of its attempts")
    known = {name: values for name, values in measures.items() if name in _MEASURED}
    for values in known.values():
        numbers = isinstance(values, list) and all(
            value is None or (type(value) in (int, float) and math.isfinite(value) and value >= 0) for value in values
        )
        if not numbers or len(values) != attempts:
            raise RecordError("measures of a case: expected a number or null for each of its attempts")
    return {name: tuple(values) for name, values in known.items()}


def _matches(values: Any, attempts: int) -> Matches:
    try:
        matches = tuple(None if value is None else Match.from_dict({**value, "differences": ()}) for value in values)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        message = f"values of a case: {printable(str(error), 80)}; expected null or how many of each field are right"
        raise RecordError(message) from error
    if len(matches) not in {0, attempts}:
        raise RecordError(f"values of {counted(len(matches), 'attempt')} of a case with {attempts}")
    return matches


def outcomes(
    planned: Iterable[CaseKey], attempts: Iterable[AttemptOutcome], costs: Mapping[Attempt, float] | None = None
) -> dict[CaseKey, CaseOutcome]:
    """
    The outcome of each case, in the order of the plan, without the cases with a broken schema.

    Measurements are told where `costs` are given, which are known of some attempts or of none. The last of an
    application's calls for the same stands for the first.
    """
    plan, made = Counter(planned), list(attempts)
    first: dict[Attempt, CaseKey] = {}
    for attempt in made:
        if attempt.called_again:
            last = attempt.attempt._replace(key=CaseKey(task=attempt.key.task, id=attempt.called_again))
            plan[attempt.key if last in first else last.key] -= 1
            first.setdefault(last, attempt.key)
    by_case: dict[CaseKey, list[AttemptOutcome]] = {key: [] for key, number in plan.items() if number > 0}
    for attempt in made:
        if not attempt.called_again:
            by_case.setdefault(first.get(attempt.attempt, attempt.key), []).append(attempt)
    return {
        key: _outcome(ends, planned=plan[key], costs=costs)
        for key, ends in by_case.items()
        if not any(attempt.excluded for attempt in ends)
    }


def _outcome(attempts: list[AttemptOutcome], *, planned: int, costs: Mapping[Attempt, float] | None) -> CaseOutcome:
    ordered = sorted(attempts, key=lambda attempt: (attempt.variant, attempt.repeat))
    ends = [PASSED if attempt.failure_type is None else attempt.failure_type.value for attempt in ordered]
    schema = schema_digits(ordered[0].schema_digest) if ordered else ""
    missing = planned - len(ends)
    matches = [attempt.match for attempt in ordered]
    values = (*matches, *[None] * missing) if any(each is not None for each in matches) else ()
    tests = [None if each.test_outcome is None or each.failed else each.test_outcome.passed for each in ordered]
    ended = (*tests, *[None] * missing) if any(each is not None for each in tests) else ()
    measures = [{} if costs is None else _measured(attempt, costs) for attempt in ordered]
    return CaseOutcome(
        schema=schema,
        attempts=(*ends, *[MISSING] * missing),
        matches=values,
        tests=ended,
        measures={
            name: (*(measure.get(name) for measure in measures), *[None] * missing)
            for name in _MEASURED
            if any(measure.get(name) is not None for measure in measures)
        },
    )


def _measured(attempt: AttemptOutcome, costs: Mapping[Attempt, float]) -> dict[str, float | None]:
    """The measurements of an answer; a recorded one has none."""
    timing, usage = attempt.timing, attempt.usage
    if attempt.generation != "completion" or attempt.remembered or timing is None or usage is None:
        return {}
    known = {
        **{name: getattr(timing, name) for name in ("ttft", "tgt", "gct")},
        **{name: getattr(usage, name) for name in ("input_tokens", "output_tokens", _CACHED)},
        "tpot": tpot_ms(timing, usage),
        "cost": costs.get(attempt.attempt),
    }
    return {name: None if value is None else float(f"{value:.4g}") for name, value in known.items()}


def schema_digits(digest: str | None) -> str:
    """The first digits of the digest of a schema, as an outcome keeps them."""
    return (digest or "").removeprefix("sha256:")[:_DIGEST]


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

    def to_dict(self) -> dict[str, Any]:
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

    def to_dict(self) -> dict[str, Any]:
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

    def no_worse_told(self, margin: float) -> str:
        """Say whether the second run is shown to be no worse by the margin: by the lower bound of the difference."""
        low = self.difference.ci_low
        if low is None:
            return "no case was decided in both: nothing can be compared"
        worst = f"at worst {low:+.3f}, the lower bound of the 95 % interval"
        return f"{'shown' if low > -margin else 'not shown'} for a margin of {margin:g} ({worst})"

    @property
    def ratios_told(self) -> list[tuple[str, str]]:
        """
        The ratios in sentences for people, under a word for them; nothing of what too few cases tell.

        A time is called longer only where its interval says so, and by more than two runs of the same may differ.
        """
        known = {name: ratio for name, ratio in self.ratios.items() if ratio.ci_low is not None}
        facts = [("ratios", "; ".join(_ratio_told(name, ratio) for name, ratio in known.items()))] if known else []
        if known and self.cached is not None and abs(self.cached[1] - self.cached[0]) > _DRIFT:
            shares = " → ".join(f"{share:.0%}" for share in self.cached)
            facts.append(("warning", f"the share of cached tokens differs ({shares}): times are not those of one work"))
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
        words = ("down", "up") if self.difference.repeated else ("broke", "mended")
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
            "settings": [setting.to_dict() for setting in self.settings],
            "sentence": self.sentence,
            **({} if self.values is None else {"values": self.values.to_dict()}),
            **({} if self.tests is None else {"tests": self.tests.to_dict()}),
            **({"ratios": {name: ratio.to_dict() for name, ratio in self.ratios.items()}} if self.ratios else {}),
        }

    def to_dict_of_several(self, *, source: str) -> dict[str, Any]:
        """The same of one of several comparisons."""
        return {**self.to_dict(source=source), **self.difference.to_dict_of_several(), "real": self.real}


def beyond_drift(ratio: PairedRatio) -> int:
    """Give 1 or -1 where the whole interval is above or below what two runs of the same may differ by; else 0."""
    if ratio.ci_low is None or ratio.ci_high is None:
        return 0
    return (ratio.ci_low > 1 + _DRIFT) - (ratio.ci_high < 1 - _DRIFT)


def _ratio_told(name: str, ratio: PairedRatio) -> str:
    assert ratio.ci_low is not None
    assert ratio.ci_high is not None
    is_time, apart = MEASURES[name] != name, beyond_drift(ratio)
    words = ("", ": longer", ": shorter") if is_time else ("", ": more", ": less")
    word = words[apart]
    title = name.upper() if is_time else name.replace("_", " ")
    return (
        f"{title} {ratio.value:.2f} ({ratio.ci_low:.2f} to {ratio.ci_high:.2f} over {counted(ratio.n, 'case')}){word}"
    )


def told(found: PairedDifference, *, does: str = "pass", same: str = "the same verdict on each") -> str:
    """The result of a comparison in one sentence for people; `does` is what a case that succeeds does."""
    if found.value is None:
        return "no case was decided in both: nothing can be compared"
    cases, ups = counted(found.n, "case"), ""
    if not (found.fell or found.rose):
        return f"as many attempts {does} in each of {cases}" if found.repeated else f"{same} of {cases}"
    if found.repeated:
        more = "the same" if found.value == 0 else f"{abs(found.value):.3f} {'higher' if found.value > 0 else 'lower'}"
        words = f"the share of attempts that {does} is {more} over {cases}"
        ups = f"; {counted(found.rose, 'case')} up, {found.fell} down"
    elif found.value == 0:
        words = f"as many of {cases} {does}"
    else:
        words = f"{abs(found.rose - found.fell)} {'more' if found.value > 0 else 'fewer'} of {cases} {does}"
    interval = f"({found.value:+.3f}, 95 % interval {found.ci_low:+.3f} to {found.ci_high:+.3f}{ups})"
    return f"{words} {interval}: {_conclusion(found)}"


def _conclusion(found: PairedDifference) -> str:
    """The significance of a difference by its test, with a reason where the interval suggests the opposite."""
    words = "a real difference" if found.real else "not distinguishable from no change"
    test, why = "sign-flip test" if found.repeated else "exact test", ""
    zero = found.ci_low is None or found.ci_high is None or found.ci_low <= 0 <= found.ci_high
    if not found.real and not zero and found.comparisons > 1:
        why = f", adjusted for {found.comparisons} comparisons; the interval is of this pair alone"
    elif found.real is zero:
        why = f"; the interval {'holds' if zero else 'leaves out'} 0, but is approximate"
    return f"{words} ({test}: p = {found.p_adjusted:.2g}{why})"


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
        ratios=_ratios(pairs.values()),
        cached=_cached_shares(pairs.values()),
    )


def _ratios(pairs: Collection[tuple[CaseOutcome, CaseOutcome]]) -> dict[str, PairedRatio]:
    """The ratio of each measurement, of those that both runs have."""
    ratios = {name: paired_ratio((was.measured(name), now.measured(name)) for was, now in pairs) for name in MEASURES}
    return {name: ratio for name, ratio in ratios.items() if ratio.n}


def _cached_shares(pairs: Collection[tuple[CaseOutcome, CaseOutcome]]) -> tuple[float, float] | None:
    """The share of input tokens that came from a cache in each run, over the attempts that say both."""
    shares = []
    for run in (0, 1):
        tokens = [(sum(pair[run].measured(name)) for name in (_CACHED, "input_tokens")) for pair in pairs]
        cached, whole = map(sum, zip(*tokens, strict=True)) if tokens else (0, 0)
        shares.append(cached / whole if whole and any(_CACHED in pair[run].measures for pair in pairs) else None)
    first, second = shares
    return None if first is None or second is None else (first, second)


def _compare_values(pairs: Mapping[CaseKey, tuple[Matches, Matches]]) -> ValueComparison | None:
    known = {key: pair for key, pair in pairs.items() if all(any(match is not None for match in one) for one in pair)}
    if not known:
        return None
    changed = tuple(key for key, (was, now) in known.items() if len(_compared_with(was) | _compared_with(now)) > 1)
    other = frozenset(changed)
    shared = {key: pair for key, pair in known.items() if key not in other}
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
