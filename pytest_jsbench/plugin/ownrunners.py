"""Runners for a project's own tests: the run's engine, and any other that a test names."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from typing import TYPE_CHECKING

from pytest_jsbench.adaptation.choosing import adapter
from pytest_jsbench.engines.registry import find
from pytest_jsbench.records import AnsweredBy

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pytest_jsbench.asking import Question
    from pytest_jsbench.engines.base import Engine, EngineConfig
    from pytest_jsbench.plugin.activation import Active
    from pytest_jsbench.plugin.worker import Outcome, Worker
    from pytest_jsbench.runner import Runner


class OwnRunners:
    """Makes the attempts that a project's own tests ask for, each under the terms of its test."""

    def __init__(self, active: Active, worker: Worker) -> None:
        self._active = active
        self._worker = worker
        self._window = threading.BoundedSemaphore(active.concurrency)
        self._engines: dict[str, Engine] = {}
        self._lock = threading.Lock()
        self._resources: ExitStack = contextlib.ExitStack()

    def ask(self, question: Question) -> Outcome:
        """Make one attempt, no more than the run's number at once, and write it down."""
        runner = self._runner(question)
        with self._window:
            record = runner.attempt(question.case, repeat=question.repeat)
        who = runner.engine.info
        if runner.engine is not self._worker.runner().engine:
            by = AnsweredBy(engine=who.engine, model=who.model, provider=who.provider)
            record = dataclasses.replace(record, answered_by=by)
        return record, self._worker.write(record)

    def close(self) -> None:
        """Let go of the engines that only tests named."""
        self._resources.close()

    def _runner(self, question: Question) -> Runner:
        runner = self._worker.runner()
        prompt, terms, run = question.prompt, question.terms, self._active.settings
        if prompt is not None:
            runner = dataclasses.replace(runner, template=lambda _: prompt)
        config = terms.engine_config(run.engine)
        params = runner.params
        # recorded answers are asked, whoever gave them
        if config != run.engine and run.replay is None:
            runner = dataclasses.replace(runner, engine=self._engine(config))
            if config.name != run.engine.name and run.max_tokens is None:
                params = dataclasses.replace(params, max_tokens=find(config.name).max_tokens)
            mode, _, _ = run.adapt.partition(":")
            if mode != "verbatim" and config.name in {"openai", "anthropic"}:
                runner = dataclasses.replace(runner, adapter=adapter(f"{mode}:{config.name}"))
        return dataclasses.replace(runner, params=terms.params(params))

    def _engine(self, config: EngineConfig) -> Engine:
        name = json.dumps(config.to_dict(), sort_keys=True, default=repr)
        with self._lock:
            if name not in self._engines:
                factory = find(config.name)
                factory.check(config)
                prepared = self._resources.enter_context(factory.prepare(config))
                engine = self._worker.recorded(factory.build(prepared))
                self._resources.callback(engine.close)
                self._engines[name] = engine
            return self._engines[name]
