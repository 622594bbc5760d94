"""The outcomes of a run's cases, and the comparison of two runs by them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.text import counted, printable
from pytest_jsbench.metrics.statistics import PairedDifference, adjusted, paired_difference
from pytest_jsbench.runs.settings import differences
from pytest_jsbench.verdicts import FailureType

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.runs.outcomes import AttemptOutcome
    from pytest_jsbench.runs.settings import Setting, SettingDifference

PASSED = "passed"
MISSING = "missing"
#: outcomes that say nothing about the model
UNDECIDED = frozenset({MISSING, FailureType.API_ERROR.value, FailureType.UNJUDGED.value})
_ENDS = frozenset({PASSED, MISSING, *FailureType})
_DIGEST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """The outcomes of one case's attempts, in order: each `passed`, `missing` or a failure type."""

    #: the first hex digits of the schema's digest; empty where no attempt was recorded
    schema: str
    attempts: tuple[str, ...]

    @property
    def passes(self) -> int:
        """The attempts that passed."""
        return self.attempts.count(PASSED)

    @property
    def passed(self) -> bool:
        """Whether every attempt passed."""
        return self.passes == len(self.attempts)

    @property
    def decided(self) -> tuple[str, ...]:
        """The attempts that say something about the model."""
        return tuple(end for end in self.attempts if end not in UNDECIDED)

    @property
    def flaky(self) -> bool:
        """Whether some attempts passed and some failed."""
        return 0 < self.passes < len(self.decided)

    def first(self, count: int) -> CaseOutcome:
        """The outcome of the first `count` attempts alone."""
        return CaseOutcome(schema=self.schema, attempts=self.attempts[:count])

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {"schema": self.schema, "attempts": list(self.attempts)}

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
        return cls(schema=schema, attempts=tuple(attempts))


def outcomes(planned: Iterable[CaseKey], attempts: Iterable[AttemptOutcome]) -> dict[CaseKey, CaseOutcome]:
    """The outcome of each case, in the order of the plan, without the cases with a broken schema."""
    plan = Counter(planned)
    by_case: dict[CaseKey, list[AttemptOutcome]] = {key: [] for key in plan}
    for attempt in attempts:
        by_case.setdefault(attempt.key, []).append(attempt)
    return {
        key: _outcome(made, planned=plan[key])
        for key, made in by_case.items()
        if not any(attempt.excluded for attempt in made)
    }


def _outcome(attempts: list[AttemptOutcome], *, planned: int) -> CaseOutcome:
    ordered = sorted(attempts, key=lambda attempt: (attempt.variant, attempt.repeat))
    ends = [PASSED if attempt.failure_type is None else attempt.failure_type.value for attempt in ordered]
    schema = schema_digits(ordered[0].schema_digest) if ordered else ""
    return CaseOutcome(schema=schema, attempts=(*ends, *[MISSING] * (planned - len(ends))))


