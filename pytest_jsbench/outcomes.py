"""How each case ended, in few words: what two runs are compared by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.text import printable
from pytest_jsbench.errors import RecordError
from pytest_jsbench.verdicts import FailureType

if TYPE_CHECKING:
    from pytest_jsbench.cases import CaseKey
    from pytest_jsbench.records import Record

PASSED = "passed"
MISSING = "missing"
#: they say nothing about the model
UNDECIDED = frozenset({MISSING, FailureType.API_ERROR.value, FailureType.UNJUDGED.value})
_ENDS = frozenset({PASSED, MISSING, *FailureType})
_DIGEST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One case's attempts, in order: each `passed`, `missing` or a failure type."""

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
        """Whether it passed at times, and at times did not."""
        return 0 < self.passes < len(self.decided)

    def first(self, count: int) -> Outcome:
        """The case as it ended after so many attempts."""
        return Outcome(schema=self.schema, attempts=self.attempts[:count])

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {"schema": self.schema, "attempts": list(self.attempts)}

    @classmethod
    def from_dict(cls, data: Any) -> Outcome:
        """The inverse of `to_dict`; RecordError where it is none."""
        attempts = data.get("attempts") if isinstance(data, Mapping) else None
        schema = data.get("schema", "") if isinstance(data, Mapping) else None
        if not isinstance(schema, str) or not isinstance(attempts, list) or not attempts:
            message = 'a case is not {"schema": digits, "attempts": [how each ended]}'
            raise RecordError(message)
        if unknown := [end for end in attempts if not isinstance(end, str) or end not in _ENDS]:
            end = printable(repr(unknown[0]), 40)
            message = f"an attempt cannot end in {end}; expected passed, missing or a failure type"
            raise RecordError(message)
        return cls(schema=schema, attempts=tuple(attempts))


def outcomes(planned: Iterable[CaseKey], records: Iterable[Record]) -> dict[CaseKey, Outcome]:
    """How each case ended, in the order of the plan; cases whose own schema is broken are left out."""
    plan = Counter(planned)
    by_case: dict[CaseKey, list[Record]] = {key: [] for key in plan}
    for record in records:
        by_case.setdefault(record.key, []).append(record)
    return {
        key: _outcome(attempts, planned=plan[key])
        for key, attempts in by_case.items()
        if not any(record.excluded for record in attempts)
    }


def _outcome(records: list[Record], *, planned: int) -> Outcome:
    ordered = sorted(records, key=lambda record: record.repeat)
    ends = [record.verdict.failure_type.value if record.verdict.failure_type else PASSED for record in ordered]
    schema = (ordered[0].schema_digest or "").removeprefix("sha256:")[:_DIGEST] if ordered else ""
    return Outcome(schema=schema, attempts=(*ends, *[MISSING] * (planned - len(ends))))
