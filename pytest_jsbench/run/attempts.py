"""
Run one attempt and write its record: prompt, call with retries, verdict. A call that fails is a record too.

Only an attempt that a limit or the end of the session forbids has no record: it raises Refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import tenacity
from msgspec import structs

from pytest_jsbench.adaptation import Adapted, Change, Inexpressible, changes_by_engine
from pytest_jsbench.core.cases import (
    BrokenCase,
    Case,
    Prompt,
    PromptLength,
    PromptTemplate,
    Schema,
    estimate,
    prompt_of,
)
from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, JSBenchError, exhausted
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
    GrammarDecision,
    Origin,
    Request,
    Timing,
    Usage,
)
from pytest_jsbench.core.json_values import copy_of, from_json, to_json
from pytest_jsbench.engines.base import Acceptor, Engine, Rememberer, TokenCounter
from pytest_jsbench.records.records import AnsweredBy, MissingReason, Record
from pytest_jsbench.records.rejudging import matched, verdict_on
from pytest_jsbench.records.setting_differences import REMEMBERED
from pytest_jsbench.run.limits import Admission, Estimate, Refused
from pytest_jsbench.run.provider_state import CallEnd, Sign
from pytest_jsbench.values import Comparer
from pytest_jsbench.verdicts import FailureType, Judge, Verdict, decide

if TYPE_CHECKING:
    from pytest_jsbench.datasets.base import Instance

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
class CaseQuestion:
    """The request that a case makes of an engine, and how it came to be."""

    case: Case
    #: the schema as the engine takes it; the outcome of the attempt where there is none
    adapted: Adapted | Declined | Failed
    #: None where the template broke
    prompt: Prompt | None = None
    length: PromptLength | None = None
    #: what is sent; the outcome of the attempt where nothing can be
    request: Request | Declined | Failed

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes that the adaptation made to the schema."""
        return self.adapted.changes if isinstance(self.adapted, Adapted) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """
    Runs the attempts of one engine.

    A run's session makes one for each variant; a project's own test that names another engine gets a copy with that.
    The threads of the calls in flight enter `attempt` at the same time, as many as the engine allows; the runner holds
    no state between attempts. The session closes engine, judge and admission.
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
        """Make one attempt, queued at `planned_at` by time.perf_counter; Refused where it may not be made."""
        queue_s = None if planned_at is None else time.perf_counter() - planned_at
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        question = self.question(case, repeat)
        if isinstance(question, Record):
            return question
        case, waits = question.case, _Waits()
        generation: Generation
        if isinstance(question.request, Request):
            generation = self._generate(question.request, waits)
            generation = _with_what_was_sent(generation, question.adapted, case.schema)
        else:
            generation = question.request
        sent = getattr(generation, "sent", None)
        changes = question.changes
        if isinstance(question.adapted, Adapted) and sent is not None and sent.schema is not None:
            changes += changes_by_engine(question.adapted.schema, sent.schema)
        record = Record.of(
            key=case.key,
            repeat=repeat,
            schema=case.schema,
            prompt=question.prompt,
            prompt_length=question.length,
            generation=generation,
            verdict=self._verdict(generation, case.schema, changes),
            started_at=started_at,
            queue_s=queue_s + waits.seconds if queue_s is not None else waits.seconds or None,
            retries=waits.retries,
            params=(sent and sent.params) or self.params.of_repeat(repeat),
            changes=changes,
            reference=case.reference,
            tags=case.tags,
            answered_by=waits.answered_by,
        )
        return matched(record, case.expected, self.comparers)

    def question(self, case: Case | BrokenCase, repeat: int) -> CaseQuestion | Record:
        """Prepare the request for a case; the attempt's record where nothing could be judged by its schema."""
        if isinstance(case, BrokenCase):
            return _not_made(case, repeat, _broken(case))
        if problem := self.judge.inspect(case.schema):
            return _not_made(case, repeat, problem)
        adapted = self._adapt(case.schema)
        prompt = self._prompt(case)
        if isinstance(prompt, Failed):
            return CaseQuestion(case=case, adapted=adapted, request=prompt)
        length = self._length(prompt)
        if isinstance(length, Failed):
            return CaseQuestion(case=case, adapted=adapted, prompt=prompt, request=length)
        request: Request | Declined | Failed
        if not isinstance(adapted, Adapted):
            request = adapted
        else:
            request = self._too_long(length) or Request(
                key=case.key,
                repeat=repeat,
                prompt=prompt,
                schema=copy_of(adapted.schema),
                params=self.params.of_repeat(repeat),
                origin=self.origin,
            )
        return CaseQuestion(case=case, adapted=adapted, prompt=prompt, length=length, request=request)

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
        except THIRD_PARTY_ERRORS as error:  # a template's bug fails one attempt, never the run
            return Failed(kind=FaultKind.BAD_REQUEST, message=f"nothing was sent: {_words(error)}")

    def _length(self, prompt: Prompt) -> PromptLength | Failed:
        try:
            tokens = self.engine.count_tokens(prompt) if isinstance(self.engine, TokenCounter) else None
        except THIRD_PARTY_ERRORS as error:  # an engine's bug is one attempt's outcome, never the run's end
            message = f"the prompt's tokens could not be counted: {type(error).__name__}: {error}; nothing was sent"
            return Failed(kind=FaultKind.ENGINE, message=message)
        return estimate(prompt) if tokens is None else PromptLength(tokens=tokens, exact=True)

    def _too_long(self, length: PromptLength) -> Declined | None:
        """Decline a prompt that leaves no room for a single token of an answer."""
        if self.context is None or length.tokens < self.context:
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
            return Failed(kind=FaultKind.ENGINE, message=f"the schema could not be adapted: {_words(error)}")
        return adapted if isinstance(adapted, Adapted) else inexpressible(adapted)

    def _generate(self, request: Request, waits: _Waits) -> Generation:
        """Try until there is an outcome; Refused where no try may be made."""
        patience = _LONGEST_RETRY_AFTER if self.admission is None else self.admission.patience

        def may_mend(error: BaseException) -> bool:
            if not isinstance(error, CallError) or error.kind not in RETRIED or (error.retry_after or 0.0) > patience:
                return False
            return request.origin.exchange is None  # only an application itself makes its call again

        retrying = tenacity.Retrying(
            stop=lambda state: (
                waits.hopeless or state.attempt_number - waits.free > self.retries or waits.asked > patience
            ),
            wait=lambda state: _back_off(state, waits),
            retry=tenacity.retry_if_exception(may_mend),
            sleep=time.sleep if self.admission is None else self.admission.sleep,
            reraise=True,
        )
        try:
            return retrying(self._call, request, waits)
        except Refused as refused:
            if waits.fault is None or refused.reason is not MissingReason.UNAVAILABLE:
                raise
            return _failed(waits.fault)  # it was called, and this is how that ended
        except CallError as error:
            return _failed(error)
        except THIRD_PARTY_ERRORS as error:  # an engine's bug is one attempt's outcome, never the run's end
            why = exhausted(error)
            if why and self.admission is not None:
                self.admission.stop(Refused(MissingReason.EXHAUSTED, why))
            return Failed(kind=FaultKind.ENGINE, message=why or f"{type(error).__name__}: {error}")
        finally:
            retrying.iter_state.reset()  # a circle, which would keep the answer until cycles are collected
            waits.retries = retrying.statistics.get("attempt_number", 1) - 1

    def _call(self, request: Request, waits: _Waits) -> Completion | Declined:
        """Make one try, within the limits that all processes of the run share."""
        if isinstance(self.engine, Rememberer) and (memory := self.engine.remembered(request)) is not None:
            waits.answered_by = AnsweredBy(engine=REMEMBERED, model=memory.model)
            return memory.answer
        admission = self.admission
        if admission is None:
            return _checked(self.engine.generate(request))
        permit = admission.enter(lambda: most_of(request))
        waits.seconds, flying = waits.seconds + permit.waited, admission.flying
        usage, end = None, CallEnd(sign=Sign.NOTHING)
        try:
            generation = self.engine.generate(request)
            usage = Usage()  # it was answered, with whatever
            usage, end = _checked(generation).usage, CallEnd()
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


