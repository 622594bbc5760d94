"""Puts the parts together once an engine is named."""

from __future__ import annotations

import dataclasses
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from pytest_jsbench.core.cases import CaseKey, safe_name
from pytest_jsbench.core.errors import EngineError, JSBenchError
from pytest_jsbench.core.generations import EngineInfo, GenerationParams, ResponseFormat
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.core.prompts import Template
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.version import __version__
from pytest_jsbench.datasets.registry import revision_of
from pytest_jsbench.engines.base import EngineConfig, EngineFactory, ParamsChecker
from pytest_jsbench.engines.registry import find, require_acceptor, require_batches, sampled
from pytest_jsbench.engines.secrets import check, describe
from pytest_jsbench.plugin.options.reading import given_arguments, take_arguments
from pytest_jsbench.plugin.options.settings import Settings
from pytest_jsbench.plugin.session import cases
from pytest_jsbench.plugin.session.cases import Selected
from pytest_jsbench.plugin.session.context import RUN_CONTEXT, RunContext
from pytest_jsbench.plugin.session.handover import Handover, start
from pytest_jsbench.plugin.session.redaction import quieten
from pytest_jsbench.plugin.session.secrecy import Secrecy
from pytest_jsbench.prompts import find_template
from pytest_jsbench.runs.records import RunMetadata
from pytest_jsbench.runs.resumption import Recorded

if TYPE_CHECKING:
    from pytest_jsbench.reports.registry import Exporter
    from pytest_jsbench.runner.classifiers import Classifier

#: the source of the cases of a run without the suite
OWN = "own tests"
_PACKAGES = ("pytest", "jsonschema", "jsonschema-rs", "genai-prices")


def activate(config: pytest.Config) -> None:
    """Read the settings, open the dataset, and register what runs and what reports; pytest.UsageError on bad input."""
    try:
        active = _active(config)
    except JSBenchError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[RUN_CONTEXT] = active
    if active.settings.redact:
        quieten(config)
    config.pluginmanager.register(active.secrecy, "jsbench-secrecy")
    _register_markers(config)
    cases.register(config, (key.task for key in active.keys))

    from pytest_jsbench.plugin.worker.items import ATTEMPT_SOURCE, Suite
    from pytest_jsbench.plugin.worker.project_tests import NAME as OWN_TESTS
    from pytest_jsbench.plugin.worker.project_tests import ProjectTests
    from pytest_jsbench.plugin.worker.worker import Worker

    worker = Worker(config, active)
    config.pluginmanager.register(Suite(active), "jsbench-suite")
    config.stash[ATTEMPT_SOURCE] = worker
    config.pluginmanager.register(worker, "jsbench-worker")
    config.pluginmanager.register(ProjectTests(config, active, worker), OWN_TESTS)
    if active.worker is None:
        from pytest_jsbench.plugin.controller.controller import Controller
        from pytest_jsbench.plugin.controller.progress import Progress
        from pytest_jsbench.plugin.controller.terminal import Terminal

        controller = Controller(config, active, worker)
        config.pluginmanager.register(controller, "jsbench-controller")
        config.pluginmanager.register(Terminal(config, active, controller), "jsbench-terminal")
        config.pluginmanager.register(Progress(config, active, controller), "jsbench-progress")
        if active.settings.batch is not None:
            from pytest_jsbench.plugin.controller.batch import Batch

            config.pluginmanager.register(Batch(config, active, controller, worker), "jsbench-batch")


def _active(config: pytest.Config) -> RunContext:
    settings = Settings.from_config(config)
    asked = take_arguments(config)
    factory = find(settings.engine.name)
    if settings.selection.labelled:
        require_acceptor(factory, settings.engine.name)
    if settings.batch is not None:
        require_batches(factory, settings.engine.name)
    run, resumption = Handover.from_worker_input(config), None
    if run is None:
        selected = Selected.open(config, settings.selection)
    else:
        selected = Selected.take(run.selected, config, settings.selection)
    template = find_template(settings.prompt, shots=settings.shots)
    classifiers = find_classifiers(config, settings.classify)
    # no fixture runs either, and so no test can ask
    asked_only = bool(config.option.collectonly or getattr(config.option, "setupplan", False))
    if run is None and not asked_only:
        check(factory, settings.engine)
    params = GenerationParams(
        max_tokens=settings.max_tokens or factory.max_tokens,
        temperature=settings.temperature,
        seed=settings.seed,
        timeout=settings.timeout,
    )
    if run is None and isinstance(factory, ParamsChecker):
        factory.check_params(params)
    concurrency = settings.concurrency or _share(factory, config)
    everything = selected.dataset.keys()
    keys = everything if settings.shard is None else settings.shard.take(everything)
    if run is None:
        info = _describe(factory, settings.engine, tolerant=asked_only)
        metadata = _metadata(settings, info, params, template, concurrency)
        used = sampled(factory, settings.engine, params)
        metadata = dataclasses.replace(
            metadata,
            params=dataclasses.asdict(used),
            streaming=metadata.streaming and settings.batch is None,
            dataset=_dataset(settings, everything, suite=asked.suite),
            classifiers=[classifier.name for classifier in classifiers],
        )
        planned = keys if asked.suite else ()
        run, resumption = start(
            config, settings, metadata, selected.dataset, planned, template=template.render, listing=asked_only
        )
    return RunContext(
        settings=settings,
        factory=factory,
        selected=selected,
        keys=keys,
        template=template,
        params=params,
        concurrency=concurrency,
        run=run,
        recorded=Recorded(run.recorded),
        resumption=resumption,
        worker=getattr(config, "workerinput", {}).get("workerid"),
        chosen=asked.chosen,
        suite=asked.suite,
        suite_only=asked.suite_only,
        own=asked.own,
        rerun=printable(shlex.join(["pytest", *given_arguments(config)]), 2000),
        exporters=_exporters(settings, config),
        classifiers=classifiers,
        secrecy=Secrecy(config, settings.engine),
    )


