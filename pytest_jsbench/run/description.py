"""Describe everything that affects the answers of a run, in the same way for the plugin and for `evaluate`."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pytest_jsbench.core.cases import safe_name
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import EngineInfo, ResponseFormat
from pytest_jsbench.core.json_values import digest, to_json
from pytest_jsbench.core.version import __version__
from pytest_jsbench.datasets.registry import revision_of
from pytest_jsbench.engines.engine_secrets import describe
from pytest_jsbench.records.metadata import Entry, RunMetadata
from pytest_jsbench.records.questions import combine_variants
from pytest_jsbench.run.variants import errors_of
from pytest_jsbench.verdicts.judge import JUDGE_VERSION

if TYPE_CHECKING:
    from pytest_jsbench.run.plan import Plan
    from pytest_jsbench.run.variants import Variant

_PACKAGES = ("jsonschema", "jsonschema-rs", "genai-prices")
#: Directory that contains one directory per GPU (with NVIDIA's driver for Linux).
_GPUS = Path("/proc/driver/nvidia/gpus")
#: Value of `dataset.source` for a run without the suite.
_PROJECT_SOURCE = "own tests"


def describe_run(plan: Plan, entry: Entry, *, only_lists: bool = False) -> RunMetadata:
    """
    Return the metadata of a run; if the cases are only listed, do not raise an error for an engine that cannot be
    described.
    """
    now = datetime.now(UTC)
    policy = asdict(plan.policy)
    infos: dict[str, EngineInfo] = {}
    for name, variant in plan.variants.items():
        with errors_of(name):
            info = _describe_engine(variant, only_lists=only_lists)
        infos[name] = replace(info, streaming=info.streaming and plan.spec.execution.batch is None)
    names = (infos[""].engine, infos[""].model) if "" in infos else (f"{len(infos)}-variants",)
    shared = partial(
        RunMetadata,
        run_id=safe_name("-".join([f"{now:%Y%m%dT%H%M%SZ}", *map(safe_name, names)])),
        uuid=str(uuid4()),
        started_at=now.isoformat(timespec="seconds"),
        entry=entry,
        redacted=plan.spec.outputs.redact,
        repeats=plan.spec.execution.repeats,
        dataset=_describe_cases(plan),
        classifiers=[classifier.name for classifier in plan.classifiers if not classifier.counts],
        metrics=[classifier.name for classifier in plan.classifiers if classifier.counts],
        comparers={name: comparer.how for name, comparer in plan.comparers.items()},
        policy={name: list(value) if isinstance(value, tuple) else value for name, value in policy.items()},
        versions={**_versions(plan, entry), "python": platform.python_version()},
        host=describe_host(),
        rate="" if plan.load.rate is None else str(plan.load.rate),
        plain_share=plan.load.plain_share,
        slo="" if plan.load.slo is None else str(plan.load.slo),
    )
    described = [
        _describe_variant(variant, infos[name], partial(shared, options=plan.spec.recorded_options(name)))
        for name, variant in plan.variants.items()
    ]
    return described[0] if "" in infos else combine_variants(described)


def _describe_variant(variant: Variant, info: EngineInfo, shared: Callable[..., RunMetadata]) -> RunMetadata:
    """Return the metadata of one variant, as if it were a separate run."""
    return shared(
        variant=variant.name,
        engine=info.engine,
        model=info.model,
        response_format=info.response_format.value,
        streaming=info.streaming,
        provider=info.provider,
        details=info.details,
        params=to_json(variant.sampled),
        asked_params=to_json(variant.params),
        prompt=variant.template.name,
        prompt_digest=variant.template.digest,
        shots=variant.shots,
        adapt=variant.adapt,
        rewrite="" if variant.rewrite is None else str(variant.rewrite),
        concurrency=variant.concurrency,
        repairs="" if variant.repairs is None else str(variant.repairs),
    )


def _describe_engine(variant: Variant, *, only_lists: bool) -> EngineInfo:
    engine = variant.engine
    factory = variant.factory
    try:
        info = describe(factory, engine)
        file = None if only_lists else factory.model_file(engine)
        return info if file is None else replace(info, details={**info.details, "model_digest": _file_digest(file)})
    except EngineError:
        if not only_lists:
            raise
        response_format = engine.response_format or ResponseFormat.JSON_SCHEMA
        return EngineInfo(
            engine=engine.name, model=engine.model or "default", response_format=response_format, streaming=True
        )


def _file_digest(path: Path) -> str:
    """Return the digest of a model file; an unchanged file is read only once per process."""
    status = path.stat()
    return _read_digest(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _read_digest(path: Path, size: int, changed: int) -> str:  # noqa: ARG001  the file is another one with them
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _describe_cases(plan: Plan) -> dict[str, Any]:
    if not plan.suite:  # the project's tests define the cases
        return {"source": _PROJECT_SOURCE, "cases": 0}
    keys = plan.cases.source.keys()  # the keys of all shards
    return {
        **plan.cases.description,
        "revision": revision_of(str(plan.cases.description["source"])),
        "cases": len(keys),
        "cases_digest": digest([str(key) for key in keys]),
        "shard": None if plan.spec.execution.shard is None else str(plan.spec.execution.shard),
    }


def describe_host(gpus: Path = _GPUS) -> dict[str, object]:
    """
    Describe the machine: its memory if the system reports it, and its GPUs if a driver lists them
    in the directory `gpus` (NVIDIA's on Linux).
    """
    host: dict[str, object] = {"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()}
    if hasattr(os, "sysconf"):  # not on Windows
        host["memory_gb"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    lines: list[str] = []
    with contextlib.suppress(OSError):
        for file in sorted(gpus.glob("*/information")):
            lines += file.read_text("utf-8", errors="replace").splitlines()
    models = [line.removeprefix("Model:").strip() for line in lines if line.startswith("Model:")]
    return {**host, "gpus": models} if models else host


def _versions(plan: Plan, entry: Entry) -> dict[str, str]:
    versions = {"pytest-jsbench": __version__, "judge": JUDGE_VERSION}
    # it only counts what a local repair would rescue
    repairs = any(variant.repairs for variant in plan.variants.values()) and find_spec("json_repair") is not None
    packages = (*_PACKAGES, "json-repair") if repairs else _PACKAGES
    for package in ("pytest", *packages) if entry is Entry.PYTEST else packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "unknown"
    return versions
