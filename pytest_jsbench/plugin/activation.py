"""
Activate the plugin: read the settings, start the run, and register the objects whose pytest hooks execute and report
the run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import JournalError
from pytest_jsbench.core.guarded_calls import end_idle_children, guarded_calls
from pytest_jsbench.plugin.configuration import Settings
from pytest_jsbench.plugin.context import RUN_CONTEXT, RunContext, declare_marks, select
from pytest_jsbench.plugin.items import RESULT_OF, Suite
from pytest_jsbench.plugin.output_masking import Secrecy, silence_loggers
from pytest_jsbench.plugin.transport import WorkerInput
from pytest_jsbench.plugin.worker import Interruption, Worker
from pytest_jsbench.records.journal import new_folder
from pytest_jsbench.records.metadata import Entry
from pytest_jsbench.run.cached_runs import prune_runs
from pytest_jsbench.run.description import describe_run
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.plan import Plan
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.verdicts.judge import Judge

if TYPE_CHECKING:
    from pytest_jsbench.reports.expectations import Expectations

_CACHED_RUNS = 5


def activate(config: pytest.Config) -> None:
    """Prepare this process for the run; raise pytest.UsageError for invalid input."""
    try:
        _activate(config)
    except BaseException:
        end_idle_children()  # a program that has called pytest.main goes on
        raise


def _activate(config: pytest.Config) -> None:
    secrecy = Secrecy(config)
    with secrecy.usage_errors():
        context = config.stash[RUN_CONTEXT] = _make_context(config, secrecy)
        declare_marks(config, context.plan)
        if context.worker is not None:
            _register_worker(context)
            return
        from pytest_jsbench.reports.expectations import Expectations

        expectations = Expectations.of(context.plan, more_tasks=context.settings.targets.project)
        excuses = expectations.excuses(context.handover.metadata)
        context = config.stash[RUN_CONTEXT] = replace(context, excuses=excuses)
        _register_controller(context, _register_worker(context), expectations)


def _make_context(config: pytest.Config, secrecy: Secrecy) -> RunContext:
    settings = Settings.from_config(config)
    given = WorkerInput.of(config)
    secrecy.add_from_options(*settings.spec.asks.values())
    classify = config.hook.pytest_jsbench_classify
    suite = settings.targets.suite
    hook = (lambda record: classify(config=config, record=record)) if classify.get_hookimpls() else None
    workers = 1 if given is None else given.workers
    plan = Plan.of(settings.spec, suite=suite, hook=hook, workers=workers)
    if _makes_attempts(config, settings, given):
        # it takes longer to start than the engines and the look-ahead, and meanwhile this process reads the dataset
        Judge(plan.policy, calls=guarded_calls()).start()
    cases, marks = select(settings, {} if given is None else given.selected)
    plan = plan.over(cases)
    secrecy.add(*plan.engines)
    context = partial(RunContext, config=config, settings=settings, secrecy=secrecy, marks=marks)
    if given is None:
        return context(session=_start(config, settings, plan))
    worker = config.workerinput["workerid"]  # type: ignore[attr-defined]
    session = RunSession(plan, given.handover, process=worker, prepared=given.prepared)
    excuses = {CaseKey.parse(key): excuse for key, excuse in given.excuses.items()}
    return context(session=session, worker=worker, steals=given.steals, excuses=excuses)


def _makes_attempts(config: pytest.Config, settings: Settings, given: WorkerInput | None) -> bool:
    """Return whether this process makes attempts: it runs tests, and is not the controller of xdist's workers."""
    distributes = given is None and getattr(config.option, "dist", "no") != "no"
    return not (settings.only_looks or distributes)


def _start(config: pytest.Config, settings: Settings, plan: Plan) -> RunSession:
    """Start the run, without reading or writing any files of runs if pytest only lists the tests."""
    # this directory contains data that the processes of the run share
    shared = Path(tempfile.mkdtemp(prefix="jsbench-"))
    config.add_cleanup(partial(shutil.rmtree, shared, ignore_errors=True))
    if settings.only_lists:
        metadata = describe_run(plan, Entry.PYTEST, only_lists=True)
        return RunSession(plan, Handover(metadata=metadata, folder=None, shared=shared))
    return RunSession.start(plan, Entry.PYTEST, shared=shared, elsewhere=partial(_cached_folder, config))


