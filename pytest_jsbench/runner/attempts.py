"""
Run one attempt and write its record: prompt, call with retries, verdict. A call that fails is a record too.

Only an attempt that a limit or the end of the session forbids has no record: it raises Refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import tenacity

from pytest_jsbench.adaptation import Adapted, Change, Inexpressible
from pytest_jsbench.core.cases import BrokenCase, Case, Schema
from pytest_jsbench.core.errors import JSBenchError, exhausted
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Decided,
    Declined,
    DeclineReason,
    Failed,
    FaultKind,
    Generation,
    GenerationParams,
    Origin,
    Request,
    Usage,
)
from pytest_jsbench.core.json_values import copy_of
from pytest_jsbench.core.prompts import Prompt, PromptLength, PromptTemplate, estimate, prompt_of
from pytest_jsbench.engines.base import Engine, Rememberer, TokenCounter
from pytest_jsbench.runner.limits import Admission, Estimate, Refused
from pytest_jsbench.runner.provider_state import CallEnd, Sign
from pytest_jsbench.runs.records import AnsweredBy, MissingReason, Record
from pytest_jsbench.runs.rejudging import matched, verdict_on
from pytest_jsbench.runs.settings import REMEMBERED
from pytest_jsbench.values import Comparer
from pytest_jsbench.verdicts import FailureType, Judge, SchemaProblem, Verdict

#: faults after which the same call may succeed
RETRIED = frozenset(
    {
        FaultKind.RATE_LIMITED,
        FaultKind.TIMEOUT,
        FaultKind.CONNECTION,
        FaultKind.SERVER,
        FaultKind.BAD_RESPONSE,
    }
)
#: faults of calls that the provider may have answered, and charged for
_MAY_COST = frozenset({FaultKind.TIMEOUT, FaultKind.BAD_RESPONSE})
#: bytes of a prompt or a schema that are at least one token
_BYTES_PER_TOKEN = 2
_ONE_AT_A_TIME = "if none breaks off alone, the server takes one at a time: --jsbench-concurrency=1"
#: seconds after its own time limit at which a call is over in any case
_GRACE = 10.0
_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 0.5, 30.0
_LONGEST_RETRY_AFTER = 120.0
#: seconds that a refusal counts as which says nothing of how long
_SHORTEST_WAIT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """
    Runs the attempts of one engine.

    A worker makes one for each variant, and one for each other engine that a project's own test names; `batches.gather`
    makes a copy that only collects requests. The worker's threads call `attempt` at the same time, as many as the
    engine allows; the runner holds no state between attempts. The worker closes engine, judge and admission.
    """

    engine: Engine
    judge: Judge
    template: PromptTemplate
    params: GenerationParams
    #: tries after the first
    retries: int = 2
    #: changes a schema to one that the engine takes; None: the schema is sent unchanged
    adapter: Callable[[Schema], Adapted | Inexpressible] | None = None
    #: size of the model's context in tokens; None: unknown, and every prompt is sent
    context: int | None = None
    #: where the requests come from, sent with each
    origin: Origin = field(default_factory=Origin)
    #: how the values of fields are compared with expected ones, by the field's name
    comparers: Mapping[str, Comparer] = field(default_factory=dict)
    #: decides when a call may be made; None: there are no limits
    admission: Admission | None = None

    def attempt(self, case: Case | BrokenCase, *, repeat: int = 0, planned_at: float | None = None) -> Record:
        """The record of one attempt, queued at `planned_at` by time.perf_counter; Refused where it may not be made."""
        if isinstance(case, BrokenCase):
            return not_made(case, broken(case), repeat=repeat)
        if problem := self.judge.inspect(case.schema):
            return not_made(case, problem, repeat=repeat)
        waits = _Waits()
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        queue_s = None if planned_at is None else time.perf_counter() - planned_at
        adapted = self._adapt(case.schema)
        asked, retries = self._prompt(case), 0
        prompt = None if isinstance(asked, Failed) else asked
        measured = None if prompt is None else self._length(prompt)
        length = None if isinstance(measured, Failed) else measured
        generation: Generation
        if isinstance(asked, Failed):
            generation = asked
        elif isinstance(measured, Failed):
            generation = measured
        elif not isinstance(adapted, Adapted):
            generation = adapted
        elif (too_long := self._too_long(length)) is not None:
            generation = too_long
        else:
            request = Request(
                key=case.key,
                repeat=repeat,
                prompt=asked,
                schema=copy_of(adapted.schema),
                params=self.params.of_repeat(repeat),
                origin=self.origin,
            )
            generation, retries = self._generate(request, waits)
            generation = _with_what_was_sent(generation, adapted, case.schema)
        changes = adapted.changes if isinstance(adapted, Adapted) else ()
        sent = getattr(generation, "sent", None)
        record = Record(
            key=case.key,
            repeat=repeat,
            schema=case.schema,
            prompt=prompt,
            prompt_length=length,
            generation=generation,
            verdict=self._verdict(generation, case.schema, changes),
            started_at=started_at,
            queue_s=waits.add_to(queue_s),
            retries=retries,
            params=(sent and sent.params) or self.params.of_repeat(repeat),
            changes=changes,
            reference=case.reference,
            tags=case.tags,
            answered_by=waits.answered_by,
        )
        return matched(record, case.expected, self.comparers)

    def _verdict(self, generation: Generation, schema: Schema, changes: tuple[Change, ...]) -> Verdict:
        """The verdict; `unjudged` where the judge cannot run: the answer is paid for, and can be judged at any time."""
        try:
            return verdict_on(generation, schema, changes, self.judge)
        except Exception as error:
            if not (why := exhausted(error)):
                raise
            if self.admission is not None:
                self.admission.stop(Refused(MissingReason.EXHAUSTED, why))
            return Verdict(failure_type=FailureType.UNJUDGED, valid=None, reason="exhausted", message=why)

    def _prompt(self, case: Case) -> Prompt | Failed:
        """The prompt of the case; Failed where a user's own template raises."""
        try:
            return prompt_of(case, self.template)
        except Exception as error:  # noqa: BLE001  a template's bug fails one attempt, never the run
            said = str(error) if isinstance(error, JSBenchError) else f"{type(error).__name__}: {error}"
            return Failed(kind=FaultKind.BAD_REQUEST, message=f"nothing was sent: {said}")

    def _length(self, prompt: Prompt) -> PromptLength | Failed:
        try:
            tokens = self.engine.count_tokens(prompt) if isinstance(self.engine, TokenCounter) else None
        except Exception as error:  # noqa: BLE001  an engine's bug is one attempt's outcome, never the run's end
            message = f"the prompt's tokens could not be counted: {type(error).__name__}: {error}; nothing was sent"
            return Failed(kind=FaultKind.ENGINE, message=message)
        return estimate(prompt) if tokens is None else PromptLength(tokens=tokens, exact=True)

    def _too_long(self, length: PromptLength | None) -> Declined | None:
        """Declined where the prompt leaves no room for a single token of an answer."""
        if self.context is None or length is None or length.tokens < self.context:
            return None
        about = "" if length.exact else "about "
        message = (
            f"the prompt has {about}{length.tokens:,} tokens and the model's context {self.context:,}; nothing was sent"
        )
        return Declined(reason=DeclineReason.CONTEXT_LENGTH, message=message)

    def _adapt(self, schema: Schema) -> Adapted | Declined | Failed:
        """The schema to send, or the outcome of the attempt where there is none."""
        if self.adapter is None:
            return Adapted(schema=schema)
        try:
            adapted = self.adapter(schema)
        except Exception as error:  # noqa: BLE001  an adapter's bug fails one attempt, never the run
            said = str(error) if isinstance(error, JSBenchError) else f"{type(error).__name__}: {error}"
            return Failed(kind=FaultKind.ENGINE, message=f"the schema could not be adapted: {said}")
        if isinstance(adapted, Adapted):
            return adapted
        return inexpressible(adapted)

    def _generate(self, request: Request, waits: _Waits | None = None) -> tuple[Generation, int]:
        """The outcome of the last try, and the number of tries before it; Refused where none may be made."""
        waits = waits or _Waits()
        patience = _LONGEST_RETRY_AFTER if self.admission is None else self.admission.patience
        retrying = tenacity.Retrying(
            stop=lambda state: (
                waits.hopeless or state.attempt_number - waits.free > self.retries or waits.asked > patience
            ),
            wait=lambda state: _back_off(state, waits),
            retry=tenacity.retry_if_exception(
                # only an application itself makes its call again
                lambda error: request.origin.exchange is None and _is_retried(error, patience)
            ),
            sleep=time.sleep if self.admission is None else self.admission.sleep,
            reraise=True,
        )
        generation: Generation
        try:
            generation = retrying(self._call, request, waits)
        except Refused as refused:
            if waits.fault is None or refused.reason is not MissingReason.UNAVAILABLE:
                raise
            generation = _failed(waits.fault)  # it was called, and this is how that ended
        except CallError as error:
            generation = _failed(error)
        except Exception as error:  # noqa: BLE001  an engine's bug is one attempt's outcome, never the run's end
            why = exhausted(error)
            if why and self.admission is not None:
                self.admission.stop(Refused(MissingReason.EXHAUSTED, why))
            generation = Failed(kind=FaultKind.ENGINE, message=why or f"{type(error).__name__}: {error}")
        finally:
            retrying.iter_state.reset()  # a circle, which would keep the answer until cycles are collected
        return generation, retrying.statistics.get("attempt_number", 1) - 1

    def _call(self, request: Request, waits: _Waits) -> Completion | Declined:
        """One try, within the limits that all processes of the run share."""
        if isinstance(self.engine, Rememberer) and (known := self.engine.remembered(request)) is not None:
            waits.answered_by = AnsweredBy(engine=REMEMBERED, model=known.model)
            return known.answer
        admission = self.admission
        if admission is None:
            return self.engine.generate(request)
        permit = admission.enter(lambda: most_of(request))
        waits.seconds, flying = waits.seconds + permit.waited, admission.flying
        usage, end = None, CallEnd(sign=Sign.NOTHING)
        try:
            generation = self.engine.generate(request)
            usage, end = generation.usage, CallEnd()
        except CallError as error:
            usage = Usage() if error.kind in _MAY_COST else None
            if error.broke_off and (most := max(flying, admission.flying)) > 1:
                error.message += f" ({most} calls were in flight; {_ONE_AT_A_TIME})"
            end, waits.fault = CallEnd.of(error), error
            raise
        finally:
            state = admission.leave(permit, end, usage=usage)
            waits.hopeless = bool(state.given_up)
            if end.sign is Sign.REFUSED:
                waits.asked += end.retry_after or _SHORTEST_WAIT
            shared = end.sign is Sign.REFUSED or (end.sign is Sign.DOWN and state.down)
            waits.all_wait = shared and admission.patience > 0
            waits.free += waits.all_wait
        return generation


