"""Runners for a project's own tests: the run's engine, and any other that a test names."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pytest_jsbench.adaptation.adapter import adapter
from pytest_jsbench.core.generations import Failed
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.engines.registry import find, sampled
from pytest_jsbench.engines.secrets import build, check, public
from pytest_jsbench.plugin.session.transport import AttemptResult
from pytest_jsbench.plugin.worker.standing_answers import Heard
from pytest_jsbench.runner.rate_limits import Refused
from pytest_jsbench.runs.records import AnsweredBy, AskedBy, Record
from pytest_jsbench.runs.rejudging import judge_again

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pytest_jsbench.core.generations import GenerationParams
    from pytest_jsbench.engines.base import Engine, EngineConfig
    from pytest_jsbench.fixture.jsbench import Question
    from pytest_jsbench.plugin.session.context import RunContext
    from pytest_jsbench.plugin.worker.standing_answers import StandingAnswers
    from pytest_jsbench.plugin.worker.worker import Worker
    from pytest_jsbench.runner.attempts import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFrom:
    """Where a project's own test stands."""

    #: its node id
    test: str
    #: of its file, from 1; None where pytest does not know
    line: int | None


class ProjectRunners:
    """Makes the attempts that a project's own tests ask for, each under the terms of its test."""

    def __init__(self, active: RunContext, worker: Worker) -> None:
        self._active = active
        self._worker = worker
        self._window = threading.BoundedSemaphore(active.concurrency)
        self._engines: dict[str, Engine] = {}
        self._lock = threading.Lock()
        self._resources: ExitStack = contextlib.ExitStack()

    def ask(self, question: Question, *, asked_from: AskedFrom, standing: StandingAnswers) -> Heard:
        """What becomes of one attempt, or what became of it when the test was run before."""
        runner = self._runner(question)
        asked_by = AskedBy(test=asked_from.test, line=asked_from.line, terms=self._terms(question))
        same = partial(
            _asked_the_same, question=question, runner=runner, asked_by=asked_by, answered_by=self._other(runner)
        )
        if (heard := standing.take(question, same)) is not None:
            return heard
        heard = self._new(standing.number(question), runner, asked_by, same)
        standing.keep(heard)
        return heard

    def _new(self, question: Question, runner: Runner, asked_by: AskedBy, same: Callable[[Record], bool]) -> Heard:
        """One attempt, of which no more than the run's number are made at once; written down."""
        attempt = question.case.key, question.repeat
        equal = [one for one in self._active.recorded.of_test(question.first, question.repeat) if same(one)]
        if question.equal_before < len(equal):
            recorded = dataclasses.replace(equal[question.equal_before], key=question.case.key)
            return Heard.of(self._worker.resumed(judge_again(recorded, runner.judge)))
        redacted = self._active.run.redaction is not None
        # what was written without its texts answers nobody
        left = None if redacted else self._worker.left_behind.record(attempt)
        if left is not None and same(left) and not isinstance(left.generation, Failed):
            return Heard.of(AttemptResult(result=left))
        try:
            with self._window:
                record = runner.attempt(question.case, repeat=question.repeat)
        except Refused as refused:
            return Heard.of(AttemptResult.of_refused(question.case.key, question.repeat, refused))
        record = dataclasses.replace(record, asked_by=asked_by, answered_by=self._other(runner))
        outcome = self._worker.write(record)
        return Heard(outcome=outcome, result=record) if redacted else Heard.of(outcome)

    def close(self) -> None:
        """Let go of the engines that only tests named."""
        self._resources.close()

    def _other(self, runner: Runner) -> AnsweredBy | None:
        """Who answers, where it is not the run's engine."""
        if runner.engine is self._worker.runner().engine:
            return None
        who = runner.engine.info
        return AnsweredBy(engine=who.engine, model=who.model, provider=who.provider)

    def _params(self, question: Question, config: EngineConfig) -> GenerationParams:
        """With which sampling the test asks."""
        params, run = self._active.params, self._active.settings
        if config.name != run.engine.name and run.replay is None and run.max_tokens is None:
            params = dataclasses.replace(params, max_tokens=find(config.name).max_tokens)
        return question.terms.params(params)

    def _terms(self, question: Question) -> str:
        """A digest of all that decides an answer besides the question: the engine, and the sampling."""
        config = question.terms.engine_config(self._active.settings.engine)
        params = self._params(question, config).of_repeat(question.repeat)
        sampling = {name: getattr(params, name) for name in ("max_tokens", "temperature", "seed")}
        return digest({"engine": _json(public(config)), **sampling})

    def _runner(self, question: Question) -> Runner:
        runner = self._worker.runner()
        prompt, terms, run = question.prompt, question.terms, self._active.settings
        if prompt is not None:
            runner = dataclasses.replace(runner, template=lambda _: prompt)
        config = terms.engine_config(run.engine)
        # recorded answers are asked, whoever gave them
        if config != run.engine and run.replay is None:
            runner = self._at(config, runner)
            mode, _, _ = run.adapt.partition(":")
            if mode != "verbatim" and config.name in {"openai", "anthropic"}:
                runner = dataclasses.replace(runner, adapter=adapter(f"{mode}:{config.name}"))
        origin = dataclasses.replace(
            runner.origin, first=question.first, equal_before=question.equal_before, test=terms.said()
        )
        asked = run.engine if run.replay is not None else config
        params = sampled(find(asked.name), asked, self._params(question, config))
        return dataclasses.replace(runner, params=params, origin=origin)

    def _at(self, config: EngineConfig, runner: Runner) -> Runner:
        """The runner at another engine, with that one's room, and within the run's limits at that one's prices."""
        engine = self._engine(config)
        who = AnsweredBy(engine=engine.info.engine, model=engine.info.model, provider=engine.info.provider)
        context = self._active.settings.context or engine.info.context
        return dataclasses.replace(runner, engine=engine, context=context, admission=self._worker.admission(who))

    def _engine(self, config: EngineConfig) -> Engine:
        name = digest(_json(config.to_dict()))  # of all that was said of it, and so to be written nowhere
        with self._lock:
            if name not in self._engines:
                factory = find(config.name)
                self._active.secrecy.add(config)
                check(factory, config)
                prepared = self._resources.enter_context(factory.prepare(config))
                engine = self._worker.recorded(build(factory, prepared, self._active.settings.engine))
                self._resources.callback(engine.close)
                self._engines[name] = engine
            return self._engines[name]


def _json(value: object) -> str:
    # a marker's options may be any objects
    return json.dumps(value, sort_keys=True, default=repr)


def _asked_the_same(
    record: Record, question: Question, runner: Runner, asked_by: AskedBy, answered_by: AnsweredBy | None
) -> bool:
    """Whether a record of an earlier run answers this very question."""
    if record.asked_by is None or record.prompt is None or record.answered_by != answered_by:
        return False
    if record.redacted is not None:  # its test needs the answer itself
        return False
    return (
        record.asked_by.terms == asked_by.terms
        and record.schema_digest == digest(question.case.schema)
        and record.prompt.digest == runner.template(question.case).digest
    )
