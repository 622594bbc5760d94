"""The outcomes of a run's cases: how each attempt ended, and what was measured of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.generations import tpot_ms
from pytest_jsbench.core.text import counted, printable
from pytest_jsbench.metrics.statistics import Share
from pytest_jsbench.values import Match
from pytest_jsbench.verdicts import NOT_THE_MODELS, FailureType

if TYPE_CHECKING:
    from pytest_jsbench.records.outcomes import AttemptOutcome
    from pytest_jsbench.records.records import Attempt

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
CACHED = "cached_tokens"
MEASURED = (*MEASURES, CACHED)
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
    known = {name: values for name, values in measures.items() if name in MEASURED}
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
            for name in MEASURED
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
        **{name: getattr(usage, name) for name in ("input_tokens", "output_tokens", CACHED)},
        "tpot": tpot_ms(timing, usage),
        "cost": costs.get(attempt.attempt),
    }
    return {name: None if value is None else float(f"{value:.4g}") for name, value in known.items()}


def schema_digits(digest: str | None) -> str:
    """The first digits of the digest of a schema, as an outcome keeps them."""
    return (digest or "").removeprefix("sha256:")[:_DIGEST]
