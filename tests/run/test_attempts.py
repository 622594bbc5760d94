from __future__ import annotations

import copy
import gc
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.adaptation import Adapted
from pytest_jsbench.adaptation.adapter import adapter
from pytest_jsbench.adaptation.rewriting import Rewriting
from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Prompt, PromptLength, estimate
from pytest_jsbench.core.errors import PromptError
from pytest_jsbench.core.generations import (
    CalledTool,
    CallError,
    Completion,
    Declined,
    EngineInfo,
    Failed,
    FaultKind,
    GenerationParams,
    Request,
    ResponseFormat,
    Sent,
    Usage,
)
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.secret_masking import Secrets
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.core.tool_offers import ExpectedCall, OfferedTool, ToolOffer
from pytest_jsbench.engines.base import CachedAnswer
from pytest_jsbench.engines.engine_secrets import RedactingEngine
from pytest_jsbench.prompts import PROMPTS
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import AnsweredBy, MissingReason, Record
from pytest_jsbench.records.rejudging import judge_again
from pytest_jsbench.run.attempts import Runner
from pytest_jsbench.run.call_layers import RETRIED
from pytest_jsbench.run.case_rewriter import CaseRewriter
from pytest_jsbench.run.limits import Admission, Estimate, LimitsFile, Refused
from pytest_jsbench.run.plan import RateLimits
from pytest_jsbench.schemas.dialects import DRAFT_2020_12
from pytest_jsbench.verdicts import FailureType, Judge, Note
from tests.support import examples
from tests.support.clock import Clock
from tests.support.examples import replace

