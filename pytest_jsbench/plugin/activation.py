"""Activates the plugin: reads the settings, plans the run, starts it, and registers what runs and what reports."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.plugin.session import cases
from pytest_jsbench.plugin.session.context import RUN_CONTEXT, RunContext, WorkerInput
from pytest_jsbench.plugin.session.folders import run_folder, shared_folder
from pytest_jsbench.plugin.session.interruption import Interruption
from pytest_jsbench.plugin.session.secrecy import Secrecy, quieten, usage_errors
from pytest_jsbench.plugin.settings import Settings
from pytest_jsbench.records.records import Entry
from pytest_jsbench.run.description import describe_run
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.settings.plan import Plan
from pytest_jsbench.settings.variant import make_variants

if TYPE_CHECKING:
    from pytest_jsbench.plugin.worker.worker import Worker
    from pytest_jsbench.records.records import Record


def activate(config: pytest.Config) -> None:
    """Make this process ready for the run; pytest.UsageError, with its cause, where the input does not allow it."""
    with usage_errors(config):
        context = _make_context(config)
        config.stash[RUN_CONTEXT] = context
        _declare_marks(config, context)
        worker = _register_worker(config, context)
        if context.worker is None:
            _register_controller(config, context, worker)


def _make_context(config: pytest.Config) -> RunContext:
    settings, given = Settings.from_config(config), WorkerInput.of(config)
    variants = make_variants(settings.ways, workers=1 if given is None else given.workers)
    selected, marks = cases.select(settings, {} if given is None else given.selected)
    suite, hook = settings.targets.suite, _classify_hook(config)
    plan = Plan.of(settings.values, variants, selected, suite=suite, gates=settings.gates, hook=hook)
    if given is None:
        return RunContext(settings=settings, session=_start(config, settings, plan), marks=marks)
    worker = config.workerinput["workerid"]  # type: ignore[attr-defined]
    session = RunSession(plan, given.handover, process=worker, prepared=given.prepared)
    return RunContext(settings=settings, session=session, marks=marks, worker=worker, steals=given.steals)


def _start(config: pytest.Config, settings: Settings, plan: Plan) -> RunSession:
    """Start the run; a mere listing of the cases writes and reads nothing."""
    if not settings.only_lists:
        plan.check_engines()
    metadata = describe_run(plan, Entry.PYTEST, only_lists=settings.only_lists)
    shared = shared_folder(config)
    if settings.only_lists:
        return RunSession(plan, Handover(metadata=metadata, folder=None, shared=shared))
    return RunSession.start(plan, metadata, shared=shared, new_folder=partial(run_folder, config, plan.output))


def _classify_hook(config: pytest.Config) -> Callable[[Record], object] | None:
    """The hook that classifies a failed attempt; None where nobody implements it."""
    hook = config.hook.pytest_jsbench_classify
    return (lambda record: hook(config=config, record=record)) if hook.get_hookimpls() else None


def _declare_marks(config: pytest.Config, context: RunContext) -> None:
    from pytest_jsbench.verdicts import FailureType

    for kind in FailureType:
        config.addinivalue_line(
            "markers", f"{cases.failure_mark(kind)}: set by pytest-jsbench, while it runs, on a case that ended so"
        )
    cases.register(config, (key.task for key in context.plan.keys), filter(None, context.plan.variants))


def _register_worker(config: pytest.Config, context: RunContext) -> Worker:
    """Register what every process has: what keeps secrets, the suite, and what makes the attempts."""
    from pytest_jsbench.plugin.worker.items import ATTEMPT_SOURCE, Suite
    from pytest_jsbench.plugin.worker.project_tests import PROJECT_TESTS, ProjectTests
    from pytest_jsbench.plugin.worker.worker import Worker

    if context.plan.redact:
        quieten(config)
    config.pluginmanager.register(Interruption(config, context.handover.interrupted), "jsbench-interruption")
    secrecy = Secrecy(config, *context.plan.engines)
    config.stash[ATTEMPT_SOURCE] = worker = Worker(config, context)
    config.stash[PROJECT_TESTS] = project_tests = ProjectTests(config, context, secrecy)
    config.pluginmanager.register(secrecy, "jsbench-secrecy")
    config.pluginmanager.register(Suite(config, context), "jsbench-suite")
    config.pluginmanager.register(worker, "jsbench-worker")
    config.pluginmanager.register(project_tests, "jsbench-project-tests")
    return worker


def _register_controller(config: pytest.Config, context: RunContext, worker: Worker) -> None:
    """Register what the only process, or xdist's controller, has: the run's state, its files, the terminal."""
    from pytest_jsbench.plugin.controller.controller import Controller
    from pytest_jsbench.plugin.controller.progress import Progress, ProviderWatch
    from pytest_jsbench.plugin.controller.terminal import Terminal
    from pytest_jsbench.run.state import RunState

    state = RunState(context.plan.keys, variants=context.plan.variants)
    progress = Progress(config, context, state)
    controller = Controller(config, context, worker, state=state, progress=progress)
    config.pluginmanager.register(controller, "jsbench-controller")
    config.pluginmanager.register(Terminal(config, context, controller), "jsbench-terminal")
    config.pluginmanager.register(progress, "jsbench-progress")
    config.pluginmanager.register(ProviderWatch(config, context), "jsbench-provider-watch")
    if context.plan.batch is not None:
        from pytest_jsbench.plugin.controller.batch import Batch

        config.pluginmanager.register(Batch(config, context, controller), "jsbench-batch")
