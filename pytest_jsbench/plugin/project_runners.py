"""Makes the attempts of the project's tests: with the run's engine, or another that a test names."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from pytest_jsbench.adaptation.adapter import adapter
from pytest_jsbench.core.files import append_whole, json_line, locked, parse_json
from pytest_jsbench.core.generations import Completion, Failed
from pytest_jsbench.core.json_values import digest, from_json, to_json
from pytest_jsbench.engines.engine_secrets import build, check, prepare, public
from pytest_jsbench.engines.presets import subset_of
from pytest_jsbench.engines.registry import find, require_passing, sampled
from pytest_jsbench.records.outcomes import AttemptOutcome, Place
from pytest_jsbench.records.records import AnsweredBy, AskedBy, Attempt, Record
from pytest_jsbench.records.rejudging import judge_again
from pytest_jsbench.records.setting_differences import RECORDED, REMEMBERED
from pytest_jsbench.run.limits import Refused
from pytest_jsbench.run.record_keeper import AttemptResult, missing_attempt
from pytest_jsbench.verdicts import NO_TOOL_CALLED, UNDESCRIBED, FailureType, Verdict
from pytest_jsbench.verdicts.judge import judged_by

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.core.generations import GenerationParams
    from pytest_jsbench.engines.base import Engine, EngineConfig
    from pytest_jsbench.fixture.application_call import ApplicationCall
    from pytest_jsbench.fixture.conformance import HandedIn
    from pytest_jsbench.fixture.jsbench import Question
    from pytest_jsbench.plugin.context import RunContext
    from pytest_jsbench.records.records import Missing
    from pytest_jsbench.run.attempts import Runner
    from pytest_jsbench.settings.variants import Variant


NO_SCHEMA = Verdict(
    failure_type=FailureType.INVALID_SCHEMA,
    valid=None,
    reason=UNDESCRIBED,
    message="no schema describes the answer: the application's call carries none, and the test's marker names none",
)


TEXT_WITHOUT_SCHEMA = structs.replace(
    NO_SCHEMA,
    reason=NO_TOOL_CALLED,
    message="the model called none of the application's tools, and no schema describes its text",
)


class Heard(NamedTuple):
    """The result of an attempt, as it is written and shown, and as only its test sees it: with the answer's text."""

    outcome: AttemptResult
    result: Record | Missing


class StandingAnswers:
    """
    The answers to one test, for when a plugin runs the test again, or those that several tests look at.

    `ProjectTests` makes it when the test first asks for the fixture, and pytest keeps it on the item, over all runs of
    the test, until the session ends. Any thread of the test may call it. The same question is not asked twice: each run
    takes each answer once, and of `shared` ones there is one to each question.
    """

    def __init__(self, key: CaseKey, variant: str, *, test: str, line: int | None = None, shared: bool = False) -> None:
        #: of the first question
        self.key = key
        self.variant = variant
        #: the node id of the test, or what stands for it, and the line of its file from 1; None where that is not known
        self.test, self.line = test, line
        #: whether several tests know the answers, in all processes of the run
        self.shared = shared
        #: held while a shared answer is asked for, so that no other thread does
        self.asking = threading.Lock()
        self._heard: dict[Attempt, Heard] = {}
        #: the attempts that the present run of the test has taken or is making, and what is asked where it is shared
        self._taken: dict[Attempt, str] = {}
        self._lock = threading.Lock()

    def __contains__(self, attempt: Attempt) -> bool:
        """True for an attempt of which there is an answer."""
        with self._lock:
            return attempt in self._heard

    def begin(self) -> None:
        """Note that the test begins to run, for the first time or again; shared answers are of all tests."""
        with self._lock:
            if not self.shared:
                self._taken.clear()

    def take(self, question: Question, same: Callable[[Record], bool]) -> Heard | None:
        """Give the answer that an earlier run of the test got to this question; None where there is none."""
        first = Attempt(question.case.key, question.repeat, self.variant)
        with self._lock:
            for attempt in dict.fromkeys([first, *self._heard]):
                heard = self._heard.get(attempt)
                if heard is None or attempt.repeat != question.repeat or (attempt in self._taken and not self.shared):
                    continue
                if isinstance(heard.result, Record) and same(heard.result):
                    self._taken.setdefault(attempt, "")
                    return heard
        return None

    def number(self, question: Question) -> Question:
        """
        Give the question a key that no other attempt of the test has, so that no record replaces another.

        A shared one that was asked before, and has no answer yet, has the key that it had then.
        """
        wording = ""
        if self.shared and question.given is None:
            prompt = None if question.prompt is None else question.prompt.to_messages()
            wording = digest([question.case.schema, prompt, _json(question.terms.said())])
        key = self.key if self.shared else question.case.key
        with self._lock:
            numbers = (self.key.numbered(number) for number in itertools.count(2))
            for name in itertools.chain([key], numbers):
                attempt = Attempt(name, question.repeat, self.variant)
                before = self._taken.get(attempt)
                if attempt not in self._heard and (before is None or (wording and before == wording)):
                    self._taken[attempt] = wording
                    break
        return replace(question, case=replace(question.case, key=name))

    def keep(self, heard: Heard) -> None:
        """Keep an answer for the next run of the test; a broken call is no answer."""
        result = heard.result
        if isinstance(result, Record) and result.prompt is not None and not isinstance(result.generation, Failed):
            with self._lock:
                self._heard[result.attempt] = heard