KEY = CaseKey(task="t", id="c")
CASE = Case(key=KEY, schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


@dataclass(kw_only=True)
class Misbehaving:
    """An engine that fails a given number of times, and then answers."""

    faults: list[Exception] = field(default_factory=list)
    answer: Completion | Declined = field(default_factory=examples.completion)
    requests: list[Request] = field(default_factory=list)

    info = EngineInfo(engine="misbehaving", model="m", response_format=ResponseFormat.TEXT, streaming=False)

    def generate(self, request: Request) -> Completion | Declined:
        self.requests.append(request)
        if self.faults:
            raise self.faults.pop(0)
        return self.answer

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


def runner(engine: Misbehaving, judge: Judge, *, retries: int = 2) -> Runner:
    """Return a runner that retries without taking time."""
    return Runner(
        engine=engine,
        judge=judge,
        template=PROMPTS["schema"].render,
        params=GenerationParams(max_tokens=10),
        retries=retries,
        sleep=lambda _: None,
    )


def fault(kind: FaultKind, retry_after: float | None = 0.0) -> CallError:
    return CallError(kind, f"a {kind} fault", retry_after=retry_after)


def test_an_answer_becomes_a_judged_record(judge: Judge) -> None:
    record = runner(Misbehaving(), judge).attempt(CASE)

    assert record.verdict.passed
    assert record.prompt == PROMPTS["schema"].render(CASE)
    assert record.schema == CASE.schema
    assert (record.retries, record.queue_s) == (0, None)


@pytest.mark.parametrize("kind", sorted(FaultKind))
def test_only_transient_faults_are_retried(kind: FaultKind, judge: Judge) -> None:
    engine = Misbehaving(faults=[fault(kind)])

    record = runner(engine, judge).attempt(CASE)

    if kind in RETRIED:
        assert (record.verdict.passed, record.retries, len(engine.requests)) == (True, 1, 2)
    else:
        assert record.generation == Failed(kind=kind, message=f"a {kind} fault")
        assert (record.verdict.failure_type, record.verdict.valid) == (FailureType.API_ERROR, None)
        assert len(engine.requests) == 1


class Remembering(Misbehaving):
    """An engine with a cached answer to everything."""

    def remembered(self, request: Request) -> CachedAnswer | None:
        return CachedAnswer(answer=self.answer, model=f"m of {request.key}")


def test_cached_answer_needs_no_call_and_has_no_cost(judge: Judge, tmp_path: Path) -> None:
    engine = Remembering()
    limited = Admission(LimitsFile(tmp_path / "limits.db", RateLimits()))
    limited.stop(Refused(MissingReason.LIMIT, "spent"))

    record = replace(runner(engine, judge), admission=limited).attempt(CASE)

    assert (record.verdict.passed, engine.requests) == (True, [])
    assert record.answered_by == AnsweredBy(engine="recorded", model="m of t::c", provider=None)
    limited.close()


@pytest.fixture
def new_admission(tmp_path: Path) -> Iterator[Callable[..., Admission]]:
    """Create the limits of one process of a run, with pauses that take no time."""
    clock = Clock()
    with ExitStack() as opened:

        def make(**limits: float) -> Admission:
            shared = LimitsFile(tmp_path / "limits.db", RateLimits(**limits), clock=clock.read)
            admission = Admission(shared, provider="p", concurrency=4, clock=clock.read, wait=clock.wait)
            return opened.enter_context(closing(admission))

        yield make


@pytest.fixture
def admission(new_admission: Callable[..., Admission]) -> Admission:
    return new_admission()


def test_a_refusal_costs_time_and_no_try(judge: Judge, admission: Admission) -> None:
    engine = Misbehaving(faults=[fault(FaultKind.RATE_LIMITED) for _ in range(20)])

    record = replace(runner(engine, judge, retries=0), admission=admission).attempt(CASE)

    assert record.verdict.passed
    assert record.retries == 20


def test_after_refusals_a_call_waits_for_its_permit_alone(judge: Judge, tmp_path: Path) -> None:
    slept: list[float] = []
    shared = LimitsFile(tmp_path / "limits.db", RateLimits())
    admission = Admission(shared, provider="p", concurrency=4, wait=lambda _, seconds: slept.append(seconds))
    engine = Misbehaving(faults=[fault(FaultKind.RATE_LIMITED) for _ in range(20)])

    assert replace(runner(engine, judge), admission=admission).attempt(CASE).verdict.passed
    assert slept
    assert not any(slept)
    admission.close()


def test_call_refused_for_longer_than_the_patience_fails(judge: Judge, new_admission: Callable[..., Admission]) -> None:
    admission = new_admission(patience=0.0)
    engine = Misbehaving(faults=[fault(FaultKind.RATE_LIMITED, None)])

    record = replace(runner(engine, judge, retries=5), admission=admission).attempt(CASE)

    assert record.generation == Failed(kind=FaultKind.RATE_LIMITED, message="a rate_limited fault")


def test_tries_are_not_spent_on_a_provider_that_is_down_for_all(judge: Judge, admission: Admission) -> None:
    first = Misbehaving(faults=[fault(FaultKind.CONNECTION) for _ in range(10)])
    for _ in range(9):
        replace(runner(first, judge, retries=0), admission=admission).attempt(CASE)
    engine = Misbehaving(faults=[fault(FaultKind.CONNECTION) for _ in range(5)])

    record = replace(runner(engine, judge, retries=0), admission=admission).attempt(CASE)

    assert record.verdict.passed
    assert record.retries == 5


def test_run_that_gave_up_makes_no_more_attempts(judge: Judge, new_admission: Callable[..., Admission]) -> None:
    admission = new_admission(patience=0.0)
    engine = Misbehaving(faults=[fault(FaultKind.CONNECTION) for _ in range(99)])
    run = replace(runner(engine, judge, retries=20), admission=admission)

    assert run.attempt(CASE).generation == Failed(kind=FaultKind.CONNECTION, message="a connection fault")
    with pytest.raises(Refused) as refused:
        run.attempt(CASE)
    assert refused.value.reason is MissingReason.UNAVAILABLE
    assert len(engine.requests) == 10


@pytest.mark.parametrize(("beside", "hinted"), [(0, False), (1, True)])
def test_truncated_answer_among_other_calls_suggests_concurrency_1(
    judge: Judge, admission: Admission, beside: int, *, hinted: bool
) -> None:
    broken = CallError(FaultKind.BAD_RESPONSE, "truncated", was_truncated=True, retry_after=float("inf"))
    for _ in range(beside):
        admission.enter(lambda: Estimate(input_tokens=1, output_tokens=1, seconds=1))

    record = replace(runner(Misbehaving(faults=[broken]), judge), admission=admission).attempt(CASE)

    hint = " (2 calls were in flight; if single calls succeed, set --jsbench-concurrency=1)"
    assert isinstance(record.generation, Failed)
    assert record.generation.message == "truncated" + hint * hinted


def test_tries_end(judge: Judge) -> None:
    engine = Misbehaving(faults=[fault(FaultKind.SERVER) for _ in range(9)])

    record = runner(engine, judge, retries=1).attempt(CASE)

    assert isinstance(record.generation, Failed)
    assert record.retries == 1
    assert len(engine.requests) == 2


def test_a_provider_that_asks_to_wait_for_an_hour_is_not_waited_for(judge: Judge) -> None:
    engine = Misbehaving(faults=[fault(FaultKind.RATE_LIMITED, retry_after=3600)])

    assert isinstance(runner(engine, judge).attempt(CASE).generation, Failed)


def test_back_off_doubles_with_each_try(judge: Judge) -> None:
    slept: list[float] = []
    engine = Misbehaving(faults=[*[fault(FaultKind.TIMEOUT, None)] * 8, fault(FaultKind.TIMEOUT, 90.0)])

    patient = replace(runner(engine, judge, retries=20), sleep=slept.append, uniform=max)
    record = patient.attempt(CASE)

    assert slept == [0.5, 1, 2, 4, 8, 16, 30, 30, 90]
    assert (record.verdict.passed, record.retries) == (True, 9)


def test_an_engines_bug_is_the_engines_and_not_the_models(judge: Judge) -> None:
    record = runner(Misbehaving(faults=[ZeroDivisionError("division by zero")]), judge).attempt(CASE)

    assert record.generation == Failed(kind=FaultKind.ENGINE, message="ZeroDivisionError: division by zero")
    assert record.verdict.failure_type is FailureType.API_ERROR


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"usage": Usage(output_tokens=-1)}, "usage.output_tokens is -1: expected int >= 0"),
        ({"usage": Usage(output_tokens=2**60)}, "usage.output_tokens is 1152921504606846976: expected int <="),
        ({"timing": Timing(tgt=math.nan)}, "timing.tgt is NaN: expected float >= 0.0"),
        ({"reasoning": None}, "reasoning is null: expected str"),
        ({"finish_reason": "weird"}, 'finish_reason is "weird": invalid enum value'),
    ],
)
def test_unserializable_generation_is_an_engine_fault(
    parts: dict[str, Any], words: str, judge: Judge, tmp_path: Path
) -> None:
    engine = Misbehaving(answer=replace(examples.completion(), **parts))
    shared = LimitsFile(tmp_path / "limits.db", RateLimits(max_cost=1))
    with closing(Admission(shared, price=lambda _: 0.5)) as admission:
        record = replace(runner(engine, judge), admission=admission).attempt(CASE)
        assert shared.spent() == 0.5  # the call may have been charged for

    assert isinstance(record.generation, Failed)
    assert record.generation.kind is FaultKind.ENGINE
    assert words in record.generation.message
    assert Record.from_dict(record.to_dict()) == record
    assert len(engine.requests) == 1


