"""
Run one attempt: build the prompt, call the engine through its layers, judge the answer.

A failed call also results in a record. If a limit or the end of the session forbids the call, the attempt has no record
and raises Refused.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from msgspec import structs

from pytest_jsbench.adaptation import Adapted, Change, Inexpressible
from pytest_jsbench.adaptation.rewriting import NotRewritten
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
from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, JSBenchError, describe_exhaustion
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
)
from pytest_jsbench.core.json_values import copy_of, from_json, to_json
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.tool_offers import ToolOffer
from pytest_jsbench.engines.base import CachingEngine, Engine, TokenCounter
from pytest_jsbench.records.call_load import CallLoad
from pytest_jsbench.records.records import MissingReason, Record
from pytest_jsbench.records.rejudging import compare_values, verdict_on
from pytest_jsbench.run.call_layers import Call, Layer, Limits, RecordedAnswers, Retries, Tries, failed_call
from pytest_jsbench.run.case_rewriter import CaseRewriter, RewrittenCase
from pytest_jsbench.run.isolation import Isolation
from pytest_jsbench.run.limits import Admission, Refused
from pytest_jsbench.schemas.references import pointer_of
from pytest_jsbench.values import Comparer
from pytest_jsbench.verdicts import NOT_REWRITTEN, FailureType, Judge, Verdict
from pytest_jsbench.verdicts.verdicts import no_instance


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """The request for a case, with the intermediate results from which it was built."""

    case: Case
    #: The schema to send, or the outcome of the attempt if the adaptation failed.
    adapted: Adapted | Declined | Failed
    #: The prompt of the case; None if the template raised an error.
    prompt: Prompt | None = None
    length: PromptLength | None = None
    #: The request to send, or the outcome of the attempt if nothing can be sent.
    request: Request | Declined | Failed
    #: The changes that the adaptation made to the schemas of offered tools.
    changes_of_tools: tuple[Change, ...] = ()
    #: The changes that the rewriting made before the adaptation; empty if the schemas are not rewritten.
    rewritings: tuple[Change, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes that the rewriting and the adaptation made to the schema and to those of offered tools."""
        adapted = self.adapted.changes if isinstance(self.adapted, Adapted) else ()
        return (*self.rewritings, *adapted, *self.changes_of_tools)

    def with_sent_schema(self, generation: Generation) -> Generation:
        """Return the answer with the schema that was sent, unless it is the case's or the engine reports another."""
        if isinstance(generation, Failed | Decided) or generation.sent is None or generation.sent.schema is not None:
            return generation
        if not isinstance(self.adapted, Adapted):
            return generation
        # two schemas are equal even if their properties are in another order
        is_rewritten = any(not change.path.startswith("/tools/") for change in self.rewritings)
        if self.adapted.schema == self.case.schema and not is_rewritten:
            return generation
        return structs.replace(generation, sent=structs.replace(generation.sent, schema=self.adapted.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptedOffer:
    """The tools to send, with adapted schemas, and the changes from the original schemas."""

    offer: ToolOffer | None
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """
    Makes the attempts with one engine.

    A run's session creates one runner for each variant; if a project's own test names another engine, the test gets a
    copy with that engine. The threads of the calls in flight call `attempt` concurrently, up to the engine's
    concurrency; the runner keeps no state between attempts. The session closes the engine, the judge and the admission.
    """

    engine: Engine
    judge: Judge
    template: PromptTemplate
    params: GenerationParams
    #: Maximum number of retries after the first try of a call.
    retries: int = 2
    #: Rewrites a schema into the subset of JSON Schema that the engine accepts; None to send the schema unchanged.
    adapter: Callable[[Schema], Adapted | Inexpressible] | None = None
    #: Rewrites the schemas of a case into schemas that accept the same answers; None to leave them unchanged.
    rewriter: CaseRewriter | None = None
    #: Size of the model's context in tokens; None if unknown, so that prompts of any length are sent.
    context: int | None = None
    #: Test and settings that the requests come from; part of each request.
    origin: Origin = field(default_factory=Origin)
    #: Comparers of values with expected values, by the field's name.
    comparers: Mapping[str, Comparer] = field(default_factory=dict)
    #: Limits that determine when a call may be made; None if there are no limits.
    admission: Admission | None = None
    #: Repeats the calls of a broken server one at a time; None if the user does not allow it.
    isolation: Isolation | None = None
    #: Layers of the run's load around the retries of each call, the outermost first; empty without a load.
    load_layers: tuple[Layer, ...] = ()
    #: Whether records contain the times when calls began and ended.
    measures_load: bool = False
    #: Waits before a retry; an admission waits by itself, so that it can be stopped.
    sleep: Callable[[float], None] = time.sleep
    #: Maximum number of seconds before the first retry; it doubles with each retry.
    first_back_off: float = 0.5
    #: Returns a random number between two numbers, for the waits before retries.
    uniform: Callable[[float, float], float] = random.uniform
    #: Returns the date and time.
    now: Callable[[], datetime] = field(default=partial(datetime.now, UTC))
    #: The engine if it counts tokens.
    counter: TokenCounter | None = field(init=False, repr=False, compare=False)
    #: Layers around the engine, the outermost first.
    layers: tuple[Layer, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look once, not in each attempt, for what the engine can do beyond generating answers."""
        object.__setattr__(self, "counter", self.engine if isinstance(self.engine, TokenCounter) else None)
        object.__setattr__(self, "layers", tuple(self._around_engine()))

    def attempt(self, case: Case | BrokenCase, *, repeat: int = 0, planned_at: float | None = None) -> Record:
        """
        Make one attempt, which was queued at `planned_at` (a value of time.perf_counter); raise Refused if a call is
        not allowed.
        """
        queue_s = None if planned_at is None else time.perf_counter() - planned_at
        started_at = self.now().isoformat(timespec="milliseconds")
        prepared = self.prepare(case, repeat)
        if isinstance(prepared, Record):
            return prepared
        case = prepared.case
        tries = Tries()
        generation: Generation
        if isinstance(prepared.request, Request):
            generation = self.make_call(prepared.request, tries)
            generation = prepared.with_sent_schema(generation)
        else:
            generation = prepared.request
        sent = generation.sent
        changes = prepared.changes
        if isinstance(prepared.adapted, Adapted) and sent is not None and sent.schema is not None:
            changes += _changes_by_engine(prepared.adapted.schema, sent.schema)
        params = (sent and sent.params) or self.params.with_repeat(repeat)
        offer = case.offer
        if offer is not None and isinstance(prepared.request, Request):
            offer = offer.with_choice(params.tool_choice)
        load = self._load_of(tries)
        if load is not None:
            started_at = datetime.fromtimestamp(load.began, UTC).isoformat(timespec="milliseconds")
        record = Record.of(
            key=case.key,
            repeat=repeat,
            schema=case.schema,
            offer=case.offer,
            prompt=prepared.prompt,
            prompt_length=prepared.length,
            generation=generation,
            verdict=self.judge_answer(generation, case.schema, changes, offer),
            started_at=started_at,
            queue_s=_time_in_queue(queue_s, tries),
            load=load,
            retries=tries.retries,
            params=params,
            changes=changes,
            reference=case.reference,
            tags=case.tags,
            answered_by=tries.answered_by,
        )
        return compare_values(record, case.expected, self.comparers)

    def prepare(self, case: Case | BrokenCase, repeat: int) -> PreparedRequest | Record:
        """
        Prepare the request for a case; return the attempt's record if the case's schema cannot be used to judge an
        answer.
        """
        if isinstance(case, BrokenCase):
            return unmade_record(case, repeat, schema_problem(case))
        for name, schema in case.named_schemas:
            if problem := self.judge.inspect(schema):
                return unmade_record(case, repeat, _name_tool(problem, name))
        rewritten = (
            RewrittenCase(case=case, changes=()) if self.rewriter is None else self._rewrite(case, self.rewriter)
        )
        if isinstance(rewritten, Verdict):
            return unmade_record(case, repeat, rewritten)
        return self._prepare_rewritten(case, rewritten, repeat)

    def _rewrite(self, case: Case, rewriter: CaseRewriter) -> RewrittenCase | Verdict:
        """Return the case with rewritten schemas; if this is impossible, return the verdict on every attempt at it."""
        rewritten = rewriter.rewrite(case)
        if isinstance(rewritten, NotRewritten):
            return no_instance(FailureType.INVALID_SCHEMA, NOT_REWRITTEN, rewritten.message)
        for name, schema in rewritten.case.named_schemas:
            if problem := self.judge.inspect(schema):
                message = f"the rewritten schema cannot be used: {_name_tool(problem, name).message}"
                return no_instance(FailureType.INVALID_SCHEMA, NOT_REWRITTEN, message)
        return rewritten

    def _prepare_rewritten(self, case: Case, rewritten: RewrittenCase, repeat: int) -> PreparedRequest:
        """Prepare the request for a case whose schemas may have been rewritten."""
        adapted = self._adapt(rewritten.case.schema)
        offer = self._adapt_offer(rewritten.case.offer)
        prompt = self._prompt(rewritten.case)
        if isinstance(prompt, Failed):
            return PreparedRequest(case=case, adapted=adapted, request=prompt, rewritings=rewritten.changes)
        length = self._length(prompt)
        if isinstance(length, Failed):
            return PreparedRequest(
                case=case, adapted=adapted, prompt=prompt, request=length, rewritings=rewritten.changes
            )
        request: Request | Declined | Failed
        if not isinstance(adapted, Adapted):
            request = adapted
        elif not isinstance(offer, AdaptedOffer):
            request = offer
        else:
            request = self._too_long(length) or Request(
                key=case.key,
                repeat=repeat,
                prompt=prompt,
                schema=copy_of(adapted.schema),
                params=self.params.with_repeat(repeat),
                origin=self.origin,
                offer=offer.offer,
            )
        changes = offer.changes if isinstance(offer, AdaptedOffer) else ()
        return PreparedRequest(
            case=case,
            adapted=adapted,
            prompt=prompt,
            length=length,
            request=request,
            changes_of_tools=changes,
            rewritings=rewritten.changes,
        )

    def send_more(self, prepared: PreparedRequest, prompt: Prompt) -> tuple[Generation, Tries]:
        """
        Send a request again with further messages, which continue the conversation of its prompt; raise Refused if the
        call is not allowed.
        """
        tries = Tries(continues=True)
        length = self._length(prompt)
        if isinstance(length, Failed):
            return length, tries
        if (declined := self._too_long(length)) is not None:
            return declined, tries
        assert isinstance(prepared.request, Request)
        request = replace(
            prepared.request,
            key=prepared.case.key.continued(prompt.digest),
            prompt=prompt,
            schema=copy_of(prepared.request.schema),
            # the conversation alone identifies the call
            origin=replace(prepared.request.origin, first=None, equal_before=0, same_before=0),
        )
        generation = self.make_call(request, tries)
        return prepared.with_sent_schema(generation), tries

    def judge_answer(
        self, generation: Generation, schema: Schema, changes: tuple[Change, ...], offer: ToolOffer | None = None
    ) -> Verdict:
        """
        Judge the answer; return `unjudged` if memory or another resource is exhausted, because the answer was paid for
        and can be judged later.
        """
        try:
            return verdict_on(generation, schema, changes, self.judge, offer=offer)
        except Exception as error:
            if not (why := describe_exhaustion(error)):
                raise
            if self.admission is not None:
                self.admission.stop(Refused(MissingReason.EXHAUSTED, why))
            return Verdict(failure_type=FailureType.UNJUDGED, valid=None, reason="exhausted", message=why)

    def _prompt(self, case: Case) -> Prompt | Failed:
        """Return the prompt of the case; return Failed if a user's own template raises an error."""
        try:
            return prompt_of(case, self.template)
        except THIRD_PARTY_ERRORS as error:  # a template's bug fails one attempt, not the run
            return Failed(kind=FaultKind.BAD_REQUEST, message=f"nothing was sent: {_error_text(error)}")

    def _length(self, prompt: Prompt) -> PromptLength | Failed:
        try:
            tokens = None if self.counter is None else self.counter.count_tokens(prompt)
        except THIRD_PARTY_ERRORS as error:  # an engine's bug fails one attempt, not the run
            message = f"the prompt's tokens could not be counted: {type(error).__name__}: {error}; nothing was sent"
            return Failed(kind=FaultKind.ENGINE, message=message)
        return estimate(prompt) if tokens is None else PromptLength(tokens=tokens, exact=True)

    def _too_long(self, length: PromptLength) -> Declined | None:
        """Decline a prompt that leaves no tokens for an answer in the context."""
        if self.context is None or length.tokens < self.context:
            return None
        about = "" if length.exact else "about "
        message = (
            f"the prompt has {about}{length.tokens:,} tokens, and the model's context has {self.context:,}; "
            "nothing was sent"
        )
        return Declined(reason=DeclineReason.CONTEXT_LENGTH, message=message)

    def _adapt(self, schema: Schema) -> Adapted | Declined | Failed:
        """Return the schema to send, or the attempt's outcome if the adaptation fails."""
        if self.adapter is None:
            return Adapted(schema=schema)
        try:
            adapted = self.adapter(schema)
        except Exception as error:  # noqa: BLE001  an adapter's bug fails one attempt, never the run
            return Failed(kind=FaultKind.ENGINE, message=f"the schema could not be adapted: {_error_text(error)}")
        return adapted if isinstance(adapted, Adapted) else inexpressible(adapted)

    def _adapt_offer(self, offer: ToolOffer | None) -> AdaptedOffer | Declined | Failed:
        """
        Return the tools to send, with adapted schemas, or the attempt's outcome if the adaptation fails or the run's
        choice names a tool that is not offered.
        """
        if offer is None:
            return AdaptedOffer(offer=None)
        if not self.engine.info.offers_tools:
            message = f"engine '{self.engine.info.engine}' cannot offer tools to a model; nothing was sent"
            return Declined(reason=DeclineReason.UNSUPPORTED_TOOLS, message=message)
        try:
            offer.with_choice(self.params.tool_choice)
        except ValueError as error:
            return Failed(kind=FaultKind.BAD_REQUEST, message=f"nothing was sent: {error}")
        tools = []
        changes: list[Change] = []
        for tool in offer.tools:
            adapted = self._adapt(tool.parameters)
            if isinstance(adapted, Declined):
                return name_tool_in_refusal(adapted, tool.name)
            if isinstance(adapted, Failed):
                return adapted
            tools.append(structs.replace(tool, parameters=copy_of(adapted.schema)))
            place = pointer_of(("tools", tool.name))
            changes += (replace(change, path=f"{place}{change.path}") for change in adapted.changes)
        return AdaptedOffer(offer=structs.replace(offer, tools=tuple(tools)), changes=tuple(changes))

    def _load_of(self, tries: Tries) -> CallLoad | None:
        """Return when a call began and ended, and its plain calls; None if this is not recorded."""
        if not self.measures_load or tries.began is None or tries.ended is None:
            return None
        return CallLoad(began=tries.began, ended=tries.ended, late_s=tries.late, plain=tuple(tries.plain))

    def _around_engine(self) -> Iterator[Layer]:
        """Yield the layers around the engine, the outermost first."""
        if isinstance(self.engine, CachingEngine):
            yield RecordedAnswers(self.engine)
        yield from self.load_layers
        yield Retries(self.retries, self.admission, self.sleep, self.first_back_off, self.uniform)
        if self.isolation is not None:
            yield self.isolation
        if self.admission is not None:
            yield Limits(self.admission)

    def make_call(self, request: Request, tries: Tries) -> Completion | Declined | Failed:
        """Call the engine through its layers, and return the result; raise Refused if a call is not allowed."""
        call: Call = self._call_engine
        for layer in reversed(self.layers):
            call = partial(layer.call, call)
        try:
            return call(request, tries)
        except Refused as refused:
            if tries.fault is None or refused.reason is not MissingReason.UNAVAILABLE:
                raise
            return tries.fault  # an earlier try was made, and its fault is the outcome
        except CallError as error:
            return failed_call(error)
        except THIRD_PARTY_ERRORS as error:  # an engine's bug fails one attempt, not the run
            why = describe_exhaustion(error)
            if why and self.admission is not None:
                self.admission.stop(Refused(MissingReason.EXHAUSTED, why))
            return Failed(kind=FaultKind.ENGINE, message=why or f"{type(error).__name__}: {error}")

    def _call_engine(self, request: Request, tries: Tries) -> Completion | Declined:
        """Make one try of the call; raise ValueError if the answer could not be read back from a records file."""
        tries.begin(self.now().timestamp(), self.admission)
        try:
            generation = self.engine.generate(request)
        finally:
            tries.ended = self.now().timestamp()
        tries.answered = True
        from_json(Completion | Declined, to_json(generation))
        return generation


def _time_in_queue(queue_s: float | None, tries: Tries) -> float | None:
    """
    Return the seconds before the call was sent, with the waits for limits; None if unknown or 0.

    The wait for a scheduled start is no time in a queue; only the delay after it is.
    """
    if tries.due is not None:
        return tries.late
    return queue_s + tries.waited if queue_s is not None else tries.waited or None


def _changes_by_engine(before: Schema, after: Schema) -> tuple[Change, ...]:
    if before == after:
        return ()
    from pytest_jsbench.adaptation.engine_changes import changes_by_engine  # imported late: few engines need it

    return changes_by_engine(before, after)


def inexpressible(problem: Inexpressible) -> Declined:
    """Return the outcome for a schema that cannot be expressed in the engine's subset of JSON Schema."""
    message = f"{problem.keyword or 'schema'} at {problem.path or '/'}: {problem.message}; nothing was sent"
    return Declined(reason=DeclineReason.UNSUPPORTED_SCHEMA, message=message)


def name_tool_in_refusal(refusal: Declined, tool: str) -> Declined:
    """Return the refusal of a tool's schema with the name of the tool in its message."""
    return structs.replace(refusal, message=f"tool {printable(tool, 60)}: {refusal.message}")


def _name_tool(problem: Verdict, name: str) -> Verdict:
    """Return the problem of a schema with the name of the tool to which it belongs; empty for the case's schema."""
    return structs.replace(problem, message=f"tool {printable(name, 60)}: {problem.message}") if name else problem


def _error_text(error: BaseException) -> str:
    return str(error) if isinstance(error, JSBenchError) else f"{type(error).__name__}: {error}"


def schema_problem(case: BrokenCase) -> Verdict:
    """Return the verdict on a case whose schema cannot be used."""
    return Verdict(failure_type=FailureType.INVALID_SCHEMA, valid=None, reason=case.reason, message=case.problem)


def unmade_record(case: Case | BrokenCase, repeat: int, problem: Verdict) -> Record:
    """Return the record of an attempt that is not made because its schema cannot be used to judge an answer."""
    return Record.of(
        key=case.key,
        repeat=repeat,
        schema=case.schema if isinstance(case, Case) else None,
        offer=case.offer if isinstance(case, Case) else None,
        prompt=None,
        generation=None,
        verdict=problem,
    )
