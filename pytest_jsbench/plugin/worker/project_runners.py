"""Makes the attempts of the project's tests: with the run's engine, or another that a test names."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_jsbench.adaptation.adapter import adapter
from pytest_jsbench.core.files import append_whole, locked
from pytest_jsbench.core.generations import Completion, Failed
from pytest_jsbench.core.json_values import digest, to_json
from pytest_jsbench.engines.presets import subset_of
from pytest_jsbench.engines.registry import find, require_passing, sampled
from pytest_jsbench.engines.secrets import build, check, public
from pytest_jsbench.fixture.handed_in import record_of
from pytest_jsbench.runner.limits import Refused
from pytest_jsbench.runner.record_keeper import AttemptResult, missed
from pytest_jsbench.runs.outcomes import AttemptOutcome, Place
from pytest_jsbench.runs.records import AnsweredBy, AskedBy, Attempt, Record
from pytest_jsbench.runs.rejudging import judge_again
from pytest_jsbench.runs.settings import RECORDED, REMEMBERED
from pytest_jsbench.verdicts import UNDESCRIBED, FailureType, SchemaProblem
from pytest_jsbench.verdicts.judge import judged_by

if TYPE_CHECKING:
    from contextlib import ExitStack
    from io import FileIO

    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.core.generations import GenerationParams
    from pytest_jsbench.engines.base import Engine, EngineConfig
    from pytest_jsbench.fixture.application_call import ApplicationCall
    from pytest_jsbench.fixture.handed_in import HandedIn
    from pytest_jsbench.fixture.jsbench import Question
    from pytest_jsbench.plugin.session.context import RunContext
    from pytest_jsbench.plugin.session.secrecy import Secrecy
    from pytest_jsbench.runner.attempts import Runner
    from pytest_jsbench.runs.records import Missing, OwnOutcome
    from pytest_jsbench.settings.variant import Variant


NO_SCHEMA = SchemaProblem(
    failure_type=FailureType.INVALID_SCHEMA,
    reason=UNDESCRIBED,
    message="no schema describes the answer: the application's call carries none, and the test's marker names none",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFrom:
    """The place of a test of the project."""

    #: its node id
    test: str
    #: of its file, from 1; None where pytest does not know
    line: int | None
    #: by which several tests know the answer, in all processes of the run; empty: it is the answer to one test
    shared: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The result of one attempt."""

    #: as it is written and shown
    outcome: AttemptResult
    #: as only its test sees it, with the answer's text
    result: Record | Missing


