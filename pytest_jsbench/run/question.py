"""Describe an attempt that a session is to make: the case, who asks, and how the answer is obtained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
    from pytest_jsbench.records.records import AskedBy, Attempt, Record


class AttemptMaker(Protocol):
    """Makes attempts that are not answered by an earlier record."""

    def attempt(self, case: Case | BrokenCase, *, repeat: int, planned_at: float | None) -> Record:
        """
        Make one attempt, which was queued at `planned_at` (a value of time.perf_counter); raise Refused if a call is
        not allowed.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAnswers:
    """The records of a project's own test that answer a question, since tests ask without a dataset's keys."""

    #: Key of the test's first question.
    first: CaseKey
    #: Number of earlier questions of the test that the same records answer; each record is used once.
    equal_before: int
    #: Whether a record answers the question.
    is_same: Callable[[Record], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One attempt of the suite, of a project's own test, or of a probe."""

    attempt: Attempt
    #: The case; None for the run's case with the attempt's key, which is read when the attempt is made.
    case: Case | BrokenCase | None = None
    #: Makes the attempt; None for the suite's runner of the variant.
    maker: AttemptMaker | None = None
    #: The project's own test that asks; None for the suite and a probe, whose records are found by the attempt.
    asked_by: AskedBy | None = None
    #: Records that answer the question of a test; None if the attempt is always made.
    earlier: EarlierAnswers | None = None
    #: Time at which the attempt was queued (a value of time.perf_counter); None if it was not queued.
    planned_at: float | None = None
