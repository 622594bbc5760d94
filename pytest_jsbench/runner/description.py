"""What produced a run, said in the same way whoever runs it: the plugin, or a program."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pytest_jsbench.core.cases import CaseKey, safe_name
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.core.version import __version__
from pytest_jsbench.runs.records import Entry, RunMetadata
from pytest_jsbench.verdicts.judge import JUDGE_VERSION

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import EngineInfo, GenerationParams
    from pytest_jsbench.core.prompts import Template
    from pytest_jsbench.settings.classifiers import Classifier
    from pytest_jsbench.values import Comparer
    from pytest_jsbench.verdicts import JudgePolicy

_PACKAGES = ("jsonschema", "jsonschema-rs", "genai-prices")


def name_run(now: datetime, *names: str) -> str:
    """The name of a run, and of its folder."""
    return safe_name("-".join([f"{now:%Y%m%dT%H%M%SZ}", *map(safe_name, names)]))


def describe_cases(
    said: Mapping[str, object], keys: Sequence[CaseKey], *, revision: str | None, shard: str | None = None
) -> dict[str, Any]:
    """Which cases a run asks; `keys` are those of all shards."""
    return {
        **said,
        "revision": revision,
        "cases": len(keys),
        "cases_digest": digest([str(key) for key in keys]),
        "shard": shard,
    }


def describe_shared(
    now: datetime,
    *,
    entry: Entry,
    dataset: Mapping[str, Any],
    repeats: int,
    policy: JudgePolicy,
    classifiers: Sequence[Classifier],
    comparers: Mapping[str, Comparer],
    redacted: bool,
) -> dict[str, Any]:
    """What all variants of a run have in common."""
    return {
        "uuid": str(uuid4()),
        "started_at": now.isoformat(timespec="seconds"),
        "entry": entry,
        "redacted": redacted,
        "repeats": repeats,
        "dataset": dataset,
        "classifiers": [classifier.name for classifier in classifiers],
        "comparers": {name: comparer.how for name, comparer in comparers.items()},
        "policy": _builtins(asdict(policy)),
        "versions": {**_versions(entry), "python": platform.python_version()},
        "host": {"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()},
    }


def describe_variant(
    shared: Mapping[str, Any],
    now: datetime,
    info: EngineInfo,
    *,
    template: Template,
    shots: int,
    asked: GenerationParams,
    sampled: GenerationParams,
    adapt: str,
    concurrency: int,
    streaming: bool | None = None,
    variant: str = "",
) -> RunMetadata:
    """All that the answers of one way to ask depend on; in `streaming` whether it streams, where the engine errs."""
    return RunMetadata(
        **shared,
        variant=variant,
        run_id=name_run(now, info.engine, info.model),
        engine=info.engine,
        model=info.model,
        response_format=info.response_format.value,
        streaming=info.streaming if streaming is None else streaming,
        provider=info.provider,
        details=info.details,
        params=asdict(sampled),
        asked_params=asdict(asked),
        prompt=template.name,
        prompt_digest=template.digest,
        shots=shots,
        adapt=adapt,
        concurrency=concurrency,
    )


def _builtins(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _versions(entry: Entry) -> dict[str, str]:
    versions = {"pytest-jsbench": __version__, "judge": JUDGE_VERSION}
    for package in ("pytest", *_PACKAGES) if entry is Entry.PYTEST else _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "unknown"
    return versions