def _register_worker(context: RunContext) -> Worker:
    """Register the plugins that every process needs, such as secret masking, the suite and the worker."""
    config = context.config
    if context.plan.spec.outputs.redact:
        silence_loggers(config)
    worker = Worker(context)
    config.stash[RESULT_OF] = worker.result
    config.pluginmanager.register(Interruption(context), "jsbench-interruption")
    config.pluginmanager.register(context.secrecy, "jsbench-secrecy")
    config.pluginmanager.register(Suite(context), "jsbench-suite")
    config.pluginmanager.register(worker, "jsbench-worker")
    if context.settings.targets.project:
        from pytest_jsbench.plugin.project_tests import PROJECT_TESTS, ProjectTests
        from pytest_jsbench.plugin.repeat_rules import RepeatRules

        config.stash[PROJECT_TESTS] = ProjectTests(context)
        config.pluginmanager.register(config.stash[PROJECT_TESTS], "jsbench-project-tests")
        config.pluginmanager.register(RepeatRules(), "jsbench-repeat-rules")
    return worker


def _register_controller(context: RunContext, worker: Worker, expectations: Expectations) -> None:
    """
    Register the plugins that only the single process or xdist's controller needs, such as the controller and the
    terminal.
    """
    from pytest_jsbench.plugin.controller import Controller
    from pytest_jsbench.plugin.failure_sections import FailureSections
    from pytest_jsbench.plugin.live_line import LiveLine
    from pytest_jsbench.plugin.progress import Progress, ProviderWatch
    from pytest_jsbench.plugin.terminal import Terminal
    from pytest_jsbench.run.state import RunState

    register = context.config.pluginmanager.register
    state = RunState(context.plan.keys, variants=context.plan.variants)
    progress = Progress(context, state)
    controller = Controller(context, worker, expectations, state=state, progress=progress)
    register(controller, "jsbench-controller")
    register(Terminal(context, controller), "jsbench-terminal")
    register(FailureSections(context), "jsbench-failure-sections")
    register(progress, "jsbench-progress")
    live_line = LiveLine(context.config, progress.text)
    register(live_line, "jsbench-live-line")
    register(ProviderWatch(context, live_line), "jsbench-provider-watch")
    if context.plan.spec.execution.dry_run:
        from pytest_jsbench.plugin.dry_run import DryRun

        register(DryRun(context), "jsbench-dry-run")
    elif context.plan.spec.execution.batch is not None:
        from pytest_jsbench.plugin.batch_submission import Batch

        register(Batch(context, controller), "jsbench-batch")


def _cached_folder(config: pytest.Config, run_id: str) -> Path | None:
    """Create a directory for the run's files in pytest's cache, and remove all but the last few runs there."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return None
    _refuse_links(config)
    try:
        parent: Path = cache.mkdir("jsbench")
        if not any(parent.iterdir()):  # this process has just created the directory
            parent.chmod(0o700)
        prune_runs(parent, keep=_CACHED_RUNS - 1)
        return new_folder(parent, run_id)
    except (OSError, JournalError):  # pytest itself reports a cache that cannot be written
        return None


def _refuse_links(config: pytest.Config) -> None:
    """Raise pytest.UsageError if the cache is behind a symbolic link, which an untrusted repository may contain."""
    root = config.rootpath
    given = Path(os.path.expandvars(config.getini("cache_dir"))).expanduser()
    cache = Path(os.path.abspath(root / given))  # noqa: PTH100  resolve() follows the links that are looked for
    folder = cache / "d" / "jsbench"
    named = root if cache.is_relative_to(root) else cache
    target = folder.resolve()
    if target != named.resolve() / folder.relative_to(named):
        raise pytest.UsageError(
            f"{folder} is a symbolic link to {target}, where no runs are stored: remove the link, or add "
            "--jsbench-output"
        )