def test_engine_that_mutates_the_schema_does_not_affect_the_verdict(judge: Judge) -> None:
    class MutatesSchema(Misbehaving):
        def generate(self, request: Request) -> Completion | Declined:
            assert isinstance(request.schema, dict)
            request.schema.clear()
            return examples.completion("{}")

    record = runner(MutatesSchema(), judge).attempt(CASE)

    assert isinstance(CASE.schema, Mapping)
    assert CASE.schema["required"] == ["n"]
    assert record.verdict.failure_type is FailureType.SCHEMA_VIOLATION


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (BrokenCase(key=KEY, problem="a.json: not JSON"), "not_json"),
        (BrokenCase(key=KEY, problem="a.json: 50,000,000 bytes", reason="too_large"), "too_large"),
        (Case(key=KEY, schema={"type": "intger"}), "metaschema"),
    ],
)
def test_invalid_schema_makes_no_call_and_keeps_its_reason(case: Case | BrokenCase, reason: str, judge: Judge) -> None:
    engine = Misbehaving()

    record = runner(engine, judge).attempt(case)

    assert (record.excluded, record.verdict.reason) == (True, reason)
    assert record.generation is None
    assert engine.requests == []


def test_a_case_that_brings_its_own_messages_is_asked_them_word_for_word(judge: Judge) -> None:
    engine = Misbehaving()
    own = (Message(role="system", content="{schema} stays"), Message(role="user", content="How many?"))

    record = runner(engine, judge).attempt(replace(CASE, messages=own, reference={"n": 3}, tags=("sums",)))

    assert engine.requests[0].prompt == record.prompt == Prompt(messages=own)
    assert (record.reference, record.tags) == ({"n": 3}, ("sums",))