class StandingAnswers:
    """
    The answers to one test, for when a plugin runs the test again, or those that several tests look at.

    `ProjectTests` makes it when the test first asks for the fixture, and pytest keeps it on the item, over all runs of
    the test, until the session ends. Any thread of the test may call it. The same question is not asked twice: each run
    takes each answer once, and of `shared` ones there is one to each question.
    """

    def __init__(self, key: CaseKey, variant: str, *, shared: bool = False) -> None:
        #: of the first question
        self.key = key
        #: held while a shared answer is asked for, so that no other thread does
        self.asking = threading.Lock()
        self._variant = variant
        self._shared = shared
        self._heard: dict[Attempt, Heard] = {}
        #: the attempts that the present run of the test has taken or is making, and what is asked where it is shared
        self._taken: dict[Attempt, str] = {}
        self._lock = threading.Lock()

    def __contains__(self, attempt: Attempt) -> bool:
        """Whether there is an answer of this attempt."""
        with self._lock:
            return attempt in self._heard

    def begin(self) -> None:
        """The test begins to run, for the first time or again; shared answers are of all tests."""
        with self._lock:
            if not self._shared:
                self._taken.clear()

    def take(self, question: Question, same: Callable[[Record], bool]) -> Heard | None:
        """The answer that an earlier run of the test got to this question; None where there is none."""
        first = Attempt(question.case.key, question.repeat, self._variant)
        with self._lock:
            for attempt in dict.fromkeys([first, *self._heard]):
                heard = self._heard.get(attempt)
                if heard is None or attempt.repeat != question.repeat or (attempt in self._taken and not self._shared):
                    continue
                if isinstance(heard.result, Record) and same(heard.result):
                    self._taken.setdefault(attempt, "")
                    return heard
        return None

    def number(self, question: Question) -> Question:
        """
        The question with a key that no other attempt of the test has, so that no record replaces another.

        A shared one that was asked before, and has no answer yet, has the key that it had then.
        """
        asked = _said(question) if self._shared and question.given is None else ""
        key = self.key if self._shared else question.case.key
        with self._lock:
            numbers = (self.key.numbered(number) for number in itertools.count(2))
            for name in itertools.chain([key], numbers):
                attempt = Attempt(name, question.repeat, self._variant)
                before = self._taken.get(attempt)
                if attempt not in self._heard and (before is None or (asked and before == asked)):
                    self._taken[attempt] = asked
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
    and `close`, a cleanup of pytest's configuration, ends them.
    """

    def __init__(self, context: RunContext, variant: Variant, secrecy: Secrecy) -> None:
        self._run = context.session
        #: whether recorded answers are asked, of whichever engine
        self._replays = context.plan.replay is not None
        self._variant = variant
        self._secrecy = secrecy
        self._window = threading.BoundedSemaphore(self._variant.concurrency)
        self._engines: dict[str, Engine] = {}
        self._lock = threading.Lock()
        self._resources: ExitStack = contextlib.ExitStack()

    def ask(self, question: Question, *, asked_from: AskedFrom, standing: StandingAnswers) -> Heard:
        """Make one attempt, or find the answer that an earlier run of the test got to the same question."""
        if question.given is not None:
            return self._take(standing.number(question), question.given, asked_from)
        runner = self._runner(question)
        if question.exchange is not None:
            return self._pass_on(standing.number(question), runner, asked_from)
        asked_by = AskedBy(test=asked_from.test, line=asked_from.line, terms=self._terms(question))
        same = partial(
            _asked_the_same, question=question, runner=runner, asked_by=asked_by, answered_by=self._other(runner)
        )
        with self._of_others(asked_from, standing, runner) as tell:
            if (heard := standing.take(question, same)) is not None:
                return heard
            heard = self._new(standing.number(question), runner, asked_by, same)
            standing.keep(heard)
            tell(heard.outcome)
        return heard

    @contextlib.contextmanager
    def _of_others(
        self, asked_from: AskedFrom, standing: StandingAnswers, runner: Runner
    ) -> Iterator[Callable[[AttemptResult], None]]:
        """Inside, nobody else asks for the shared answer, and what others have heard is known; tell them of more."""
        if not asked_from.shared:
            yield lambda _: None
            return
        with standing.asking:
            if self._run.handover.redaction is not None:  # it leaves other processes no answer
                yield lambda _: None
                return
            name = digest([self._variant.name, asked_from.shared]).rpartition(":")[2]
            with locked(self._run.handover.shared / f"answers.{name}.jsonl") as file:
                file.seek(0)
                heard = file.read()
                size = heard.rfind(b"\n") + 1
                file.truncate(size)  # who wrote the rest has died over it
                for line in heard[:size].splitlines():
                    outcome = AttemptOutcome.from_dict(json.loads(line))
                    if outcome.attempt not in standing:
                        record = judge_again(outcome.read(), runner.judge)
                        standing.keep(Heard(outcome=AttemptResult(result=outcome), result=record))
                yield partial(_tell, file, size)

    def _new(self, question: Question, runner: Runner, asked_by: AskedBy, same: Callable[[Record], bool]) -> Heard:
        """Take the result from an earlier run or a dead worker, or else make the attempt and write its record."""
        attempt = Attempt(question.case.key, question.repeat, self._variant.name)
        first = attempt._replace(key=question.first)
        equal = [one for one in self._run.recorded.of_test(first) if same(one)]
        if question.equal_before < len(equal):
            recorded = equal[question.equal_before]
            outcome, record = self._run.keeper.take_over(recorded, question.case)
            return Heard(outcome=outcome, result=record)
        redacted = self._run.handover.redaction is not None
        # a redacted record has no text for the test
        left = None if redacted else self._run.keeper.left_behind.outcome(attempt)
        if left is not None and not left.failed and same(record := left.read()):
            return Heard(outcome=AttemptResult(result=left), result=judge_again(record, runner.judge))
        made = self._made(question, runner)
        return made if isinstance(made, Heard) else self._kept(made, runner, asked_by)

    def _pass_on(self, question: Question, runner: Runner, asked_from: AskedFrom) -> Heard:
        """
        Make the attempt of an application's own call, which is always made: its answer goes to the application.

        It is judged by the schema of each tool that the model called, or of the answer. An answer that no schema
        describes is excluded.
        """
        made = self._made(question, runner)
        if isinstance(made, Heard):
            return made
        if isinstance(made.generation, Completion) and (call := question.exchange) is not None:
            schema = call.schema_for(made.generation)
            if schema is None:
                made = replace(made, schema=None, verdict=NO_SCHEMA.verdict)
            else:
                made = judge_again(replace(made, schema=schema), runner.judge)
                made = replace(made, schema=judged_by(made.generation, made.verdict.tool, schema))
        asked_by = AskedBy(test=asked_from.test, line=asked_from.line, terms=self._terms(question))
        return self._kept(made, runner, asked_by)

    def _take(self, question: Question, given: HandedIn, asked_from: AskedFrom) -> Heard:
        """Write the record of an answer that the test hands in; no engine, limit or recording has a part in it."""
        record = record_of(
            self._secrecy.out_of_answer(given.generation),
            given.by,
            question.case,
            question.prompt,
            repeat=question.repeat,
            judge=self._run.judge(),
            comparers=self._run.plan.comparers,
        )
        asked_by = AskedBy(test=asked_from.test, line=asked_from.line, terms=digest(asdict(given.by)))
        outcome, record = self._run.keeper.write(replace(record, asked_by=asked_by, variant=self._variant.name))
        return Heard(outcome=outcome, result=record)

    def _made(self, question: Question, runner: Runner) -> Record | Heard:
        """The record of the attempt; the result itself where a limit forbids it."""
        try:
            with self._window:
                return runner.attempt(question.case, repeat=question.repeat)
        except Refused as refused:
            missing = missed(Attempt(question.case.key, question.repeat, self._variant.name), refused)
            return Heard(outcome=AttemptResult(result=missing), result=missing)

    def _kept(self, record: Record, runner: Runner, asked_by: AskedBy) -> Heard:
        """Write the record."""
        answered_by = record.answered_by or self._other(runner)
        record = replace(record, asked_by=asked_by, answered_by=answered_by, variant=self._variant.name)
        outcome, record = self._run.keeper.write(record)
        return Heard(outcome=outcome, result=record)

    def conclude(self, made: AttemptResult, ended: OwnOutcome, *, called_again: str) -> AttemptResult:
        """The result of an attempt whose test has ended so, which is written down."""
        return self._run.keeper.conclude(made, ended, called_again=called_again)

    def clean(self, text: str) -> str:
        """The text without the secrets of the engines."""
        return self._secrecy.out_of(text)

    @property
    def model(self) -> str:
        """The model of the variant's engine."""
        return self._run.runner(self._variant.name).engine.info.model

    def close(self) -> None:
        """Close the engines that only tests named."""
        self._resources.close()

    def _other(self, runner: Runner) -> AnsweredBy | None:
        """Engine and model of the answer, where it is not the run's engine."""
        model = runner.origin.model
        if model is None and runner.engine is self._run.runner(self._variant.name).engine:
            return None
        who = runner.engine.info
        return AnsweredBy(engine=who.engine, model=model or who.model, provider=who.provider)

    def _params(self, question: Question, config: EngineConfig) -> GenerationParams:
        """The sampling of the test."""
        params, run = self._variant.params, self._variant
        if config.name != run.engine.name and not self._replays and "max_tokens" not in run.said:
            params = replace(params, max_tokens=find(config.name).max_tokens)
        return question.terms.params(params)

    def _terms(self, question: Question) -> str:
        """A digest of what decides an answer besides the question: engine and sampling."""
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
            runner = self._at(config, runner)
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
        asked = run.engine if self._replays else config
        if question.exchange is not None:
            params = terms.params(runner.params)
            return self._passing(replace(runner, origin=origin, params=params), asked, question.exchange)
        params = sampled(find(asked.name), asked, self._params(question, config))
        return replace(runner, params=params, origin=origin)

    def _passing(self, runner: Runner, asked: EngineConfig, call: ApplicationCall) -> Runner:
        """The runner for an application's own call: nothing of it is changed, and only the application tries again."""
        factory, who = find(asked.name), runner.engine.info
        require_passing(factory, asked.name, call.path)
        # a server of ours has one model, whatever name it is asked by, and who answered then is known to the recording
        named = not factory.shared and asked.name not in RECORDED
        model = call.model if named and call.model not in ("", who.model) else None
        said = {**runner.origin.test, **call.said}
        by = AnsweredBy(engine=who.engine, model=model or who.model, provider=who.provider)
        return replace(
            runner,
            params=call.params(runner.params),
            adapter=None,
            context=None,
            origin=replace(runner.origin, exchange=call, model=model, test=said),
            admission=runner.admission if model is None else self._run.admission(self._variant.name, by, asked),
        )

    def _at(self, config: EngineConfig, runner: Runner) -> Runner:
        """The runner with another engine: that engine's context and prices, within the run's limits."""
        engine = self._engine(config)
        who = AnsweredBy(engine=engine.info.engine, model=engine.info.model, provider=engine.info.provider)
        context = self._variant.context or engine.info.context
        return replace(
            runner, engine=engine, context=context, admission=self._run.admission(self._variant.name, who, config)
        )

    def _engine(self, config: EngineConfig) -> Engine:
        name = digest(_json(to_json(config)))  # it may be of a key, and so it is written nowhere
        with self._lock:
            if name not in self._engines:
                factory = find(config.name)
                self._secrecy.add(config)
                check(factory, config)
                prepared = self._resources.enter_context(factory.prepare(config))
                engine = self._run.recording(self._variant.name, build(factory, prepared, self._variant.engine))
                self._resources.callback(engine.close)
                self._engines[name] = engine
            return self._engines[name]


