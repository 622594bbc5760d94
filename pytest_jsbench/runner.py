"""Attempts: a case is prompted, asked with retries, judged, and becomes a record; no call makes anything here raise."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import tenacity

from pytest_jsbench.cases import BrokenCase, Case, CaseKey, Schema
from pytest_jsbench.engines.base import Engine
from pytest_jsbench.generations import (
    CallError,
    Failed,
    FaultKind,
    Generation,
    GenerationParams,
    Request,
)
from pytest_jsbench.prompts import PromptTemplate
from pytest_jsbench.records import Record
from pytest_jsbench.verdicts import FailureType, Judge, Verdict, decide

#: faults that another try may mend
RETRIED = frozenset(
    {
        FaultKind.RATE_LIMITED,
        FaultKind.TIMEOUT,
        FaultKind.CONNECTION,
        FaultKind.SERVER,
        FaultKind.BAD_RESPONSE,
    }
)
_LONGEST_BACK_OFF = 30.0
_LONGEST_RETRY_AFTER = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """All that one attempt needs; safe to call from several threads when the engine is."""

    engine: Engine
    judge: Judge
    template: PromptTemplate
    params: GenerationParams
    #: more tries after the first
    retries: int = 2

    def attempt(self, case: Case | BrokenCase, *, repeat: int = 0, planned_at: float | None = None) -> Record:
        """The record of one attempt; `planned_at` is when it was queued, by time.perf_counter."""
        if isinstance(case, BrokenCase):
            return _not_asked(
                case.key,
                repeat,
                None,
                failure_type=FailureType.INVALID_SCHEMA,
                reason="not_json",
                message=case.problem,
            )
        if problem := self.judge.inspect(case.schema):
            return _not_asked(
                case.key,
                repeat,
                case.schema,
                failure_type=problem.failure_type,
                reason=problem.reason,
                message=problem.message,
            )
        request = Request(
            key=case.key,
            repeat=repeat,
            prompt=self.template(case),
            schema=copy.deepcopy(case.schema),
            params=self.params,
        )
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        queue_s = None if planned_at is None else time.perf_counter() - planned_at
        generation, retries = self._generate(request)
        return Record(
            key=case.key,
            repeat=repeat,
            schema=case.schema,
            prompt=request.prompt,
            generation=generation,
            verdict=decide(generation, case.schema, self.judge),
            started_at=started_at,
            queue_s=queue_s,
            retries=retries,
        )

    def _generate(self, request: Request) -> tuple[Generation, int]:
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.retries + 1),
            wait=_back_off,
            retry=tenacity.retry_if_exception(_is_retried),
            reraise=True,
        )
        generation: Generation
        try:
            generation = retrying(self.engine.generate, request)
        except CallError as error:
            generation = Failed(kind=error.kind, message=error.message, status=error.status)
        except Exception as error:  # noqa: BLE001  an engine's bug is one attempt's outcome, never the run's end
            generation = Failed(kind=FaultKind.ENGINE, message=f"{type(error).__name__}: {error}")
        return generation, retrying.statistics.get("attempt_number", 1) - 1


def _is_retried(error: BaseException) -> bool:
    if not isinstance(error, CallError) or error.kind not in RETRIED:
        return False
    return error.retry_after is None or error.retry_after <= _LONGEST_RETRY_AFTER


def _back_off(state: tenacity.RetryCallState) -> float:
    """Full jitter, and never sooner than the provider asked."""
    jitter: float = tenacity.wait_random_exponential(multiplier=0.5, max=_LONGEST_BACK_OFF)(state)
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, CallError) else None
    return max(jitter, asked or 0.0)


def _not_asked(
    key: CaseKey, repeat: int, schema: Schema | None, *, failure_type: FailureType, reason: str, message: str
) -> Record:
    verdict = Verdict(failure_type=failure_type, valid=None, reason=reason, message=message)
    return Record(key=key, repeat=repeat, schema=schema, prompt=None, generation=None, verdict=verdict)