def inexpressible(problem: Inexpressible) -> Declined:
    """The outcome of a schema that cannot be said in the subset that the engine takes."""
    message = f"{problem.keyword or 'schema'} at {problem.path or '/'}: {problem.message}; nothing was sent"
    return Declined(reason=DeclineReason.UNSUPPORTED_SCHEMA, message=message)


def _checked(generation: Completion | Declined) -> Completion | Declined:
    """The generation; ValueError for one of an engine's bug, which no records file could be read with."""
    from_json(Completion | Declined, to_json(generation))
    return generation


def _failed(error: CallError) -> Failed:
    return Failed(kind=error.kind, message=error.message, status=error.status)


@dataclass(slots=True, kw_only=True)
class _Waits:
    """The events of one attempt's tries so far."""

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
    #: tries before the last one
    retries: int = 0


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


def _with_what_was_sent(generation: Generation, adapted: Adapted | Declined | Failed, original: Schema) -> Generation:
    """Add the schema that was sent: the adapted one, unless the engine reports another."""
    if isinstance(generation, Failed | Decided) or generation.sent is None or generation.sent.schema is not None:
        return generation
    if not isinstance(adapted, Adapted) or adapted.schema == original:
        return generation
    return structs.replace(generation, sent=structs.replace(generation.sent, schema=adapted.schema))


