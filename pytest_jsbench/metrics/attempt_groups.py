"""Group the attempts of a task, a variant or a run as the figures count them: by ending, and by case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.generations import FaultKind
from pytest_jsbench.metrics.load_terms import LoadTerms
from pytest_jsbench.metrics.prices import Costs
from pytest_jsbench.metrics.statistics import Distribution, Proportion, clustered
from pytest_jsbench.records.call_load import LoadFacts, PlainFacts
from pytest_jsbench.records.facts import AttemptFacts, DecisionCounts, ToolCalls
from pytest_jsbench.records.fault_reports import FaultReport
from pytest_jsbench.records.records import Cause, EndedTest, MissingReason
from pytest_jsbench.records.repairs import REPAIRABLE, RepairFacts, TryFacts
from pytest_jsbench.values import Match
from pytest_jsbench.values.value_digests import ValueDigestFacts, group_digests
from pytest_jsbench.verdicts import FailureType


@dataclass(frozen=True, slots=True)
class SecondTries:
    """A wrong answer that was asked for again."""

    key: CaseKey
    #: Failure type of the first answer.
    failure_type: FailureType | None
    repairs: RepairFacts
    #: Cost of the tries in US dollars; None if unknown.
    cost: float | None
    #: Whether an application asked again by itself, so that its last answer has the verdict that counts.
    by_application: bool = False


@dataclass(frozen=True, kw_only=True)
class AttemptGroups:
    """
    Attempts, grouped in the ways that figures need.

    Attempts at `broken` cases, where the user's own schema is invalid, count as missing; attempts at other cases
    without a valid schema are excluded.
    """

    attempts: Sequence[AttemptFacts]
    #: Case of each planned attempt.
    planned: Sequence[CaseKey]
    costs: Costs
    #: Number of attempts without a record, by reason.
    missing_reasons: Mapping[MissingReason, int]
    broken: Collection[CaseKey] = ()
    ended_tests: Sequence[EndedTest] = ()
    #: Faults that endpoints injected; these calls are no attempts.
    fault_reports: Sequence[FaultReport] = ()
    #: Settings of the load and of the service level; None without them.
    load: LoadTerms | None = None

    @cached_property
    def counted(self) -> list[AttemptFacts]:
        """Attempts with a valid schema that the application did not repeat later."""
        return [attempt for attempt in self.attempts if attempt.counted]

    @cached_property
    def excluded(self) -> list[AttemptFacts]:
        """Attempts at cases without a valid schema, which is not the user's own."""
        return [attempt for attempt in self.attempts if attempt.excluded and attempt.key not in self.broken]

    @cached_property
    def completions(self) -> list[AttemptFacts]:
        """Attempts with an answer from a model."""
        return [attempt for attempt in self.counted if attempt.generation_type == "completion"]

    @cached_property
    def answered(self) -> list[AttemptFacts]:
        """Attempts with an answer, or with decisions about labelled answers."""
        return [attempt for attempt in self.counted if attempt.answered]

    @cached_property
    def plan(self) -> Counter[CaseKey]:
        """Number of planned or, if larger, of recorded attempts for each case that is not excluded."""
        plan = Counter(self.planned) | count_by_case(self.attempts)
        for attempt in self.excluded:
            if attempt.not_rewritten:  # other variants have attempts at the same case
                plan[attempt.key] -= 1
            else:
                plan.pop(attempt.key, None)
        plan.subtract(attempt.key for attempt in self.attempts if attempt.called_again)
        return +plan

    @property
    def missing(self) -> int:
        """Number of planned attempts without a record."""
        return self.plan.total() - len(self.counted)

    @cached_property
    def reached(self) -> Counter[CaseKey]:
        """Number of attempts per case whose call did not fail."""
        return count_by_case(self.counted) - self.failed

    @cached_property
    def failed(self) -> Counter[CaseKey]:
        """Number of failed calls per case."""
        return count_by_case(attempt for attempt in self.counted if attempt.failed)

    @cached_property
    def passed(self) -> Counter[CaseKey]:
        """Number of passed attempts per case."""
        return count_by_case(attempt for attempt in self.counted if attempt.passed)

    @cached_property
    def informative_plan(self) -> Counter[CaseKey]:
        """The plan; empty if every call failed, because then nothing is known about the model and the engine."""
        return self.plan if any(map(is_informative, self.counted)) else Counter()

    @cached_property
    def decided_plan(self) -> Counter[CaseKey]:
        """The plan; empty if no attempt has a verdict that gives information about the model."""
        return self.informative_plan if any(map(is_decided, self.counted)) else Counter()

    @cached_property
    def trivial(self) -> dict[CaseKey, tuple[str, ...]]:
        """For each case where this is known, the constant answers that conform to its schema."""
        return {attempt.key: attempt.trivial for attempt in self.counted if attempt.trivial is not None}

    @cached_property
    def constants(self) -> Counter[str]:
        """For each constant answer, the number of cases that it passes."""
        return Counter(text for texts in self.trivial.values() for text in texts)

    @cached_property
    def matches(self) -> list[tuple[AttemptFacts, Match]]:
        """Attempts with expected values, and what comparing the values found."""
        return [(attempt, attempt.match) for attempt in self.counted if attempt.match is not None]

    @cached_property
    def compared(self) -> list[tuple[AttemptFacts, Match]]:
        """Attempts whose values could be compared with the expected values."""
        return [(attempt, match) for attempt, match in self.matches if not match.problem]

    @cached_property
    def decisions(self) -> list[tuple[CaseKey, DecisionCounts]]:
        """Counts of a grammar's decisions, with the case of each."""
        return [(attempt.key, attempt.decisions) for attempt in self.answered if attempt.decisions is not None]

    @cached_property
    def tool_calls(self) -> list[tuple[CaseKey, ToolCalls]]:
        """Calls in the answers to cases that offer tools, with the case of each answer."""
        return [(attempt.key, attempt.tool_calls) for attempt in self.completions if attempt.tool_calls is not None]

    @property
    def trigger_decisions(self) -> list[tuple[CaseKey, bool, bool]]:
        """
        For each answer where the model decided if it calls a tool, its case, whether it called one, and whether that is
        expected.
        """
        return [
            (key, bool(calls.called), calls.expects_call)
            for key, calls in self.tool_calls
            if calls.decided and calls.expects_call is not None
        ]

    @cached_property
    def _tests(self) -> list[tuple[CaseKey, bool | None, Cause | None]]:
        """
        For each of the project's own tests, its case, whether it passed, and the cause of its failure.

        A test whose call failed is left out, because it gives no information about the model, and so is a test whose
        calls all met an injected fault.
        """
        faulty = {(report.task, report.id, report.repeat, report.variant) for report in self.fault_reports}
        tested = {
            (attempt.asked_by and attempt.asked_by.test, attempt.repeat, attempt.variant): (
                attempt.key.of_first,
                attempt.test_outcome.passed,
                attempt.test_outcome.cause,
            )
            for attempt in self.counted
            if attempt.test_outcome is not None and not attempt.failed
        }
        ended = [
            (CaseKey(task=test.task, id=test.id), False, test.cause)
            for test in self.ended_tests
            if (test.task, test.id, test.repeat, test.variant) not in faulty
        ]
        return [*tested.values(), *ended]

    @property
    def test_results(self) -> list[tuple[CaseKey, bool]]:
        """Case of each of the project's own tests that passed or failed, and whether it passed."""
        return [(key, passed) for key, passed, _ in self._tests if passed is not None]

    @property
    def test_causes(self) -> Counter[Cause | None]:
        """Number of the project's own tests by the cause of their failure."""
        return Counter(cause for _, _, cause in self._tests)

    @cached_property
    def value_digests(self) -> list[tuple[CaseKey, list[ValueDigestFacts]]]:
        """Digests of the conforming answers to each case in each variant, if the case has several attempts."""
        by_case = group_digests(((attempt.key, attempt.variant), attempt.value_digest) for attempt in self.counted)
        return [(key, digests) for (key, _), digests in by_case.items()]

    @cached_property
    def second_tries(self) -> list[SecondTries]:
        """Wrong answers that were asked for again, by the run or by an application, with what became of it."""
        costs = self.costs
        made = [
            SecondTries(each.key, each.failure_type, each.repairs, costs.repairs.get(each.attempt))
            for each in self.counted
            if each.repairs is not None
        ]
        return [*made, *self._conversations()]

    def _conversations(self) -> Iterator[SecondTries]:
        """Yield the second tries of applications: the calls that follow a wrong answer, up to the one that counts."""
        earlier: dict[tuple[str, str, int, str], list[AttemptFacts]] = {}
        for each in self.attempts:
            if each.called_again:
                earlier.setdefault((each.key.task, each.called_again, each.repeat, each.variant), []).append(each)
        for last in self.counted if earlier else ():
            calls = earlier.get((last.key.task, last.key.id, last.repeat, last.variant), [])
            ordered = sorted((*calls, last), key=lambda call: call.key.number)
            # a call that only repeats a failed call is no second try
            answers = [call for call in ordered if not call.failed]
            if len(answers) < 2 or answers[0].failure_type not in REPAIRABLE:
                continue
            first, *tries = answers
            paid = [self.costs.attempts[each.attempt] for each in tries if each.attempt in self.costs.attempts]
            yield SecondTries(
                last.key,
                first.failure_type,
                RepairFacts(most=len(tries), shows_errors=True, tries=tuple(map(_try_of, tries))),
                sum(paid) if len(paid) == len(tries) else None,
                by_application=True,
            )

    @cached_property
    def failure_types(self) -> Counter[FailureType | None]:
        """Number of attempts by failure type."""
        return Counter(attempt.failure_type for attempt in self.counted)

    @cached_property
    def known_costs(self) -> list[float]:
        """Cost of each attempt whose cost is known, in US dollars."""
        costs = self.costs.attempts
        return [costs[attempt.attempt] for attempt in self.attempts if attempt.attempt in costs]

    @cached_property
    def reporting(self) -> list[AttemptFacts]:
        """Attempts that reported their number of tokens."""
        return [
            attempt
            for attempt in self.attempts
            if attempt.usage is not None and attempt.usage.output_tokens is not None
        ]

    @cached_property
    def timed(self) -> list[tuple[AttemptFacts, LoadFacts]]:
        """Attempts of this run whose call has a begin and an end, without answers that were reused."""
        terms = self.load
        if terms is None:
            return []
        timed = [(attempt, attempt.load) for attempt in self.counted]
        return [(attempt, load) for attempt, load in timed if load is not None and load.began >= terms.since]

    @cached_property
    def plain_calls(self) -> list[PlainFacts]:
        """Calls without a schema, also of reused answers."""
        return [call for attempt in self.attempts if attempt.load is not None for call in attempt.load.plain]

    @cached_property
    def calls_by_schema(self) -> list[tuple[AttemptFacts, list[AttemptFacts]]]:
        """
        For each schema and server, the first answer, and those whose call began after the first token of the first.

        Calls that began before this token may have waited for the same grammar, so they are neither; a first call that
        was retried is left out with its schema, because the grammar may have been compiled before.
        """
        calls: dict[tuple[object, ...], list[tuple[float, AttemptFacts]]] = {}
        for attempt in self.counted:
            if attempt.load is not None:
                server = attempt.variant, attempt.answered_by, attempt.schema_digest
                calls.setdefault(server, []).append((attempt.load.began, attempt))
        parts = []
        for of_schema in calls.values():
            of_schema.sort(key=lambda call: call[0])
            began, first = of_schema[0]
            is_measured = first.generation_type == "completion" and not first.retries
            ttft = first.timing.ttft if first.timing is not None and is_measured else None
            if len(of_schema) > 1 and ttft is not None:
                later = [attempt for start, attempt in of_schema if start > began + ttft]
                parts.append((first, [attempt for attempt in later if attempt.generation_type == "completion"]))
        return parts

    def cluster_matches(self, counts: Callable[[Match], tuple[int, int]], *, conforming: bool = False) -> Proportion:
        """Return the proportion of two counts of the compared values, over all or only over conforming answers."""
        chosen = [(attempt, match) for attempt, match in self.compared if attempt.valid or not conforming]
        return cluster_by_case((attempt.key, *counts(match)) for attempt, match in chosen)