UNIQUE = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 2}
OPEN = Case(key=KEY, schema={"type": "object", "properties": {"n": UNIQUE}})


def adapting(engine: Misbehaving, judge: Judge, mode: str) -> Runner:
    return replace(runner(engine, judge), adapter=adapter(mode))


def test_an_adapted_schema_is_sent_and_recorded_and_the_original_judged(judge: Judge) -> None:
    engine = Misbehaving(answer=examples.completion('{"n": 1, "more": 2}'))
    engine.answer = replace(engine.answer, sent=Sent(response_format=ResponseFormat.JSON_SCHEMA))
    before = copy.deepcopy(CASE.schema)

    record = adapting(engine, judge, "narrow:openai").attempt(CASE)

    (request,) = engine.requests
    assert isinstance(request.schema, Mapping)
    assert request.schema["additionalProperties"] is False
    assert isinstance(record.generation, Completion)
    assert record.generation.sent == Sent(response_format=ResponseFormat.JSON_SCHEMA, schema=request.schema)
    assert (record.schema, CASE.schema) == (before, before)
    assert ("tightened", "additionalProperties") in [(change.kind, change.keyword) for change in record.changes]
    assert record.verdict.valid is True
    assert Record.from_dict(json.loads(json.dumps(record.to_dict()))) == record.kept


def rewriting(engine: Misbehaving, judge: Judge, text: str) -> Runner:
    rewriter = CaseRewriter.of(Rewriting.parse(text), DRAFT_2020_12.uri)
    return replace(runner(engine, judge), rewriter=rewriter)


def test_rewritten_schema_is_prompted_and_sent_and_the_original_judges(judge: Judge) -> None:
    properties = {"n": {"$ref": "#/$defs/n"}, "m": {}}
    case = replace(CASE, schema={"type": "object", "properties": properties, "$defs": {"n": {"type": "integer"}}})
    completion = examples.completion('{"m": 2, "n": "x"}')
    for text, expected in (
        ("inline", {"n": {"type": "integer"}, "m": {}}),
        ("order", {"m": {}, "n": {"$ref": "#/$defs/n"}}),
    ):
        engine = Misbehaving(answer=replace(completion, sent=Sent(response_format=ResponseFormat.JSON_SCHEMA)))

        record = rewriting(engine, judge, text).attempt(case)

        (request,) = engine.requests
        assert isinstance(request.schema, Mapping)
        assert json.dumps(request.schema["properties"]) == json.dumps(expected)
        assert json.dumps(expected) in request.prompt.messages[-1].content
        assert isinstance(record.generation, Completion)
        assert record.generation.sent is not None
        assert json.dumps(record.generation.sent.schema) == json.dumps(request.schema)
        assert json.dumps(record.schema) == json.dumps(case.schema)
        assert [change.kind for change in record.changes] == ["inlined" if text == "inline" else "reordered"]
        assert [violation.schema_path for violation in record.verdict.violations] == ["/$defs/n/type"]