def inexpressible(found: Inexpressible) -> Declined:
    """The outcome of a schema that cannot be said in the subset that the engine takes."""
    message = f"{found.keyword or 'schema'} at {found.path or '/'}: {found.message}; nothing was sent"
    return Declined(reason=DeclineReason.UNSUPPORTED_SCHEMA, message=message)


def _failed(error: CallError) -> Failed:
    return Failed(kind=error.kind, message=error.message, status=error.status)


@dataclass(slots=True, kw_only=True)
class _Waits:
    """What the tries of one attempt have met so far."""

    #: spent waiting for the limits
    seconds: float = 0.0
    #: that the provider asked this call to wait
    asked: float = 0.0
    #: tries that ended because the provider bears no more, or is down for all: those cost time, and no tries
    free: int = 0
    #: whether the latest one did: then all calls wait together for their next permit, and none by itself
    all_wait: bool = False
    #: of the latest try that broke
    fault: CallError | None = None
    #: whether the run has given up on the provider
    hopeless: bool = False
    #: who gave the answer that was remembered; None where the engine was asked
    answered_by: AnsweredBy | None = None

    def add_to(self, queue_s: float | None) -> float | None:
        return queue_s + self.seconds if queue_s is not None else self.seconds or None


def most_of(request: Request) -> Estimate:
    """The most that a call can use; the schema counts on top of the prompt, since most engines send it too."""
    texts = (text for message in request.prompt.messages for text in message.texts)
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    size += len(json.dumps(request.schema))
    return Estimate(
        input_tokens=-(-size // _BYTES_PER_TOKEN),
        output_tokens=request.params.max_tokens,
        seconds=request.params.timeout + _GRACE,
    )


def _with_what_was_sent(generation: Generation, adapted: Adapted, original: Schema) -> Generation:
    """The generation with the schema that was sent: the adapted one, unless the engine reports another."""
    if isinstance(generation, Failed | Decided) or generation.sent is None or generation.sent.schema is not None:
        return generation
    if adapted.schema == original:
        return generation
    return replace(generation, sent=replace(generation.sent, schema=adapted.schema))


def _is_retried(error: BaseException, patience: float) -> bool:
    if not isinstance(error, CallError) or error.kind not in RETRIED:
        return False
    return error.retry_after is None or error.retry_after <= patience


def _back_off(state: tenacity.RetryCallState, waits: _Waits) -> float:
    """Full jitter, and never sooner than the provider asked; none where the admission makes all calls wait."""
    if waits.all_wait:
        return 0.0
    first = _FIRST_BACK_OFF / 2.0**waits.free
    jitter: float = tenacity.wait_random_exponential(multiplier=first, max=_LONGEST_BACK_OFF)(state)
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, CallError) else None
    return max(jitter, asked or 0.0)


def broken(case: BrokenCase) -> SchemaProblem:
    """The problem of a case that holds no schema."""
    return SchemaProblem(failure_type=FailureType.INVALID_SCHEMA, reason=case.reason, message=case.problem)


def not_made(case: Case | BrokenCase, problem: SchemaProblem, *, repeat: int = 0) -> Record:
    """The record of an attempt that is not made, since nothing could be judged by its schema."""
    return Record(
        key=case.key,
        repeat=repeat,
        schema=case.schema if isinstance(case, Case) else None,
        prompt=None,
        generation=None,
        verdict=problem.verdict,
    )
