"""Labelled answers: an engine's grammar decides on each, and its decisions are compared with the labels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.generations import CallError, Decided, Declined, Failed, FaultKind, Generation, GrammarDecision
from pytest_jsbench.core.json_values import copy_of
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.datasets.labelled import Instance
from pytest_jsbench.engines.base import Acceptor
from pytest_jsbench.runner.attempts import broken, not_made
from pytest_jsbench.runs.records import Record
from pytest_jsbench.verdicts import Judge, decide


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRunner:
    """
    Runs the attempts of an engine whose grammar decides on labelled answers, and that calls no model.

    A worker makes one for the run; its threads call `attempt` at the same time. It holds no state between attempts.
    """

    acceptor: Acceptor
    judge: Judge

    def attempt(
        self, case: Case | BrokenCase, instances: Sequence[Instance], *, planned_at: float | None = None
    ) -> Record:
        """The record of one case; `planned_at` is when it was queued, by time.perf_counter."""
        if isinstance(case, BrokenCase):
            return not_made(case, broken(case))
        if problem := self.judge.inspect(case.schema):
            return not_made(case, problem)
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        queue_s = None if planned_at is None else time.perf_counter() - planned_at
        generation = self._ask(case, instances)
        return Record(
            key=case.key,
            repeat=0,
            schema=case.schema,
            prompt=None,
            generation=generation,
            verdict=decide(generation, case.schema, self.judge),
            started_at=started_at,
            queue_s=queue_s,
        )

    def _ask(self, case: Case, instances: Sequence[Instance]) -> Generation:
        start = time.perf_counter()
        try:
            acceptance = self.acceptor.accepts(copy_of(case.schema), [instance.text for instance in instances])
        except CallError as error:
            return Failed(kind=error.kind, message=error.message)
        except Exception as error:  # noqa: BLE001  an engine's bug is one case's outcome, never the run's end
            return Failed(kind=FaultKind.ENGINE, message=f"{type(error).__name__}: {error}")
        if isinstance(acceptance, Declined):
            return acceptance
        tgt = time.perf_counter() - start
        decisions = tuple(
            self._decision(case, instance, accepted)
            for instance, accepted in zip(instances, acceptance.accepted, strict=True)
        )
        timing = Timing(
            tgt=tgt,
            grammar_compilation=acceptance.grammar_compilation,
            compile_time=acceptance.compile_time,
            masks=acceptance.masks,
        )
        return Decided(decisions=decisions, timing=timing)

    def _decision(self, case: Case, instance: Instance, accepted: bool | None) -> GrammarDecision:
        """What the grammar says of an answer; where it takes an invalid one, with what that breaks."""
        decision = GrammarDecision(id=instance.id, valid=instance.valid, accepted=accepted)
        if instance.valid or not decision.wrong:
            return decision
        violations = self.judge.judge(case.schema, instance.text).violations
        return replace(decision, keywords=tuple(dict.fromkeys(one.keyword for one in violations)))