def test_order_of_an_answer_is_compared_with_the_order_that_was_sent(judge: Judge) -> None:
    case = replace(CASE, schema={"type": "object", "properties": {"n": {}, "m": {}}})
    kept = {}
    for answer in ('{"m": 1, "n": 1}', '{"n": 1, "m": 1}'):
        sent = Sent(response_format=ResponseFormat.JSON_SCHEMA)
        record = rewriting(Misbehaving(answer=replace(examples.completion(answer), sent=sent)), judge, "order").attempt(
            case
        )
        kept[answer] = (record.verdict.order_kept, judge_again(record, judge).verdict.order_kept)

    assert kept == {'{"m": 1, "n": 1}': (True, True), '{"n": 1, "m": 1}': (False, False)}


def test_case_that_cannot_be_rewritten_is_excluded_without_a_call(judge: Judge) -> None:
    engine = Misbehaving()

    record = rewriting(engine, judge, "inline").attempt(CASE)

    assert engine.requests == []
    assert (record.verdict.failure_type, record.verdict.reason) == (FailureType.INVALID_SCHEMA, "not_rewritten")
    assert record.verdict.message == "the schema has no $ref to inline"
    assert AttemptFacts.of(record).not_rewritten


def test_what_the_engine_itself_narrowed_is_among_the_changes(judge: Judge) -> None:
    assert isinstance(CASE.schema, Mapping)
    sent = Sent(response_format=ResponseFormat.JSON_SCHEMA, schema={**CASE.schema, "maxProperties": 9})

    record = runner(Misbehaving(answer=replace(examples.completion('{"n": 1}'), sent=sent)), judge).attempt(CASE)

    assert [(change.kind, change.keyword, change.note) for change in record.changes] == [
        ("tightened", "maxProperties", "set by the engine: 9")
    ]


def test_what_the_subset_cannot_say_is_unsupported_and_nothing_is_sent(judge: Judge) -> None:
    engine = Misbehaving()

    record = adapting(engine, judge, "narrow:openai").attempt(OPEN)

    assert engine.requests == []
    assert record.verdict.failure_type is FailureType.UNSUPPORTED_SCHEMA
    assert record.verdict.message.startswith("uniqueItems at /properties/n: ")
    assert record.verdict.message.endswith("; nothing was sent")


def test_an_answer_that_breaks_what_was_left_out_is_an_adaptation_loss(judge: Judge) -> None:
    engine = Misbehaving(answer=examples.completion('{"n": [1, 1]}'))

    record = adapting(engine, judge, "relax:openai").attempt(OPEN)

    assert record.verdict.failure_type is FailureType.SCHEMA_VIOLATION
    assert record.verdict.notes == (Note.ADAPTATION_LOSS,)
    assert ("widened", "uniqueItems") in [(change.kind, change.keyword) for change in record.changes]
    engine.answer = examples.completion('{"n": 1}')
    assert adapting(engine, judge, "relax:openai").attempt(OPEN).verdict.notes == ()


def test_a_bug_in_the_adaptation_is_one_attempts_fault(judge: Judge) -> None:
    def broken(_schema: object) -> Adapted:
        raise RecursionError("too deep")

    engine = Misbehaving()
    record = replace(runner(engine, judge), adapter=broken).attempt(CASE)

    assert engine.requests == []
    assert isinstance(record.generation, Failed)
    assert (record.generation.kind, record.generation.message) == (
        FaultKind.ENGINE,
        "the schema could not be adapted: RecursionError: too deep",
    )


def test_a_template_that_breaks_is_no_answer_and_no_call(judge: Judge) -> None:
    def broken(case: Case) -> Prompt:
        raise PromptError("prompt mine.j2: no such filter")

    engine = Misbehaving()

    record = replace(runner(engine, judge), template=broken).attempt(CASE)

    message = "nothing was sent: prompt mine.j2: no such filter"
    assert record.generation == Failed(kind=FaultKind.BAD_REQUEST, message=message)
    assert (record.prompt, record.prompt_length, engine.requests) == (None, None, [])
    assert Record.from_dict(json.loads(json.dumps(record.to_dict()))) == record


