"""Run one attempt without a model: a grammar accepts or rejects the labelled answers of a case."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import structs

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS
from pytest_jsbench.core.generations import CallError, Decided, Declined, Failed, FaultKind, Generation, GrammarDecision
from pytest_jsbench.core.json_values import copy_of
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.engines.base import GrammarMatcher
from pytest_jsbench.records.records import Record
from pytest_jsbench.run.attempts import schema_problem, unmade_record
from pytest_jsbench.verdicts import Judge, decide

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.datasets.base import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRunner:
    """
    Makes the attempts with an engine whose grammar accepts or rejects labelled answers, without calling a model.

    A run's session creates one runner; the session's threads call `attempt` concurrently. The runner keeps no state
    between attempts.
    """

    acceptor: GrammarMatcher
    judge: Judge
    #: Returns the labelled answers of a case.
    instances: Callable[[CaseKey], Sequence[Instance]]

    def attempt(self, case: Case | BrokenCase, *, repeat: int = 0, planned_at: float | None = None) -> Record:
        """Make the only attempt at a case, which was queued at `planned_at` (a value of time.perf_counter)."""
        queue_s = None if planned_at is None else time.perf_counter() - planned_at
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        if isinstance(case, BrokenCase):
            return unmade_record(case, repeat, schema_problem(case))
        if problem := self.judge.inspect(case.schema):
            return unmade_record(case, repeat, problem)
        # imported late: only these runs need the module and its dependencies
        from pytest_jsbench.datasets.labelled import with_escaped_names

        generation = self._decide(case, with_escaped_names(case.schema, self.instances(case.key)))
        return Record.of(
            key=case.key,
            repeat=repeat,
            schema=case.schema,
            prompt=None,
            generation=generation,
            verdict=decide(generation, case.schema, self.judge),
            started_at=started_at,
            queue_s=queue_s,
        )

    def _decide(self, case: Case, instances: Sequence[Instance]) -> Generation:
        start = time.perf_counter()
        try:
            acceptance = self.acceptor.accepts(copy_of(case.schema), [instance.text for instance in instances])
        except CallError as error:
            return Failed(kind=error.kind, message=error.message)
        except THIRD_PARTY_ERRORS as error:  # an engine's bug fails one case, not the run
            return Failed(kind=FaultKind.ENGINE, message=f"{type(error).__name__}: {error}")
        if isinstance(acceptance, Declined):
            return acceptance
        timing = Timing(
            tgt=time.perf_counter() - start,
            grammar_compilation=acceptance.grammar_compilation,
            compile_time=acceptance.compile_time,
            masks=acceptance.masks,
        )
        pairs = zip(instances, acceptance.accepted, strict=True)
        return Decided(
            decisions=tuple(self._decision(case, instance, accepted) for instance, accepted in pairs),
            timing=timing,
            library=acceptance.library,
        )

    def _decision(self, case: Case, instance: Instance, accepted: bool | None) -> GrammarDecision:
        """
        Return the grammar's decision on an answer, with the violated keywords if the grammar wrongly accepts the
        answer.
        """
        decision = GrammarDecision(id=instance.id, valid=instance.valid, accepted=accepted)
        if instance.valid or not decision.wrong:
            return decision
        violations = self.judge.judge(case.schema, instance.text).violations
        return structs.replace(decision, keywords=tuple(dict.fromkeys(violation.keyword for violation in violations)))
