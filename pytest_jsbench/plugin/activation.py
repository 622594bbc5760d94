"""Puts the parts together once an engine is named."""

from __future__ import annotations

import dataclasses
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from pytest_jsbench import __version__
from pytest_jsbench.cases import CaseKey, digest, safe_name
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines.base import EngineConfig, EngineFactory, ParamsChecker
from pytest_jsbench.engines.registry import find, require_acceptor, require_batches, sampled
from pytest_jsbench.engines.secrecy import check, describe
from pytest_jsbench.errors import EngineError, JSBenchError
from pytest_jsbench.generations import EngineInfo, GenerationParams, ResponseFormat
from pytest_jsbench.plugin import marks
from pytest_jsbench.plugin.arguments import take_arguments
from pytest_jsbench.plugin.classifying import find_classifiers
from pytest_jsbench.plugin.handover import Handover
from pytest_jsbench.plugin.options import given_arguments
from pytest_jsbench.plugin.redacting import quieten
from pytest_jsbench.plugin.secrecy import Secrecy
from pytest_jsbench.plugin.selection import Selected
from pytest_jsbench.plugin.settings import Settings
from pytest_jsbench.plugin.starting import start
from pytest_jsbench.prompts import Template, find_template
from pytest_jsbench.records import RunMetadata
from pytest_jsbench.resumption import Recorded, Resumption

if TYPE_CHECKING:
    from pytest_jsbench.classifiers import Classifier
    from pytest_jsbench.exports.registry import Exporter

#: the source of the cases of a run without the suite
OWN = "own tests"
_PACKAGES = ("pytest", "jsonschema", "jsonschema-rs", "genai-prices")


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """What this process knows of the run; the same in every process but for `engine` and `worker`."""

    settings: Settings
    factory: EngineFactory
    selected: Selected
    keys: Sequence[CaseKey]
    template: Template
    params: GenerationParams
    #: calls in flight in this process
    concurrency: int
    #: what all processes have in common
    run: Handover
    #: what an earlier run has answered; empty where there is none
    recorded: Recorded
    #: what was taken over from it, where this process has found it out
    resumption: Resumption | None
    #: xdist's name of this process; None in the only process and in the controller
    worker: str | None
    #: node ids, or beginnings of them, that were asked for on the command line
    chosen: tuple[str, ...]
    #: whether the dataset's schemas are collected
    suite: bool
    #: whether nothing else is, though no case of it was named
    suite_only: bool
    #: whether any test of the project's own may be
    own: bool
    #: the command that runs one case again, but for its node id
    rerun: str
    #: what writes the run at its end, and where; nothing in a worker
    exporters: tuple[tuple[Exporter, Path], ...]
    #: what gives failed attempts codes of the project's own
    classifiers: tuple[Classifier, ...]
    #: what keeps the engines' secrets out of all that is shown
    secrecy: Secrecy

    @property
    def metadata(self) -> RunMetadata:
        """What produces the run."""
        return self.run.metadata

    @property
    def folder(self) -> Path | None:
        """Where records are written; None: nowhere."""
        return self.run.folder


ACTIVE = pytest.StashKey[Active]()


def activate(config: pytest.Config) -> None:
    """Read the settings, open the dataset, and register what runs and what reports; pytest.UsageError on bad input."""
    try:
        active = _active(config)
    except JSBenchError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[ACTIVE] = active
    if active.settings.redact:
        quieten(config)
    config.pluginmanager.register(active.secrecy, "jsbench-secrecy")
    _register_markers(config)
    marks.register(config, (key.task for key in active.keys))

    from pytest_jsbench.plugin.collection import Suite
    from pytest_jsbench.plugin.owntests import NAME as OWN_TESTS
    from pytest_jsbench.plugin.owntests import OwnTests
    from pytest_jsbench.plugin.worker import Worker

    worker = Worker(config, active)
    config.pluginmanager.register(Suite(active), "jsbench-suite")
    config.pluginmanager.register(worker, "jsbench-worker")
    config.pluginmanager.register(OwnTests(config, active, worker), OWN_TESTS)
    if active.worker is None:
        from pytest_jsbench.plugin.controller import Controller
        from pytest_jsbench.plugin.progress import Progress
        from pytest_jsbench.plugin.terminal import Terminal

        controller = Controller(config, active, worker)
        config.pluginmanager.register(controller, "jsbench-controller")
        config.pluginmanager.register(Terminal(config, active, controller), "jsbench-terminal")
        config.pluginmanager.register(Progress(config, active, controller), "jsbench-progress")
        if active.settings.batch is not None:
            from pytest_jsbench.plugin.batch import Batch

            config.pluginmanager.register(Batch(config, active, controller, worker), "jsbench-batch")


def _active(config: pytest.Config) -> Active:
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
    return Active(
        settings=settings,
        factory=factory,
        selected=selected,
        keys=keys,
        template=template,
        params=params,
        concurrency=concurrency,
        run=run,
        recorded=Recorded({}) if run.recorded is None else Recorded.open(run.recorded),
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
    from pytest_jsbench.exports import registry

    return tuple((registry.find(name), path) for name, path in settings.exports)


def prepare(active: Active) -> AbstractContextManager[EngineConfig]:
    """Start what all processes of the run share; where no model is called, nothing."""
    config = active.settings.engine
    return nullcontext(config) if active.selected.labelled is not None else active.factory.prepare(config)


def _share(factory: EngineFactory, config: pytest.Config) -> int:
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    return -(-factory.concurrency // workers) if factory.shared else factory.concurrency


def _register_markers(config: pytest.Config) -> None:
    from pytest_jsbench.verdicts import FailureType

    for kind in FailureType:
        config.addinivalue_line(
            "markers", f"{marks.failure_mark(kind)}: set by pytest-jsbench, while it runs, on a case that ended so"
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
