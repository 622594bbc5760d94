"""Puts the parts together once an engine is named."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.cases import CaseKey, safe_name
from pytest_jsbench.datasets.base import Dataset
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.engines.base import EngineConfig, EngineFactory
from pytest_jsbench.engines.registry import find
from pytest_jsbench.errors import EngineError, JSBenchError
from pytest_jsbench.generations import EngineInfo, GenerationParams, ResponseFormat
from pytest_jsbench.plugin.arguments import take_arguments
from pytest_jsbench.plugin.options import given_arguments
from pytest_jsbench.plugin.settings import Settings
from pytest_jsbench.records import RunMetadata

#: the source of the cases of a run without the suite
OWN = "own tests"
_CACHED_RUNS = 5
_PACKAGES = ("pytest-jsbench", "pytest", "jsonschema", "jsonschema-rs", "genai-prices")


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """What this process knows of the run; the same in every process but for `engine` and `worker`."""

    settings: Settings
    factory: EngineFactory
    dataset: Dataset
    keys: Sequence[CaseKey]
    params: GenerationParams
    #: calls in flight in this process
    concurrency: int
    metadata: RunMetadata
    #: where records are written; None: nowhere
    folder: Path | None
    #: the engine as xdist's controller has prepared it; None where this process prepares it itself
    prepared: EngineConfig | None
    #: xdist's name of this process; None in the only process and in the controller
    worker: str | None
    #: node ids, or beginnings of them, that were asked for on the command line
    chosen: tuple[str, ...]
    #: whether the dataset's schemas are collected
    suite: bool
    #: whether nothing else is
    suite_only: bool
    #: the command that runs one case again, but for its node id
    rerun: str


ACTIVE = pytest.StashKey[Active]()


def activate(config: pytest.Config) -> None:
    """Read the settings, open the dataset, and register what runs and what reports; pytest.UsageError on bad input."""
    try:
        active = _active(config)
    except JSBenchError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[ACTIVE] = active
    _register_markers(config)

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
        from pytest_jsbench.plugin.terminal import Terminal

        controller = Controller(config, active)
        config.pluginmanager.register(controller, "jsbench-controller")
        config.pluginmanager.register(Terminal(active, controller), "jsbench-terminal")


def _active(config: pytest.Config) -> Active:
    settings = Settings.from_config(config)
    asked = take_arguments(config)
    from_controller = _worker_input(config)
    dataset = open_dataset(settings.selection)
    factory = find(settings.engine.name)
    asked_only = bool(config.option.collectonly)
    if from_controller is None and not asked_only:
        factory.check(settings.engine)
    params = GenerationParams(
        max_tokens=settings.max_tokens or factory.max_tokens,
        temperature=settings.temperature,
        seed=settings.seed,
        timeout=settings.timeout,
    )
    concurrency = settings.concurrency or _share(factory, config)
    keys = dataset.keys()
    if from_controller is None:
        info = _describe(factory, settings.engine, tolerant=asked_only)
        metadata = _metadata(settings, info, params, len(keys) if asked.suite else None, concurrency)
        folder = None if asked_only else _folder(config, settings, metadata)
        if folder is not None:
            metadata = dataclasses.replace(metadata, run_id=folder.name)
        prepared = None
    else:
        metadata = RunMetadata.from_dict(from_controller["metadata"])
        folder = None if from_controller["folder"] is None else Path(from_controller["folder"])
        prepared = EngineConfig.from_dict(from_controller["engine"])
    return Active(
        settings=settings,
        factory=factory,
        dataset=dataset,
        keys=keys,
        params=params,
        concurrency=concurrency,
        metadata=metadata,
        folder=folder,
        prepared=prepared,
        worker=getattr(config, "workerinput", {}).get("workerid"),
        chosen=asked.chosen,
        suite=asked.suite,
        suite_only=asked.suite_only,
        rerun=shlex.join(["pytest", *given_arguments(config)]),
    )


def _worker_input(config: pytest.Config) -> Mapping[str, Any] | None:
    handed = getattr(config, "workerinput", {}).get("jsbench")
    if handed is None:
        return None
    data: Mapping[str, Any] = json.loads(handed)
    return data


def worker_input(active: Active, prepared: EngineConfig) -> str:
    """What a worker cannot find out for itself, as one JSON text (xdist carries builtins only)."""
    return json.dumps(
        {
            "engine": prepared.to_dict(),
            "metadata": active.metadata.to_dict(),
            "folder": None if active.folder is None else str(active.folder),
        }
    )


def _share(factory: EngineFactory, config: pytest.Config) -> int:
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    return -(-factory.concurrency // workers) if factory.shared else factory.concurrency


def _register_markers(config: pytest.Config) -> None:
    from pytest_jsbench.verdicts import FailureType

    for kind in FailureType:
        config.addinivalue_line(
            "markers", f"{marker_name(kind)}: set by pytest-jsbench, while it runs, on a case that ended so"
        )


def marker_name(failure_type: str) -> str:
    """The marker, and so the report keyword, of a failure type."""
    return f"jsbench_{failure_type}"


def _describe(factory: EngineFactory, config: EngineConfig, *, tolerant: bool) -> EngineInfo:
    """Who the engine will be; listing the cases does not need it, and leaves open what cannot be found out."""
    try:
        return factory.describe(config)
    except EngineError:
        if not tolerant:
            raise
        response_format = config.response_format or ResponseFormat.JSON_SCHEMA
        return EngineInfo(
            engine=config.name, model=config.model or "default", response_format=response_format, streaming=True
        )


def _metadata(
    settings: Settings, info: EngineInfo, params: GenerationParams, cases: int | None, concurrency: int
) -> RunMetadata:
    now = datetime.now(UTC)
    return RunMetadata(
        run_id=safe_name(f"{now:%Y%m%dT%H%M%SZ}-{safe_name(info.engine)}-{safe_name(info.model)}"),
        started_at=now.isoformat(timespec="seconds"),
        engine=info.engine,
        model=info.model,
        response_format=info.response_format.value,
        streaming=info.streaming,
        provider=info.provider,
        details=info.details,
        params=dataclasses.asdict(params),
        # without the suite, the cases are whatever a project's own tests ask for
        dataset={"source": OWN, "cases": 0} if cases is None else {**settings.selection.to_dict(), "cases": cases},
        prompt=settings.prompt,
        adapt=settings.adapt,
        concurrency=concurrency,
        policy=_builtins(dataclasses.asdict(settings.policy)),
        versions={**_versions(), "python": platform.python_version()},
        host={"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()},
    )


def _builtins(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "unknown"
    return versions


def _folder(config: pytest.Config, settings: Settings, metadata: RunMetadata) -> Path | None:
    """A new folder for the run's files: below --jsbench-output, or in pytest's cache, where the last few runs stay."""
    if settings.output is not None:
        return _new_folder(settings.output, metadata.run_id)
    cache = getattr(config, "cache", None)
    if cache is None:
        return None
    try:
        parent = cache.mkdir("jsbench")
        _prune(parent, keep=_CACHED_RUNS - 1)
        return _new_folder(parent, metadata.run_id)
    except (OSError, pytest.UsageError):  # a cache that cannot be written is pytest's to report
        return None


def _new_folder(parent: Path, name: str) -> Path:
    number = 1
    while True:
        folder = parent / (name if number == 1 else f"{name}.{number}")
        try:
            folder.mkdir(parents=True)
            (folder / "records.jsonl").touch()
        except FileExistsError:
            if parent.is_dir() and number < 1000:
                number += 1
                continue
            message = f"--jsbench-output={parent} is not a folder; name a folder that can be written"
            raise pytest.UsageError(message) from None
        except OSError as error:
            message = f"cannot write to --jsbench-output={parent}: {error.strerror}; name a folder that can be written"
            raise pytest.UsageError(message) from None
        else:
            return folder


def _prune(parent: Path, *, keep: int) -> None:
    import shutil

    runs = sorted(entry for entry in parent.iterdir() if entry.is_dir())
    for folder in runs[: max(0, len(runs) - keep)]:
        shutil.rmtree(folder, ignore_errors=True)
