"""Define the outcome of each case in a run: how its attempts ended, and their measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Struct, structs

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.generations import tpot_ms
from pytest_jsbench.core.json_values import Count, from_json, to_json, write_always
from pytest_jsbench.core.text import printable
from pytest_jsbench.metrics.statistics import Share
from pytest_jsbench.metrics.trigger_comparison import Triggers
from pytest_jsbench.values import Match
from pytest_jsbench.values.value_digests import EqualPairs, count_equal_pairs, group_digests
from pytest_jsbench.verdicts import NOT_THE_MODELS, FailureType

if TYPE_CHECKING:
    from pytest_jsbench.records.facts import AttemptFacts
    from pytest_jsbench.records.records import Attempt

PASSED = "passed"
MISSING = "missing"
#: Outcomes that give no information about the model.
UNDECIDED = frozenset({MISSING, *NOT_THE_MODELS})
_ENDS = (PASSED, MISSING, *FailureType)
#: Outcome of an attempt: passed, missing or a failure type; cases with a broken schema have no outcomes.
End = Annotated[
    str, msgspec.Meta(extra_json_schema={"enum": [end for end in _ENDS if end != FailureType.INVALID_SCHEMA]})
]
_DIGEST = 12

#: Measurements that are compared as ratios, with their names in `figures.FIGURES`.
MEASURES = {
    **{name: f"{name}_p50" for name in ("ttft", "tpot", "tgt", "gct")},
    **{name: name for name in ("input_tokens", "output_tokens", "cost")},
}
#: Measurement that is recorded in addition to `MEASURES`, since times of two runs are not comparable if their shares
#: of cached tokens differ.
CACHED = "cached_tokens"
MEASURED = (*MEASURES, CACHED)
#: Measurements by name, each with one value per attempt in order; None for an attempt without a measurement.
Measures = Mapping[str, tuple[Annotated[float, msgspec.Meta(ge=0, le=2**53)] | None, ...]]
#: For each attempt, the comparison of its values with the expected values; None if no values were compared.
Matches = tuple[Match | None, ...]
#: For each attempt, whether the project's test that made the call passed; None if the test did not end or the call
#: failed.
Ends = tuple[bool | None, ...]


class CaseOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Outcomes of the attempts at one case, in order."""

    #: First hex digits of the schema's digest; empty if no attempt was recorded.
    schema: str = write_always("")
    #: Outcome of each attempt: passed, missing or a failure type.
    attempts: Annotated[tuple[End, ...], msgspec.Meta(min_length=1)]
    #: For each attempt, the number of right values per field: `match` of records.jsonl without `differences`. Null if
    #: the number is unknown; absent if no values are expected.
    matches: Matches = msgspec.field(default=(), name="values")
    #: For each attempt, the result of the project's test that made the call: true if the test passed, null if the
    #: result is unknown; absent if no test made calls.
    tests: Ends = ()
    #: For each attempt, whether an answer passed at once or after a second try; null if unknown; absent without second
    #: tries.
    repaired: Ends = ()
    #: For each attempt, whether the answer calls a tool, if the model decided; null without an answer; absent if the
    #: case offers no tools.
    triggers: Triggers = ()
    #: Number of pairs of conforming answers, of the same variant, whose values are equal, and number of all such pairs;
    #: absent without such pairs.
    agreement: tuple[Count, Count] | None = None
    #: For each attempt, the measurements by name: ttft (s), tpot (ms), tgt (s), gct (s), input_tokens, output_tokens,
    #: cached_tokens, cost (US dollars); null for an attempt without this measurement.
    measures: Measures = msgspec.field(default_factory=dict)

    def find_measurements(self, name: str) -> list[float]:
        """Return the measurements with this name; attempts without one are left out."""
        return [value for value in self.measures.get(name, ()) if value is not None]

    @property
    def passes(self) -> int:
        """Number of attempts that passed."""
        return self.attempts.count(PASSED)

    @property
    def passed(self) -> bool:
        """Whether every attempt passed."""
        return self.passes == len(self.attempts)

    @property
    def failed(self) -> bool:
        """Whether some attempt failed with an outcome that gives information about the model."""
        return self.passes < len(self.decided)

    @property
    def decided(self) -> tuple[str, ...]:
        """Outcomes of the attempts that give information about the model."""
        return tuple(end for end in self.attempts if end not in UNDECIDED)

    @property
    def share(self) -> Share:
        """Number of attempts that passed, and number of attempts that give information about the model."""
        return self.passes, len(self.decided)

    @property
    def flaky(self) -> bool:
        """Whether some attempts at the case passed and others failed."""
        return 0 < self.passes < len(self.decided)

    def has_same_schema(self, other: CaseOutcome) -> bool:
        """Return whether another outcome is of a case with the same schema; an unknown schema counts as the same."""
        return not (self.schema and other.schema) or self.schema == other.schema

    def first(self, count: int) -> CaseOutcome:
        """Return the case outcome reduced to the first `count` attempts."""
        attempts = self.attempts[:count]
        matches = self.matches[:count]
        tests = self.tests[:count]
        measures = {name: values[:count] for name, values in self.measures.items()}
        repaired = self.repaired[:count]
        return structs.replace(
            self,
            attempts=attempts,
            matches=matches,
            tests=tests,
            repaired=repaired,
            triggers=self.triggers[:count],
            measures=measures,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the case outcome as JSON values; value matches are reduced to their counts."""
        data: dict[str, Any] = to_json(self)
        for match in filter(None, data.get("values", ())):
            del match["differences"]
        return data

    @classmethod
    def from_dict(cls, data: object) -> CaseOutcome:
        """Return the case outcome from JSON values; raise a RecordError that names the first invalid field."""
        try:
            outcome = from_json(cls, data)
        except ValueError as error:
            raise RecordError(f"not the outcome of a case: {error}") from error
        if unknown := [end for end in outcome.attempts if end not in _ENDS]:
            message = f"unknown outcome of an attempt: {printable(repr(unknown[0]), 40)}; expected passed, missing or a"
            raise RecordError(f"{message} failure type", found=unknown[0], expected=list(_ENDS))
        if outcome.agreement is not None and outcome.agreement[0] > outcome.agreement[1]:
            equal, compared = outcome.agreement
            raise RecordError(f"agreement of a case: found {equal} equal pairs of {compared}", found=equal)
        lists = {
            "values": outcome.matches,
            "tests": outcome.tests,
            "repaired": outcome.repaired,
            "triggers": outcome.triggers,
            **outcome.measures,
        }
        for name, each in lists.items():
            if len(each) not in {0, len(outcome.attempts)}:
                found = f"{printable(name, 40)} of a case: found {len(each)}"
                message = f"{found}; expected {len(outcome.attempts)}, one per attempt"
                raise RecordError(message, found=len(each), expected=len(outcome.attempts))
        return outcome


def outcomes(
    planned: Iterable[CaseKey], attempts: Iterable[AttemptFacts], costs: Mapping[Attempt, float] | None = None
) -> dict[CaseKey, CaseOutcome]:
    """
    Return the outcome of each case, in the order of the plan, without the cases that have a broken schema.

    Measurements are included if `costs` is given, even if some or all costs are unknown. If an application makes
    several calls for the same answer, only the last call counts, as an attempt at the case of the first call. A variant
    that cannot rewrite a case has no attempt at it, planned or made.
    """
    plan = Counter(planned)
    recorded = list(attempts)
    plan.subtract(attempt.key for attempt in recorded if attempt.not_rewritten)
    made = [attempt for attempt in recorded if not attempt.not_rewritten]
    first: dict[Attempt, CaseKey] = {}
    for attempt in made:
        if attempt.called_again:
            last = attempt.attempt._replace(key=CaseKey(task=attempt.key.task, id=attempt.called_again))
            plan[attempt.key if last in first else last.key] -= 1
            first.setdefault(last, attempt.key)
    by_case: dict[CaseKey, list[AttemptFacts]] = {key: [] for key, number in plan.items() if number > 0}
    for attempt in made:
        if not attempt.called_again:
            by_case.setdefault(first.get(attempt.attempt, attempt.key), []).append(attempt)
    has_tries = any(attempt.repairs for attempt in made)
    return {
        key: _outcome(ends, planned=plan[key], costs=costs, has_tries=has_tries)
        for key, ends in by_case.items()
        if not any(attempt.excluded for attempt in ends)
    }


def _outcome(
    attempts: list[AttemptFacts], *, planned: int, costs: Mapping[Attempt, float] | None, has_tries: bool
) -> CaseOutcome:
    ordered = sorted(attempts, key=lambda attempt: (attempt.variant, attempt.repeat))
    ends = [PASSED if attempt.failure_type is None else attempt.failure_type.value for attempt in ordered]
    schema = schema_digits(ordered[0].schema_digest) if ordered else ""
    missing = planned - len(ends)
    matches = [attempt.match for attempt in ordered]
    values = (*matches, *[None] * missing) if any(each is not None for each in matches) else ()
    tests = [None if each.test_outcome is None or each.failed else each.test_outcome.passed for each in ordered]
    ended = (*tests, *[None] * missing) if any(each is not None for each in tests) else ()
    triggers = [_triggered(attempt) for attempt in ordered]
    measures = [{} if costs is None else _measure(attempt, costs) for attempt in ordered]
    measured = {name for measure in measures for name in measure}
    return CaseOutcome(
        schema=schema,
        attempts=(*ends, *[MISSING] * missing),
        matches=values,
        tests=ended,
        repaired=(*map(_repaired, ordered), *[None] * missing) if has_tries else (),
        triggers=(*triggers, *[None] * missing) if any(each is not None for each in triggers) else (),
        agreement=_count_agreement(ordered),
        measures={
            name: (*(measure.get(name) for measure in measures), *[None] * missing)
            for name in MEASURED
            if name in measured
        },
    )


def _repaired(attempt: AttemptFacts) -> bool | None:
    """Return whether the attempt passed at once or after a second try; None if unknown."""
    if attempt.repairs is not None:
        return None if attempt.repairs.passed_at is None else attempt.repairs.passed_at > 0
    return None if attempt.failure_type in NOT_THE_MODELS else attempt.passed


def _triggered(attempt: AttemptFacts) -> bool | None:
    """Return whether the answer calls a tool; None without an answer, or if the model did not decide."""
    calls = attempt.tool_calls
    return bool(calls.called) if calls is not None and calls.decided else None


def _count_agreement(attempts: Iterable[AttemptFacts]) -> tuple[int, int] | None:
    """Return the number of equal pairs of answers, and of all pairs, within each variant; None without pairs."""
    of_variant = group_digests((attempt.variant, attempt.value_digest) for attempt in attempts)
    pairs = sum(map(count_equal_pairs, of_variant.values()), EqualPairs(0, 0))
    return (pairs.equal, pairs.compared) if pairs.compared else None


def _measure(attempt: AttemptFacts, costs: Mapping[Attempt, float]) -> dict[str, float]:
    """Return the measurements of an attempt; empty without an answer, or if the answer is from a recording."""
    timing = attempt.timing
    usage = attempt.usage
    if attempt.generation_type != "completion" or attempt.remembered or timing is None or usage is None:
        return {}
    values = {
        **{name: getattr(timing, name) for name in ("ttft", "tgt", "gct")},
        **{name: getattr(usage, name) for name in ("input_tokens", "output_tokens", CACHED)},
        "tpot": tpot_ms(timing, usage),
        "cost": costs.get(attempt.attempt),
    }
    return {name: float(f"{value:.4g}") for name, value in values.items() if value is not None}


def schema_digits(digest: str | None) -> str:
    """Return the first digits of a schema's digest, as stored in an outcome."""
    return (digest or "").removeprefix("sha256:")[:_DIGEST]