class ProjectRunners:
    """
    Makes the attempts that the project's tests ask of one variant, each as the marker of its test says.

    `ProjectTests` makes one for each variant in every process. Tests enter `ask` through the fixture, in any thread,
    but no more attempts are made at once than the variant allows. Engines that a test names are built when first asked,
    and closed with the `resources`.
    """

    def __init__(self, context: RunContext, variant: Variant, resources: ExitStack) -> None:
        self._run = context.session
        #: whether recorded answers are asked, of whichever engine
        self._replays = context.plan.replay is not None
        self._variant = variant
        self._secrecy = context.secrecy
        self._window = threading.BoundedSemaphore(self._variant.concurrency)
        self._engines: dict[str, Engine] = {}
        self._lock = threading.Lock()
        self._resources = resources

    def ask(self, question: Question, standing: StandingAnswers) -> Heard:
        """Make one attempt, or find the answer that an earlier run of the test got to the same question."""
        asked_by = AskedBy(test=standing.test, line=standing.line, terms=self._terms(question))
        if question.given is not None:
            return self._take(standing.number(question), question.given, asked_by)
        runner = self._runner(question)
        if question.exchange is not None:  # always made, for its answer goes to the application
            return self._make(standing.number(question), runner, asked_by)
        same = partial(
            _asked_the_same, question=question, runner=runner, asked_by=asked_by, answered_by=self._other(runner)
        )
        with self._of_others(standing, runner) as tell:
            heard = standing.take(question, same)
            if heard is None:
                question = standing.number(question)
                heard = self._recorded(question, runner, same) or self._make(question, runner, asked_by)
                standing.keep(heard)
                tell(heard.outcome)
        return heard

    @contextlib.contextmanager
    def _of_others(self, standing: StandingAnswers, runner: Runner) -> Iterator[Callable[[AttemptResult], None]]:
        """Keep others from asking for the shared answer, and read what they have heard; yields what tells them."""
        if not standing.shared:
            yield lambda _: None
            return
        with standing.asking:
            if self._run.handover.redaction is not None:  # it leaves other processes no answer
                yield lambda _: None
                return
            name = digest([self._variant.name, standing.test]).rpartition(":")[2]
            with locked(self._run.handover.shared / f"answers.{name}.jsonl") as file:
                file.seek(0)
                text = file.read()
                size = text.rfind(b"\n") + 1
                file.truncate(size)  # who wrote the rest has died over it
                for line in text[:size].splitlines():
                    outcome = from_json(AttemptOutcome, parse_json(line))
                    if outcome.attempt not in standing:
                        record = judge_again(outcome.read(), runner.judge)
                        standing.keep(Heard(AttemptResult(result=outcome), record))

                def tell(result: AttemptResult) -> None:
                    outcome = result.result
                    if isinstance(outcome, AttemptOutcome) and isinstance(outcome.source, Place) and not outcome.failed:
                        with contextlib.suppress(OSError):  # they ask by themselves, then
                            append_whole(file, json_line(to_json(outcome)), size)

                yield tell

    def _recorded(self, question: Question, runner: Runner, same: Callable[[Record], bool]) -> Heard | None:
        """Take the result over from an earlier run, or from a process that has died."""
        attempt = Attempt(question.case.key, question.repeat, self._variant.name)
        records = self._run.recorded.of_test(attempt._replace(key=question.first))
        equal = [record for record in records if same(record)]
        if question.equal_before < len(equal):
            return Heard(*self._run.keeper.take_over(equal[question.equal_before], question.case))
        if self._run.handover.redaction is not None:  # a redacted record has no text for the test
            return None
        left = self._run.keeper.dead_worker_records.outcome(attempt)
        if left is None or left.failed or not same(record := left.read()):
            return None
        return Heard(AttemptResult(result=left), judge_again(record, runner.judge))

    def _make(self, question: Question, runner: Runner, asked_by: AskedBy) -> Heard:
        """
        Make the attempt and write its record; the result is missing where a limit forbids it.

        The answer to an application's own call is judged by the schema of each tool that the model called, or of the
        answer. One that no schema describes is excluded.
        """
        try:
            with self._window:
                record = runner.attempt(question.case, repeat=question.repeat)
        except Refused as refused:
            missing = missing_attempt(Attempt(question.case.key, question.repeat, self._variant.name), refused)
            return Heard(AttemptResult(result=missing), missing)
        if question.exchange is not None and isinstance(record.generation, Completion):
            schema = question.exchange.schema_for(record.generation)
            if schema is None:
                verdict = NO_SCHEMA if question.exchange.carried.tools is None else TEXT_WITHOUT_SCHEMA
                record = structs.replace(record.with_schema(None), verdict=verdict)
            else:
                record = judge_again(record.with_schema(schema), runner.judge)
                record = record.with_schema(judged_by(record.generation, record.verdict.tool, schema))
        return self._write(structs.replace(record, answered_by=record.answered_by or self._other(runner)), asked_by)

    def _take(self, question: Question, given: HandedIn, asked_by: AskedBy) -> Heard:
        """Write the record of an answer that the test hands in; no engine, limit or recording has a part in it."""
        answer = self._secrecy.out_of_answer(given.generation)
        judge, comparers = self._run.judge(), self._run.plan.comparers
        record = given.record(
            answer, question.case, question.prompt, repeat=question.repeat, judge=judge, comparers=comparers
        )
        return self._write(record, asked_by)

    def _write(self, record: Record, asked_by: AskedBy) -> Heard:
        return Heard(*self._run.keeper.write(structs.replace(record, asked_by=asked_by, variant=self._variant.name)))

    def _other(self, runner: Runner) -> AnsweredBy | None:
        """Name engine and model of the answer, where it is not the run's engine."""
        model = runner.origin.model
        if model is None and runner.engine is self._run.runner(self._variant.name).engine:
            return None
        return _answered_by(runner.engine, model)

    def _params(self, question: Question, config: EngineConfig) -> GenerationParams:
        """Read the sampling of the test."""
        params, run = self._variant.params, self._variant
        if config.name != run.engine.name and not self._replays and "max_tokens" not in run.said:
            params = replace(params, max_tokens=find(config.name).max_tokens)
        return question.terms.params(params)

    def _terms(self, question: Question) -> str:
        """Digest what decides an answer besides the question: engine and sampling, or who gave it."""
        if question.given is not None:
            return digest(asdict(question.given.by))
        config = question.terms.engine_config(self._variant.engine)
        params = self._params(question, config).of_repeat(question.repeat)
        sampling = {name: getattr(params, name) for name in ("max_tokens", "temperature", "seed")}
        exchange = {} if question.exchange is None else {"exchange": question.exchange.said}
        return digest({"engine": _json(public(config)), **sampling, **exchange})

    def _runner(self, question: Question) -> Runner:
        runner = self._run.runner(self._variant.name)
        prompt, terms, run = question.prompt, question.terms, self._variant
        if prompt is not None:
            runner = replace(runner, template=lambda _: prompt)
        config = terms.engine_config(run.engine)
        if config != run.engine and not self._replays:
            # that engine's context and prices, within the run's limits
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
            test=terms.said(),
        )
        engine_config = run.engine if self._replays else config
        if question.exchange is not None:
            params = terms.params(runner.params)
            return self._passing(replace(runner, origin=origin, params=params), engine_config, question.exchange)
        params = sampled(find(engine_config.name), engine_config, self._params(question, config))
        return replace(runner, params=params, origin=origin)

    def _passing(self, runner: Runner, config: EngineConfig, call: ApplicationCall) -> Runner:
        """Make the runner of an application's call: nothing of it is changed, and only the application tries again."""
        factory = find(config.name)
        require_passing(factory, config.name, call.path)
        # a server of ours has one model, whatever name it is asked by, and who answered then is known to the recording
        named = not factory.shared and config.name not in RECORDED
        model = call.model if named and call.model not in ("", runner.engine.info.model) else None
        by = _answered_by(runner.engine, model)
        return replace(
            runner,
            params=call.params(runner.params),
            adapter=None,
            context=None,
            origin=replace(runner.origin, exchange=call, model=model, test={**runner.origin.test, **call.said}),
            admission=runner.admission if model is None else self._run.admission(self._variant.name, by, config),
        )

    def _engine(self, config: EngineConfig) -> Engine:
        name = digest(_json(to_json(config)))  # it may be of a key, and so it is written nowhere
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
    # a marker's options may be any objects
    return json.dumps(value, sort_keys=True, default=repr)


def _asked_the_same(
    record: Record, question: Question, runner: Runner, asked_by: AskedBy, answered_by: AnsweredBy | None
) -> bool:
    """Tell whether a record answers the same question, asked of the same engine with the same sampling."""
    if record.asked_by is None or record.prompt is None or record.redacted is not None:  # a test needs the text
        return False
    remembered = record.answered_by is not None and record.answered_by.engine == REMEMBERED
    if record.answered_by != answered_by and not remembered:
        return False
    return (
        record.asked_by.terms == asked_by.terms
        and record.schema_digest == digest(question.case.schema)
        and record.prompt.digest == runner.template(question.case).digest
    )
