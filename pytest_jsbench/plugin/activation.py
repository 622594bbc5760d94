"""Activates the plugin: reads the settings, plans the run, starts it, and registers what runs and what reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.plugin.session import cases
from pytest_jsbench.plugin.session.context import RUN_CONTEXT, RunContext
from pytest_jsbench.plugin.session.handover import Handover
from pytest_jsbench.plugin.session.interruption import Interruption
from pytest_jsbench.plugin.session.secrecy import Secrecy, quieten, usage_errors
from pytest_jsbench.plugin.session.start import start
from pytest_jsbench.plugin.settings import Settings
from pytest_jsbench.runs.resumption import Recorded
from pytest_jsbench.settings.plan import Plan
from pytest_jsbench.settings.variant import make_variants

if TYPE_CHECKING:
    from pytest_jsbench.plugin.worker.worker import Worker
    from pytest_jsbench.runs.records import Record
    from pytest_jsbench.runs.resumption import Resumption


def activate(config: pytest.Config) -> None:
    """Make this process ready for the run; pytest.UsageError, with its cause, where the input does not allow it."""
    with usage_errors(config):
        context, resumption = _make_context(config)
        config.stash[RUN_CONTEXT] = context
        _declare_marks(config, context)
        worker = _register_worker(config, context)
        if context.worker is None:
            _register_controller(config, context, worker, resumption)


def _make_context(config: pytest.Config) -> tuple[RunContext, Resumption | None]:
    settings, resumption = Settings.from_config(config), None
    handover = Handover.from_worker_input(config)
    variants = make_variants(settings.ways, workers=1 if handover is None else handover.workers)
    selected, marks = cases.select(settings, {} if handover is None else handover.selected)
    suite, hook = settings.targets.suite, _classify_hook(config)
    plan = Plan.of(settings.values, variants, selected, suite=suite, hook=hook)
    if handover is None:
        if not settings.only_lists:
            plan.check_engines()
        handover, resumption = start(config, settings, plan)
    context = RunContext(
        settings=settings,
        plan=plan,
        marks=marks,
        handover=handover,
        recorded=Recorded(handover.recorded),
        worker=getattr(config, "workerinput", {}).get("workerid"),
    )
    return context, resumption


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
    config.stash[PROJECT_TESTS] = project_tests = ProjectTests(config, context, worker, secrecy)
    config.pluginmanager.register(secrecy, "jsbench-secrecy")
    config.pluginmanager.register(Suite(config, context), "jsbench-suite")
    config.pluginmanager.register(worker, "jsbench-worker")
    config.pluginmanager.register(project_tests, "jsbench-project-tests")
    return worker


def _register_controller(
    config: pytest.Config, context: RunContext, worker: Worker, resumption: Resumption | None
) -> None:
    """Register what the only process, or xdist's controller, has: the run's state, its files, the terminal."""
    from pytest_jsbench.plugin.controller.controller import Controller
    from pytest_jsbench.plugin.controller.progress import Progress
    from pytest_jsbench.plugin.controller.provider_watch import ProviderWatch
    from pytest_jsbench.plugin.controller.terminal import Terminal
    from pytest_jsbench.runner.state import RunState

    state = RunState(context.plan.keys, variants=context.plan.variants)
    progress = Progress(config, context, state)
    controller = Controller(config, context, worker, resumption, state=state, progress=progress)
    config.pluginmanager.register(controller, "jsbench-controller")
    config.pluginmanager.register(Terminal(config, context, controller), "jsbench-terminal")
    config.pluginmanager.register(progress, "jsbench-progress")
    config.pluginmanager.register(ProviderWatch(config, context), "jsbench-provider-watch")
    if context.plan.batch is not None:
        from pytest_jsbench.plugin.controller.batch import Batch

        config.pluginmanager.register(Batch(config, context, controller, worker), "jsbench-batch")