def _try_of(call: AttemptFacts) -> TryFacts:
    """Return an application's call as a second try."""
    return TryFacts(
        prompt_digest=call.prompt_digest or "",
        generation_type=call.generation_type or "failed",
        failure_type=call.failure_type,
        timing=call.timing,
        usage=call.usage,
    )


def count_by_case(attempts: Iterable[AttemptFacts]) -> Counter[CaseKey]:
    """Return the number of attempts per case."""
    return Counter(attempt.key for attempt in attempts)


def is_informative(attempt: AttemptFacts) -> bool:
    """Return whether an attempt tests the system: the engine answered, or a decoding library failed."""
    return not attempt.failed or attempt.fault in {FaultKind.HANG, FaultKind.CRASH}


def is_decided(attempt: AttemptFacts) -> bool:
    """Return whether an attempt tests the system and the judge could decide."""
    return is_informative(attempt) and attempt.failure_type is not FailureType.UNJUDGED


def cluster_by_case(counts: Iterable[tuple[CaseKey, int, int]]) -> Proportion:
    """Return the proportion with cases as clusters, since the values and answers in one case are not independent."""
    totals: dict[CaseKey, tuple[int, int]] = {}
    for key, right, expected in counts:
        before = totals.get(key, (0, 0))
        totals[key] = (before[0] + right, before[1] + expected)
    return clustered(totals.values())


def timings(attempts: Iterable[AttemptFacts | TryFacts], name: str) -> Distribution:
    """Return the distribution of one of the times in `Timing`; attempts without this time are left out."""
    values: Iterable[Any] = (getattr(attempt.timing, name) for attempt in attempts if attempt.timing is not None)
    return Distribution.of(value for value in values if value is not None)