def _tell(file: FileIO, size: int, heard: AttemptResult) -> None:
    made = heard.result
    if isinstance(made, AttemptOutcome) and isinstance(made.source, Place) and not made.failed:
        with contextlib.suppress(OSError):  # they ask by themselves, then
            append_whole(file, f"{json.dumps(made.to_dict())}\n".encode(), size)


def _said(question: Question) -> str:
    """What is asked, and how."""
    prompt = None if question.prompt is None else question.prompt.to_messages()
    return digest([question.case.schema, prompt, _json(question.terms.said())])


def _json(value: object) -> str:
    # a marker's options may be any objects
    return json.dumps(value, sort_keys=True, default=repr)


def _asked_the_same(
    record: Record, question: Question, runner: Runner, asked_by: AskedBy, answered_by: AnsweredBy | None
) -> bool:
    """Whether a record answers the same question, asked of the same engine with the same sampling."""
    if record.asked_by is None or record.prompt is None:
        return False
    remembered = record.answered_by is not None and record.answered_by.engine == REMEMBERED
    if record.answered_by != answered_by and not remembered:
        return False
    if record.redacted is not None:  # its test needs the answer itself
        return False
    return (
        record.asked_by.terms == asked_by.terms
        and record.schema_digest == digest(question.case.schema)
        and record.prompt.digest == runner.template(question.case).digest
    )