def schema_digits(digest: str | None) -> str:
    """What an outcome keeps of the digest of its schema."""
    return (digest or "").removeprefix("sha256:")[:_DIGEST]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The cases of two runs, compared; a case passes when all its attempts do."""

    #: over the cases that both runs decided
    difference: PairedDifference
    #: with every undecided case of the second run counted as a failure
    worst: PairedDifference
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

    @property
    def real(self) -> bool:
        """Whether the difference is significant, given the number of comparisons."""
        return self.difference.real

    @property
    def sentence(self) -> str:
        """The result in one sentence for people."""
        return told(self.difference)

    def to_dict(self, *, source: str) -> dict[str, Any]:
        """The comparison as JSON values; `source` says what was compared with."""
        found = self.difference
        return {
            "source": source,
            "n": found.n,
            "difference": found.value,
            "difference_ci_low": found.ci_low,
            "difference_ci_high": found.ci_high,
            "p_value": found.p_value,
            "newly_failing": [str(key) for key in self.newly_failing],
            "newly_passing": [str(key) for key in self.newly_passing],
            "undecided": [str(key) for key in self.undecided],
            "changed": [str(key) for key in self.changed],
            "settings": [one.to_dict() for one in self.settings],
            "sentence": self.sentence,
        }

    def to_dict_of_several(self, *, source: str) -> dict[str, Any]:
        """The same of one of several comparisons."""
        found = self.difference
        return {**self.to_dict(source=source), "p_value_adjusted": found.p_adjusted, "real": found.real}


def told(found: PairedDifference) -> str:
    """What came out of a comparison, in one sentence for people."""
    if found.value is None:
        return "no case was decided in both: nothing can be compared"
    cases = counted(found.n, "case")
    if not (found.first_only or found.second_only):
        return f"the same verdict on each of {cases}"
    more = "more" if found.value > 0 else "fewer"
    said = f"{abs(found.second_only - found.first_only)} {more} of {cases} pass"
    if found.value == 0:
        said = f"as many of {cases} pass"
    interval = f"({found.value:+.3f}, 95 % interval {found.ci_low:+.3f} to {found.ci_high:+.3f})"
    return f"{said} {interval}: {_conclusion(found)}"


def _conclusion(found: PairedDifference) -> str:
    """Whether a difference is significant by the exact test; and why, where the interval suggests the opposite."""
    said = "a real difference" if found.real else "not distinguishable from no change"
    zero = found.ci_low is None or found.ci_high is None or found.ci_low <= 0 <= found.ci_high
    why = "" if found.real is not zero else f"; the interval {'holds' if zero else 'leaves out'} 0, but is approximate"
    return f"{said} (exact test: p = {found.p_adjusted:.2g}{why})"


def compare(
    first: Mapping[CaseKey, CaseOutcome],
    second: Mapping[CaseKey, CaseOutcome],
    settings: Sequence[SettingDifference] = (),
) -> Comparison:
    """The comparison of a second run with a first, over the cases and as many attempts as both have."""
    shared = [key for key in second if key in first]
    changed = tuple(key for key in shared if _differ(first[key], second[key]))
    other = frozenset(changed)
    pairs = {key: _as_many(first[key], second[key]) for key in shared if key not in other}
    decided = {key: pair for key, pair in pairs.items() if not any(map(is_undecided, pair))}
    counted = {key: pair for key, pair in pairs.items() if not is_undecided(pair[0])}
    return Comparison(
        difference=_difference(decided),
        worst=_difference(counted),
        newly_failing=tuple(key for key, (was, now) in decided.items() if was.passed and not now.passed),
        newly_passing=tuple(key for key, (was, now) in decided.items() if now.passed and not was.passed),
        undecided=tuple(key for key in pairs if key not in decided),
        changed=changed,
        first_alone=len(first) - len(shared),
        second_alone=len(second) - len(shared),
        shortened=sum(len(first[key].attempts) != len(second[key].attempts) for key in pairs),
        settings=tuple(settings),
    )


def _differ(first: CaseOutcome, second: CaseOutcome) -> bool:
    return bool(first.schema and second.schema) and first.schema != second.schema


def _as_many(first: CaseOutcome, second: CaseOutcome) -> tuple[CaseOutcome, CaseOutcome]:
    count = min(len(first.attempts), len(second.attempts))
    return first.first(count), second.first(count)


def is_undecided(outcome: CaseOutcome) -> bool:
    """Whether it is unknown if the case passed: no attempt failed, and at least one was not decided."""
    return not outcome.passed and all(end in UNDECIDED for end in outcome.attempts if end != "passed")


def _difference(pairs: Mapping[CaseKey, tuple[CaseOutcome, CaseOutcome]]) -> PairedDifference:
    ends = [(was.passed, now.passed) for was, now in pairs.values()]
    return paired_difference(
        both=ends.count((True, True)),
        first_only=ends.count((True, False)),
        second_only=ends.count((False, True)),
        neither=ends.count((False, False)),
    )


def several(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Comparisons that are made together, with p-values for their number."""
    differences = adjusted([one.difference for one in comparisons])
    return [replace(one, difference=found) for one, found in zip(comparisons, differences, strict=True)]


#: with more runs than this each is compared with the first alone
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
    chosen = itertools.chain.from_iterable(map(_paired, groups))
    found = [
        Pair(first=first, second=second, comparison=compare(before, after, differences([one, other])))
        for (first, before, one), (second, after, other) in chosen
    ]
    compared = several([pair.comparison for pair in found])
    return [replace(pair, comparison=comparison) for pair, comparison in zip(found, compared, strict=True)]


def _paired(known: Sequence[Standing]) -> Iterable[tuple[Standing, Standing]]:
    if len(known) > _MOST_PAIRED:
        return ((known[0], one) for one in known[1:])
    return itertools.combinations(known, 2)


def differing(runs: Mapping[str, Mapping[CaseKey, CaseOutcome]]) -> tuple[CaseKey, ...]:
    """The cases that some of the runs pass and others fail, those first about which they are divided most evenly."""
    passed: Counter[CaseKey] = Counter()
    decided: Counter[CaseKey] = Counter()
    for run in runs.values():
        for key, outcome in run.items():
            if not is_undecided(outcome):
                decided[key] += 1
                passed[key] += outcome.passed
    apart = [key for key, count in decided.items() if 0 < passed[key] < count]
    return tuple(sorted(apart, key=lambda key: abs(2 * passed[key] - decided[key]) / decided[key]))