@pytest.mark.parametrize(("context", "sent"), [(None, True), (28, False), (29, True)])
def test_a_prompt_that_leaves_no_room_is_declined_without_a_call(context: int | None, sent: bool, judge: Judge) -> None:
    engine = Misbehaving()
    asked = replace(runner(engine, judge), context=context, template=lambda _: _prompt("abcd " * 22))

    record = asked.attempt(CASE)

    assert record.prompt_length == PromptLength(tokens=28, exact=False)
    assert bool(engine.requests) is sent
    if not sent:
        assert isinstance(record.generation, Declined)
        assert record.verdict.failure_type is FailureType.UNSUPPORTED_SCHEMA
        assert record.verdict.reason == "context_length"
        assert "about 28 tokens, and the model's context has 28; nothing was sent" in record.verdict.message


def test_an_engine_that_counts_tokens_is_believed(judge: Judge) -> None:
    class Counting(Misbehaving):
        def count_tokens(self, prompt: Prompt) -> int | None:
            return 1000 if "object" in prompt.messages[0].content else None

    engine = Counting()

    long = replace(runner(engine, judge), context=1000).attempt(CASE)
    unknown = replace(runner(engine, judge), context=1000, template=lambda _: _prompt("?")).attempt(CASE)

    assert long.prompt_length == PromptLength(tokens=1000, exact=True)
    assert "the prompt has 1,000 tokens, and" in long.verdict.message
    assert unknown.prompt_length == PromptLength(tokens=1, exact=False)
    assert len(engine.requests) == 1


def test_a_count_that_breaks_is_that_attempts_fault_and_no_call_is_made(judge: Judge) -> None:
    class Counting(Misbehaving):
        def count_tokens(self, prompt: Prompt) -> int | None:
            raise ZeroDivisionError(len(prompt.messages))

    engine = Counting()

    record = runner(engine, judge).attempt(CASE)

    assert isinstance(record.generation, Failed)
    assert record.generation.kind is FaultKind.ENGINE
    assert "could not be counted: ZeroDivisionError: 1; nothing was sent" in record.generation.message
    assert record.prompt_length is None
    assert not engine.requests


def test_an_indentation_is_not_taken_for_many_tokens() -> None:
    assert estimate(_prompt('{\n        "a":\t\t1}')).tokens == estimate(_prompt('{ "a": 1}')).tokens == 3
    assert estimate(_prompt(" \n".join(["four"] * 100_000) + "\n ")).tokens == 125_000


def _prompt(text: str) -> Prompt:
    return Prompt(messages=(Message(role="user", content=text),))


