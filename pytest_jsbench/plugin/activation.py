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
from pytest_jsbench.engines.base import EngineConfig, EngineFactory
from pytest_jsbench.engines.registry import find
from pytest_jsbench.errors import EngineError, JSBenchError
from pytest_jsbench.generations import EngineInfo, GenerationParams, ResponseFormat
from pytest_jsbench.plugin import marks
from pytest_jsbench.plugin.options import given_arguments
from pytest_jsbench.plugin.selection import Selected
from pytest_jsbench.plugin.settings import Settings
from pytest_jsbench.prompts import Template, find_template
from pytest_jsbench.records import RunMetadata

#: the top of every node id of the virtual suite
ROOT = "jsbench"
_CACHED_RUNS = 5
_PACKAGES = ("pytest-jsbench", "pytest", "jsonschema", "jsonschema-rs", "genai-prices")


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
    metadata: RunMetadata
    #: where records are written; None: nowhere
    folder: Path | None
    #: the engine as xdist's controller has prepared it; None where this process prepares it itself
    prepared: EngineConfig | None
    #: xdist's name of this process; None in the only process and in the controller
    worker: str | None
    #: node ids, or beginnings of them, that were asked for on the command line
    chosen: tuple[str, ...]
    #: whether no path was given, so that a project's own tests are not run
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
    marks.register(config, (key.task for key in active.keys))

    from pytest_jsbench.plugin.collection import Suite
    from pytest_jsbench.plugin.worker import Worker

    config.pluginmanager.register(Suite(active), "jsbench-suite")
    config.pluginmanager.register(Worker(config, active), "jsbench-worker")
    if active.worker is None:
        from pytest_jsbench.plugin.controller import Controller
        from pytest_jsbench.plugin.terminal import Terminal

        controller = Controller(config, active)
        config.pluginmanager.register(controller, "jsbench-controller")
        config.pluginmanager.register(Terminal(active, controller), "jsbench-terminal")


def _active(config: pytest.Config) -> Active:
    settings = Settings.from_config(config)
    chosen, suite_only = _take_chosen(config, asked=settings.asked_on_command_line)
    from_controller = _worker_input(config)
    if from_controller is None:
        selected = Selected.open(config, settings.selection)
    else:
        selected = Selected.take(from_controller["selected"], config, settings.selection)
    template = find_template(settings.prompt, shots=settings.shots)
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
    keys = selected.dataset.keys()
    if from_controller is None:
        info = _describe(factory, settings.engine, tolerant=asked_only)
        metadata = _metadata(settings, info, params, template, len(keys), concurrency)
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
        selected=selected,
        keys=keys,
        template=template,
        params=params,
        concurrency=concurrency,
        metadata=metadata,
        folder=folder,
        prepared=prepared,
        worker=getattr(config, "workerinput", {}).get("workerid"),
        chosen=chosen,
        suite_only=suite_only,
        rerun=shlex.join(["pytest", *given_arguments(config)]),
    )


def _take_chosen(config: pytest.Config, *, asked: bool) -> tuple[tuple[str, ...], bool]:
    """
    Take the suite's node ids out of pytest's arguments, which are paths to it.

    An engine named on the command line, without a path, asks for the suite alone. An engine named in the ini file
    adds the suite to whatever pytest would run.
    """
    chosen = tuple(arg for arg in config.args if arg == ROOT or arg.startswith(f"{ROOT}::"))
    chosen = tuple(arg for arg in chosen if not (config.invocation_params.dir / arg).exists())
    if chosen:
        config.args[:] = [arg for arg in config.args if arg not in chosen]
        return chosen, False
    suite_only = asked and config.args_source is not pytest.Config.ArgsSource.ARGS
    if suite_only:
        config.args[:] = []
    return (), suite_only


def _worker_input(config: pytest.Config) -> Mapping[str, Any] | None:
    handed = getattr(config, "workerinput", {}).get("jsbench")
    if handed is None:
        return None
    data: Mapping[str, Any] = json.loads(handed)
    return data


def worker_input(active: Active, prepared: EngineConfig, selected: Mapping[str, Any]) -> str:
    """What a worker cannot find out for itself, as one JSON text (xdist carries builtins only)."""
    return json.dumps(
        {
            "engine": prepared.to_dict(),
            "selected": selected,
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
    settings: Settings, info: EngineInfo, params: GenerationParams, template: Template, cases: int, concurrency: int
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
        dataset={**settings.selection.to_dict(), "cases": cases},
        prompt=template.name,
        prompt_digest=template.digest,
        shots=settings.shots,
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