def _exporters(settings: Settings, config: pytest.Config) -> tuple[tuple[Exporter, Path], ...]:
    """Found before anything is paid for, where reports land."""
    if not settings.exports or hasattr(config, "workerinput"):
        return ()
    from pytest_jsbench.reports import registry

    return tuple((registry.find(name), path) for name, path in settings.exports)


def _share(factory: EngineFactory, config: pytest.Config) -> int:
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    return -(-factory.concurrency // workers) if factory.shared else factory.concurrency


def _register_markers(config: pytest.Config) -> None:
    from pytest_jsbench.verdicts import FailureType

    for kind in FailureType:
        config.addinivalue_line(
            "markers", f"{cases.failure_mark(kind)}: set by pytest-jsbench, while it runs, on a case that ended so"
        )


def _describe(factory: EngineFactory, config: EngineConfig, *, tolerant: bool) -> EngineInfo:
    """Who the engine will be; listing the cases does not need it, and leaves open what cannot be found out."""
    try:
        return describe(factory, config)
    except EngineError:
        if not tolerant:
            raise
        response_format = config.response_format or ResponseFormat.JSON_SCHEMA
        return EngineInfo(
            engine=config.name, model=config.model or "default", response_format=response_format, streaming=True
        )


def _metadata(
    settings: Settings, info: EngineInfo, params: GenerationParams, template: Template, concurrency: int
) -> RunMetadata:
    now = datetime.now(UTC)
    return RunMetadata(
        run_id=safe_name(f"{now:%Y%m%dT%H%M%SZ}-{safe_name(info.engine)}-{safe_name(info.model)}"),
        uuid=str(uuid4()),
        started_at=now.isoformat(timespec="seconds"),
        engine=info.engine,
        model=info.model,
        response_format=info.response_format.value,
        streaming=info.streaming,
        provider=info.provider,
        details=info.details,
        params={},
        asked_params=dataclasses.asdict(params),
        prompt=template.name,
        prompt_digest=template.digest,
        shots=settings.shots,
        adapt=settings.adapt,
        redacted=settings.redact,
        repeats=settings.repeats,
        concurrency=concurrency,
        policy=_builtins(dataclasses.asdict(settings.policy)),
        versions={**_versions(), "python": platform.python_version()},
        host={"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()},
    )


def _dataset(settings: Settings, keys: Sequence[CaseKey], *, suite: bool) -> dict[str, Any]:
    if not suite:  # the cases are whatever a project's own tests ask for
        return {"source": OWN, "cases": 0}
    return {
        **settings.selection.to_dict(),
        "revision": revision_of(settings.selection.source),
        "cases": len(keys),
        "cases_digest": digest([str(key) for key in keys]),
        "shard": None if settings.shard is None else str(settings.shard),
    }


def _builtins(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _versions() -> dict[str, str]:
    versions = {"pytest-jsbench": __version__}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "unknown"
    return versions


HOOK = "pytest_jsbench_classify"


def find_classifiers(config: pytest.Config, names: Sequence[str]) -> tuple[Classifier, ...]:
    """Those of these names, and the hook where anybody implements it."""
    from pytest_jsbench.runner.classifiers import Classifier, find

    found = [find(name) for name in names]
    hook = config.hook.pytest_jsbench_classify
    if hook.get_hookimpls():
        asks = Classifier(name=HOOK, origin="a hook", function=lambda record: hook(config=config, record=record))
        found.append(asks)
    return tuple(found)