def _back_off(state: tenacity.RetryCallState, waits: _Waits) -> float:
    """Full jitter, and never sooner than the provider asked; none where the admission makes all calls wait."""
    if waits.all_wait:
        return 0.0
    first = _FIRST_BACK_OFF / 2.0**waits.free
    jitter: float = tenacity.wait_random_exponential(multiplier=first, max=_LONGEST_BACK_OFF)(state)
    error = state.outcome.exception() if state.outcome else None
    return max(jitter, (error.retry_after or 0.0) if isinstance(error, CallError) else 0.0)


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, JSBenchError) else f"{type(error).__name__}: {error}"


def _broken(case: BrokenCase) -> Verdict:
    return Verdict(failure_type=FailureType.INVALID_SCHEMA, valid=None, reason=case.reason, message=case.problem)


def _not_made(case: Case | BrokenCase, repeat: int, problem: Verdict) -> Record:
    """Return the record of an attempt that is not made, since nothing could be judged by its schema."""
    return Record.of(
        key=case.key,
        repeat=repeat,
        schema=case.schema if isinstance(case, Case) else None,
        prompt=None,
        generation=None,
        verdict=problem,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRunner:
    """
    Runs the attempts of an engine whose grammar decides on labelled answers, and that calls no model.

    A run's session makes one; its threads call `attempt` at the same time. It holds no state between attempts.
    """

    acceptor: Acceptor
    judge: Judge

    def attempt(
        self, case: Case | BrokenCase, instances: Sequence[Instance], *, planned_at: float | None = None
    ) -> Record:
        """Make the one attempt of a case, queued at `planned_at` by time.perf_counter."""
        queue_s = None if planned_at is None else time.perf_counter() - planned_at
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        if isinstance(case, BrokenCase):
            return _not_made(case, 0, _broken(case))
        if problem := self.judge.inspect(case.schema):
            return _not_made(case, 0, problem)
        # only such runs need the module, and what it imports
        from pytest_jsbench.datasets.labelled import with_escaped_names

        generation = self._decide(case, with_escaped_names(case.schema, instances))
        return Record.of(
            key=case.key,
            repeat=0,
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
        except THIRD_PARTY_ERRORS as error:  # an engine's bug is one case's outcome, never the run's end
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
        """Label what the grammar decided of an answer; one that it takes wrongly, with the keywords that it breaks."""
        decision = GrammarDecision(id=instance.id, valid=instance.valid, accepted=accepted)
        if instance.valid or not decision.wrong:
            return decision
        violations = self.judge.judge(case.schema, instance.text).violations
        return structs.replace(decision, keywords=tuple(dict.fromkeys(violation.keyword for violation in violations)))