def test_answer_is_kept_unjudged_if_the_judge_runs_out_of_memory(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = Admission(LimitsFile(tmp_path / "limits.db", RateLimits()))
    limited = replace(runner(Misbehaving(), judge), admission=admission)

    def broken(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(Judge, "judge", broken)
        record = limited.attempt(CASE)

    assert isinstance(record.generation, Completion)
    assert (record.verdict.failure_type, record.verdict.reason) == (FailureType.UNJUDGED, "exhausted")
    assert judge_again(record, judge).verdict.passed
    with pytest.raises(Refused, match="out of memory"):
        limited.attempt(CASE)


def test_an_engine_that_runs_out_of_memory_ends_the_calls_and_says_so(judge: Judge, tmp_path: Path) -> None:
    engine = Misbehaving(faults=[MemoryError()])
    admission = Admission(LimitsFile(tmp_path / "limits.db", RateLimits()))
    limited = replace(runner(engine, judge), engine=RedactingEngine(engine, Secrets()), admission=admission)

    record = limited.attempt(CASE)

    assert isinstance(record.generation, Failed)
    assert record.generation.message.startswith("out of memory")
    with pytest.raises(Refused, match="out of memory") as refused:
        limited.attempt(CASE)
    assert refused.value.reason is MissingReason.EXHAUSTED


def test_an_attempt_leaves_nothing_to_the_collection_of_cycles(judge: Judge) -> None:
    asked = runner(Misbehaving(), judge)
    asked.attempt(CASE)  # loads the modules that are imported late
    gc.disable()
    gc.freeze()  # existing objects are not counted
    try:
        asked.attempt(CASE)
        assert gc.collect() == 0
    finally:
        gc.unfreeze()
        gc.enable()


TOOL = OfferedTool(name="order", parameters={"type": "object", "properties": {"n": UNIQUE}})
OFFERING = Case(
    key=KEY,
    schema=True,
    messages=(Message(role="user", content="Order!"),),
    offer=ToolOffer(tools=(TOOL,), expected=(ExpectedCall(name="order"),)),
)


def calling(arguments: str) -> Misbehaving:
    answer = replace(examples.completion(arguments), calls=(CalledTool(name="order", arguments=arguments),))
    engine = Misbehaving(answer=answer)
    engine.info = replace(engine.info, offers_tools=True)
    return engine


def test_the_schemas_of_offered_tools_are_adapted_and_the_originals_judge(judge: Judge) -> None:
    engine = calling('{"n": [1, 1]}')

    record = adapting(engine, judge, "relax:openai").attempt(OFFERING)

    (request,) = engine.requests
    assert request.offer is not None
    (sent,) = request.offer.tools
    assert isinstance(sent.parameters, Mapping)
    assert "uniqueItems" not in json.dumps(sent.parameters)
    assert record.offer == OFFERING.offer
    assert (record.verdict.failure_type, record.verdict.keyword) == ("schema_violation", "uniqueItems")
    assert ("widened", "uniqueItems", "/tools/order/properties/n") in [
        (change.kind, change.keyword, change.path) for change in record.changes
    ]
    assert Note.ADAPTATION_LOSS in record.verdict.notes


def test_a_tool_that_cannot_be_expressed_is_declined_by_name(judge: Judge) -> None:
    engine = calling("{}")
    record = adapting(engine, judge, "narrow:openai").attempt(OFFERING)
    assert engine.requests == []
    assert record.verdict.failure_type == "unsupported_schema"
    assert record.verdict.message.startswith("tool order: uniqueItems at /properties/n: ")


def test_a_tool_with_an_invalid_schema_is_named_and_the_attempt_excluded(judge: Judge) -> None:
    broken = replace(OFFERING, offer=ToolOffer(tools=(replace(TOOL, parameters={"type": "objekt"}),)))
    record = runner(calling("{}"), judge).attempt(broken)
    assert record.excluded
    assert record.verdict.message.startswith("tool order: ")


def test_order_of_a_tool_call_is_unknown_if_another_order_was_sent(judge: Judge) -> None:
    tool = replace(TOOL, parameters={"type": "object", "properties": {"n": {}, "m": {}}})
    case = replace(OFFERING, offer=ToolOffer(tools=(tool,)))
    engine = calling('{"m": 1, "n": 1}')
    engine.answer = replace(engine.answer, sent=Sent(response_format=ResponseFormat.JSON_SCHEMA))

    record = rewriting(engine, judge, "order").attempt(case)
    unchanged = runner(engine, judge).attempt(case)

    assert record.verdict.passed
    assert [change.path for change in record.changes] == ["/tools/order"]
    assert [each.verdict.order_kept for each in (record, judge_again(record, judge), unchanged)] == [None, None, False]


def test_schema_of_the_text_is_not_recorded_as_sent_if_only_tools_are_rewritten(judge: Judge) -> None:
    tool = replace(TOOL, parameters={"type": "object", "properties": {"n": {}, "m": {}}})
    engine = calling("{}")
    engine.answer = replace(engine.answer, sent=Sent(response_format=ResponseFormat.JSON_SCHEMA))

    record = rewriting(engine, judge, "order").attempt(replace(OFFERING, offer=ToolOffer(tools=(tool,))))

    assert record.changes
    assert isinstance(record.generation, Completion)
    assert record.generation.sent == engine.answer.sent


def test_the_choice_of_the_run_is_sent_and_recorded(judge: Judge) -> None:
    engine = calling('{"n": [1, 2]}')
    chosen = replace(runner(engine, judge), params=GenerationParams(max_tokens=10, tool_choice="none"))
    record = chosen.attempt(OFFERING)
    (request,) = engine.requests
    assert request.offered is not None
    assert request.offered.choice == "none"
    assert record.verdict.failure_type == "wrong_tool"
    assert record.offered is not None
    assert (record.offered.choice, record.schema_digest) == ("none", OFFERING.digest)
