"""Make the attempts of the project's tests, with the run's engine or the engine that a test's marker names."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from pytest_jsbench.adaptation.adapter import adapter
from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.files import append_whole, json_line, open_locked, parse_json
from pytest_jsbench.core.generations import SAMPLING, Completion, Failed
from pytest_jsbench.core.json_values import digest, from_json, to_json
from pytest_jsbench.engines.engine_secrets import build, check, prepare, public
from pytest_jsbench.engines.presets import subset_of
from pytest_jsbench.engines.registry import find, require_forwarding, resolve_sampling
from pytest_jsbench.records.facts import AttemptFacts, Place
from pytest_jsbench.records.records import AnsweredBy, AskedBy, Attempt, Record
from pytest_jsbench.records.rejudging import judge_again
from pytest_jsbench.records.setting_differences import RECORDED, REMEMBERED
from pytest_jsbench.run.question import EarlierAnswers, Question
from pytest_jsbench.run.record_keeper import Answered, AttemptResult
from pytest_jsbench.verdicts import NO_TOOL_CALLED, UNDESCRIBED, FailureType, Verdict
from pytest_jsbench.verdicts.judge import find_judging_schema

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pytest_jsbench.core.cases import BrokenCase, CaseKey, Prompt
    from pytest_jsbench.core.generations import GenerationParams
    from pytest_jsbench.engines.base import Engine, EngineConfig
    from pytest_jsbench.fixture.application_call import ApplicationCall
    from pytest_jsbench.fixture.conformance import ExternalAnswer
    from pytest_jsbench.fixture.jsbench import FixtureQuestion
    from pytest_jsbench.plugin.context import RunContext
    from pytest_jsbench.run.attempts import Runner
    from pytest_jsbench.run.question import AttemptMaker
    from pytest_jsbench.run.variants import Variant
    from pytest_jsbench.values import Comparer
    from pytest_jsbench.verdicts import Judge


NO_SCHEMA = Verdict(
    failure_type=FailureType.INVALID_SCHEMA,
    valid=None,
    reason=UNDESCRIBED,
    message="the answer has no schema: neither the application's call nor the test's marker contains one",
)


TEXT_WITHOUT_SCHEMA = structs.replace(
    NO_SCHEMA,
    reason=NO_TOOL_CALLED,
    message="the model called none of the application's tools, and there is no schema for a text answer",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectTestRunner:
    """Makes the attempts of a project's test with one engine, within the concurrency of the variant."""

    runner: Runner
    #: Limits the number of concurrent attempts.
    window: threading.BoundedSemaphore
    #: The engine and model of the answers if they are not the run's.
    answered_by: AnsweredBy | None
    #: The call that an application makes; None if the test itself asks.
    exchange: ApplicationCall | None

    def attempt(self, case: Case | BrokenCase, *, repeat: int, planned_at: float | None) -> Record:
        """
        Make one attempt; raise Refused if a call is not allowed.

        The answer to an application's own call is judged by the schema of each tool that the model called, or by the
        schema of the answer. An answer without a schema is excluded.
        """
        with self.window:
            record = self.runner.attempt(case, repeat=repeat, planned_at=planned_at)
        if self.exchange is not None and isinstance(record.generation, Completion):
            schema = self.exchange.schema_for(record.generation)
            if schema is None:
                verdict = NO_SCHEMA if self.exchange.carried.tools is None else TEXT_WITHOUT_SCHEMA
                record = structs.replace(record.with_schema(None), verdict=verdict)
            else:
                record = judge_again(record.with_schema(schema), self.runner.judge)
                record = record.with_schema(find_judging_schema(record.generation, record.verdict.tool, schema))
        return structs.replace(record, answered_by=record.answered_by or self.answered_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalAnswerRunner:
    """Makes an attempt of an answer that a test passes; no engine, limit or recording is involved."""

    given: ExternalAnswer
    prompt: Prompt | None
    judge: Judge
    comparers: Mapping[str, Comparer]

    def attempt(self, case: Case | BrokenCase, *, repeat: int, planned_at: float | None) -> Record:  # noqa: ARG002  AttemptMaker has it
        """Judge the answer."""
        assert isinstance(case, Case)
        return self.given.record(case, self.prompt, repeat=repeat, judge=self.judge, comparers=self.comparers)


class TestAnswers:
    """
    The answers that one test has received, for reuse if a plugin runs the test again; or answers that tests share.

    `ProjectTests` creates the object when the test first requests the fixture; pytest keeps it on the item, across all
    runs of the test, until the session ends. The object is thread-safe. It prevents repeated calls: each run of the
    test uses each answer once, and all tests use the same answer to a `shared` question.
    """

    def __init__(self, key: CaseKey, variant: str, *, test: str, line: int | None = None, shared: bool = False) -> None:
        #: Key of the first question.
        self.key = key
        self.variant = variant
        #: Node id of the test, or a name for shared answers.
        self.test = test
        #: Line in the test's file, counted from 1; None if unknown.
        self.line = line
        #: Whether several tests, in all processes of the run, share the answers.
        self.shared = shared
        #: Lock that a thread holds while it requests a shared answer, so that no other thread makes the same call.
        self.calling = threading.Lock()
        self._seen: dict[Attempt, Answered] = {}
        #: Attempts that the current run of the test has used or is making, each with a digest of the question if
        #: answers are shared.
        self._taken: dict[Attempt, str] = {}
        self._lock = threading.Lock()

    def __contains__(self, attempt: Attempt) -> bool:
        """Return whether the attempt has an answer."""
        with self._lock:
            return attempt in self._seen

    def begin(self) -> None:
        """Begin a run of the test: its earlier answers may be used again. Nothing changes for shared answers."""
        with self._lock:
            if not self.shared:
                self._taken.clear()

    def take(self, question: FixtureQuestion, same: Callable[[Record], bool]) -> Answered | None:
        """Return the answer to this question that an earlier run of the test received, if any."""
        first = Attempt(question.case.key, question.repeat, self.variant)
        with self._lock:
            for attempt in dict.fromkeys([first, *self._seen]):
                seen = self._seen.get(attempt)
                if seen is None or attempt.repeat != question.repeat or (attempt in self._taken and not self.shared):
                    continue
                if seen.record is not None and same(seen.record):
                    self._taken.setdefault(attempt, "")
                    return seen
        return None

    def number(self, question: FixtureQuestion) -> FixtureQuestion:
        """
        Return the question with a case key that is unique in the test, so that no record replaces another.

        A shared question that was sent before without an answer keeps its key.
        """
        wording = ""
        if self.shared and question.given is None:
            prompt = None if question.prompt is None else question.prompt.to_messages()
            wording = digest([question.case.schema, prompt, _json(question.terms.recorded_settings())])
        key = self.key if self.shared else question.case.key
        with self._lock:
            numbers = (self.key.numbered(number) for number in itertools.count(2))
            for name in itertools.chain([key], numbers):
                attempt = Attempt(name, question.repeat, self.variant)
                before = self._taken.get(attempt)
                if attempt not in self._seen and (before is None or (wording and before == wording)):
                    self._taken[attempt] = wording
                    break
        return replace(question, case=replace(question.case, key=name))

    def keep(self, seen: Answered) -> None:
        """Keep an answer for the next run of the test; the result of a failed call is not kept."""
        record = seen.record
        if record is not None and record.prompt is not None and not isinstance(record.generation, Failed):
            with self._lock:
                self._seen[record.attempt] = seen


class ProjectRunners:
    """
    Makes the attempts of the project's tests for one variant, each with the arguments of the test's marker.

    `ProjectTests` creates one object for each variant in every process. Tests call `answer` through the fixture, in any
    thread; the variant's concurrency limits the number of concurrent attempts. An engine that a marker names is created
    at first use, and closed with the `resources`.
    """

    def __init__(self, context: RunContext, variant: Variant, resources: ExitStack) -> None:
        self._run = context.session
        #: Whether recorded answers are replayed; engines that markers name are then not called.
        self._replays = context.plan.replay is not None
        self._variant = variant
        self._secrecy = context.secrecy
        self._window = threading.BoundedSemaphore(self._variant.concurrency)
        self._engines: dict[str, Engine] = {}
        self._lock = threading.Lock()
        self._resources = resources

    def answer(self, question: FixtureQuestion, answers: TestAnswers) -> Answered:
        """Make one attempt, or return the answer to the same question that an earlier run of the test received."""
        asked_by = AskedBy(test=answers.test, line=answers.line, terms=self._terms(question))
        if question.given is not None:
            return self._ask(answers.number(question), self._external_runner(question, question.given), asked_by)
        runner = self._runner(question)
        maker = ProjectTestRunner(
            runner=runner,
            window=self._window,
            answered_by=self._other_engine(runner),
            exchange=question.exchange,
        )
        if question.exchange is not None:  # the call is always made, since the answer goes to the application
            return self._ask(answers.number(question), maker, asked_by)
        same = partial(_is_same_question, question=question, maker=maker, asked_by=asked_by)
        earlier = EarlierAnswers(first=question.first, equal_before=question.equal_before, is_same=same)
        with self._sharing(answers, runner) as share:
            seen = answers.take(question, same)
            if seen is None:
                seen = self._ask(answers.number(question), maker, asked_by, earlier)
                answers.keep(seen)
                share(seen.result)
        return seen

    def _ask(
        self,
        question: FixtureQuestion,
        maker: AttemptMaker,
        asked_by: AskedBy,
        earlier: EarlierAnswers | None = None,
    ) -> Answered:
        attempt = Attempt(question.case.key, question.repeat, self._variant.name)
        asked = Question(attempt=attempt, case=question.case, maker=maker, asked_by=asked_by, earlier=earlier)
        return self._run.ask(asked)

    @contextlib.contextmanager
    def _sharing(self, answers: TestAnswers, runner: Runner) -> Iterator[Callable[[AttemptResult], None]]:
        """
        Lock a shared answer against other processes, and read the answers that they have shared; yield a function that
        shares a new answer.
        """
        if not answers.shared:
            yield lambda _: None
            return
        with answers.calling:
            # With --jsbench-redact, answers are not written to disk, so other processes cannot use them.
            if self._run.handover.redaction is not None:
                yield lambda _: None
                return
            name = digest([self._variant.name, answers.test]).rpartition(":")[2]
            with open_locked(self._run.handover.shared / f"answers.{name}.jsonl") as file:
                file.seek(0)
                text = file.read()
                size = text.rfind(b"\n") + 1
                file.truncate(size)  # remove an incomplete line, left by a process that died
                for line in text[:size].splitlines():
                    outcome = from_json(AttemptFacts, parse_json(line))
                    if outcome.attempt not in answers:
                        record = judge_again(outcome.read(), runner.judge)
                        answers.keep(Answered(AttemptResult(result=outcome), record))

                def share(result: AttemptResult) -> None:
                    outcome = result.result
                    if isinstance(outcome, AttemptFacts) and isinstance(outcome.source, Place) and not outcome.failed:
                        with contextlib.suppress(OSError):  # other processes will make the call again
                            append_whole(file, json_line(to_json(outcome)), size)

                yield share

    def _external_runner(self, question: FixtureQuestion, given: ExternalAnswer) -> ExternalAnswerRunner:
        """Return the runner for an answer that the test passes, without the run's secrets."""
        return ExternalAnswerRunner(
            given=replace(given, generation=self._secrecy.mask_answer(given.generation)),
            prompt=question.prompt,
            judge=self._run.judge(),
            comparers=self._run.plan.comparers,
        )

    def _other_engine(self, runner: Runner) -> AnsweredBy | None:
        """Return the engine and model of the answer if they differ from the variant's; otherwise return None."""
        model = runner.origin.model
        if model is None and runner.engine is self._run.runner(self._variant.name).engine:
            return None
        return _answered_by(runner.engine, model)

    def _params(self, question: FixtureQuestion, config: EngineConfig) -> GenerationParams:
        """Return the sampling parameters of the test."""
        params = self._variant.params
        run = self._variant
        if config.name != run.engine.name and not self._replays and "max_tokens" not in run.user_settings:
            params = replace(params, max_tokens=find(config.name).max_tokens)
        return question.terms.params(params)

    def _terms(self, question: FixtureQuestion) -> str:
        """
        Return a digest of everything that affects an answer except the question: engine and sampling, or the origin of
        a passed answer.
        """
        if question.given is not None:
            return digest(asdict(question.given.by))
        config = question.terms.engine_config(self._variant.engine)
        params = self._params(question, config).with_repeat(question.repeat)
        sampling = {name: getattr(params, name) for name in SAMPLING}
        exchange = {} if question.exchange is None else {"exchange": question.exchange.recorded_settings}
        return digest({"engine": _json(public(config)), **sampling, **exchange})

    def _runner(self, question: FixtureQuestion) -> Runner:
        runner = self._run.runner(self._variant.name)
        prompt = question.prompt
        terms = question.terms
        run = self._variant
        if prompt is not None:
            runner = replace(runner, template=lambda _: prompt)
        config = terms.engine_config(run.engine)
        if config != run.engine and not self._replays:
            # use the context length and prices of the other engine; the run's limits still apply
            engine = self._engine(config)
            admission = self._run.admission(run.name, _answered_by(engine), config)
            runner = replace(runner, engine=engine, context=run.context or engine.info.context, admission=admission)
            mode, _, _ = run.adapt.partition(":")
            if mode != "verbatim" and (subset := subset_of(config.name)) is not None:
                runner = replace(runner, adapter=adapter(f"{mode}:{subset}"))
        origin = replace(
            runner.origin,
            first=question.first,
            equal_before=question.equal_before,
            same_before=question.same_before,
            test=terms.recorded_settings(),
        )
        engine_config = run.engine if self._replays else config
        if question.exchange is not None:
            params = terms.params(runner.params)
            return self._passing_runner(replace(runner, origin=origin, params=params), engine_config, question.exchange)
        params = resolve_sampling(find(engine_config.name), engine_config, self._params(question, config))
        return replace(runner, params=params, origin=origin)

    def _passing_runner(self, runner: Runner, config: EngineConfig, call: ApplicationCall) -> Runner:
        """
        Return the runner for a call by an application. The call is forwarded unchanged, and only the application
        retries it.
        """
        factory = find(config.name)
        require_forwarding(factory, config.name, call.path)
        # a local server answers with its only model under any name; a recording contains the model's name
        named = not factory.shared and config.name not in RECORDED
        model = call.model if named and call.model not in ("", runner.engine.info.model) else None
        by = _answered_by(runner.engine, model)
        return replace(
            runner,
            params=call.params(runner.params),
            adapter=None,
            context=None,
            origin=replace(
                runner.origin, exchange=call, model=model, test={**runner.origin.test, **call.recorded_settings}
            ),
            admission=runner.admission if model is None else self._run.admission(self._variant.name, by, config),
        )

    def _engine(self, config: EngineConfig) -> Engine:
        # the configuration may contain an API key, so use a digest as the key of the dictionary
        name = digest(_json(to_json(config)))
        with self._lock:
            if name not in self._engines:
                factory = find(config.name)
                self._secrecy.add(config)
                check(factory, config)
                prepared = self._resources.enter_context(prepare(factory, config))
                engine = self._run.recording(self._variant.name, build(factory, prepared, self._variant.engine))
                self._resources.callback(engine.close)
                self._engines[name] = engine
            return self._engines[name]


def _answered_by(engine: Engine, model: str | None = None) -> AnsweredBy:
    return AnsweredBy(engine=engine.info.engine, model=model or engine.info.model, provider=engine.info.provider)


def _json(value: object) -> str:
    # engine options in a marker may be objects of any type, hence `default`
    return json.dumps(value, sort_keys=True, default=repr)


def _is_same_question(record: Record, question: FixtureQuestion, maker: ProjectTestRunner, asked_by: AskedBy) -> bool:
    """Return whether a record answers the same question, from the same engine with the same sampling parameters."""
    # the test needs the text of the answer, which a redacted record does not contain
    if record.asked_by is None or record.prompt is None or record.redacted is not None:
        return False
    remembered = record.answered_by is not None and record.answered_by.engine == REMEMBERED
    if record.answered_by != maker.answered_by and not remembered:
        return False
    return (
        record.asked_by.terms == asked_by.terms
        and record.schema_digest == digest(question.case.schema)
        and record.prompt.digest == maker.runner.template(question.case).digest
    )
