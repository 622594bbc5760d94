"""How a run starts, once, in the only process or in xdist's controller: who answers it, its folder, what it resumes."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pytest_jsbench.core.cases import safe_name
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import EngineInfo, ResponseFormat
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.core.version import __version__
from pytest_jsbench.datasets.registry import revision_of
from pytest_jsbench.engines.secrets import describe
from pytest_jsbench.metrics.prices import price_of
from pytest_jsbench.plugin.session.folders import run_folder, shared_folder
from pytest_jsbench.plugin.session.handover import Handover
from pytest_jsbench.plugin.session.plan import errors_of
from pytest_jsbench.plugin.session.remote_journals import Fetched, fetch
from pytest_jsbench.runs import journal
from pytest_jsbench.runs.outcomes import Records
from pytest_jsbench.runs.records import RunMetadata
from pytest_jsbench.runs.redaction import Redaction
from pytest_jsbench.runs.resumption import Resumption, resume
from pytest_jsbench.runs.variants import each, together
from pytest_jsbench.verdicts.judge import JUDGE_VERSION

if TYPE_CHECKING:
    import pytest

    from pytest_jsbench.plugin.options.settings import Settings
    from pytest_jsbench.plugin.session.plan import Plan, VariantPlan
    from pytest_jsbench.runner.batches.ledger import BatchPart
    from pytest_jsbench.runs.outcomes import Place
    from pytest_jsbench.runs.records import Record

#: the source of the cases of a run without the suite
_PROJECT_SOURCE = "own tests"
_PACKAGES = ("pytest", "jsonschema", "jsonschema-rs", "genai-prices")


def start(config: pytest.Config, settings: Settings, plan: Plan) -> tuple[Handover, Resumption | None]:
    """Make the run's folders and take over an earlier run; a mere listing of the cases writes and reads nothing."""
    metadata = _describe_run(settings, plan)
    shared = shared_folder(config)
    if settings.only_lists:
        return Handover(metadata=metadata, folder=None, shared=shared, limits=settings.limits), None
    if settings.limits.max_cost is not None:
        variants = each(metadata)
        for variant in [one for one in variants if one.provider is not None] or variants:
            with errors_of(variant.variant):
                price_of(variant)
    redaction = Redaction.new() if settings.redact else None
    fetched = _fetch(config, settings, shared)
    resumption = _resume(settings, plan, metadata, fetched)
    batches = _find_batches(resumption, metadata, batch=settings.batch is not None)
    folder = run_folder(config, settings.output, metadata.run_id)
    if folder is not None:
        metadata = dataclasses.replace(metadata, run_id=folder.name)
        _keep_batches(folder, metadata, batches)
    recorded = None
    if resumption is not None and resumption.metadata is not None:
        metadata = dataclasses.replace(metadata, resumed_from=resumption.metadata.run_id)
        recorded = _keep_records(folder or shared, resumption, metadata, redaction)
    return (
        Handover(
            metadata=metadata,
            folder=folder,
            shared=shared,
            limits=settings.limits,
            recorded=recorded,
            redaction=redaction,
            collected=fetched.journals if folder is not None else (),
        ),
        resumption,
    )


def _fetch(config: pytest.Config, settings: Settings, shared: Path) -> Fetched:
    """What workers on other machines have kept of the run that this one goes on with."""
    return Fetched() if settings.resume is None else fetch(config, journal.run_ids(settings.resume), shared)


def _resume(settings: Settings, plan: Plan, metadata: RunMetadata, fetched: Fetched) -> Resumption | None:
    if settings.resume is None:
        return None
    keys = plan.keys if settings.targets.suite else ()
    load = plan.selected.dataset.case
    templates = {name: variant.template.render for name, variant in plan.variants.items()}
    return resume(settings.resume, metadata, keys, load=load, templates=templates, elsewhere=fetched.files)


def _find_batches(resumption: Resumption | None, metadata: RunMetadata, *, batch: bool) -> tuple[BatchPart, ...]:
    """The batches that the earlier run has handed in."""
    if resumption is None or not (resumption.folder / journal.BATCHES).exists():
        return ()
    from pytest_jsbench.runner.batches.ledger import take_over

    return take_over(resumption.folder, metadata, batch=batch)


def _keep_batches(folder: Path, metadata: RunMetadata, batches: tuple[BatchPart, ...]) -> None:
    """Write the earlier run's batches down before anything else of this run: from now on this run is the newest."""
    if batches:
        from pytest_jsbench.runner.batches.ledger import BatchFile

        BatchFile(folder / journal.BATCHES, metadata, batches)


def _keep_records(folder: Path, resumption: Resumption, ours: RunMetadata, redaction: Redaction | None) -> Path:
    """Write the earlier run's records beside the new ones, so that this run can be resumed in its turn."""
    assert resumption.metadata is not None
    earlier = dataclasses.replace(ours if resumption.renamed else resumption.metadata, redacted=redaction is not None)
    answers = (*resumption.answers, *resumption.project_answers)
    kept: Iterable[Place | Record] = (outcome.source for outcome in answers)
    if redaction is not None or resumption.renamed:
        kept = (record if redaction is None else redaction.record(record) for record in Records(answers))
    journal.write(folder / journal.RESUMED, earlier, kept)
    return folder / journal.RESUMED


def _describe_run(settings: Settings, plan: Plan) -> RunMetadata:
    """All that the answers of this run depend on."""
    now = datetime.now(UTC)
    shared = _describe_shared(settings, plan, now)
    found = [_describe_variant(settings, variant, shared, now) for variant in plan.variants.values()]
    if list(plan.variants) == [""]:
        return found[0]
    return dataclasses.replace(together(found), run_id=_run_id(now, f"{len(found)}-variants"))


def _run_id(now: datetime, *names: str) -> str:
    return safe_name("-".join([f"{now:%Y%m%dT%H%M%SZ}", *map(safe_name, names)]))


def _describe_shared(settings: Settings, plan: Plan, now: datetime) -> dict[str, Any]:
    """What all variants have in common."""
    return {
        "uuid": str(uuid4()),
        "started_at": now.isoformat(timespec="seconds"),
        "redacted": settings.redact,
        "repeats": settings.repeats,
        "dataset": _describe_dataset(settings, plan),
        "classifiers": [classifier.name for classifier in plan.classifiers],
        "policy": _builtins(dataclasses.asdict(settings.policy)),
        "versions": {**_versions(), "python": platform.python_version()},
        "host": {"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()},
    }


def _describe_variant(
    settings: Settings, variant: VariantPlan, shared: Mapping[str, Any], now: datetime
) -> RunMetadata:
    with errors_of(variant.name):
        info = _describe_engine(variant, only_lists=settings.only_lists)
    return RunMetadata(
        **shared,
        variant=variant.name,
        run_id=_run_id(now, info.engine, info.model),
        engine=info.engine,
        model=info.model,
        response_format=info.response_format.value,
        streaming=info.streaming and settings.batch is None,
        provider=info.provider,
        details=info.details,
        params=dataclasses.asdict(variant.sampled),
        asked_params=dataclasses.asdict(variant.params),
        prompt=variant.template.name,
        prompt_digest=variant.template.digest,
        shots=variant.settings.shots,
        adapt=variant.settings.adapt,
        concurrency=variant.concurrency,
    )


def _describe_engine(variant: VariantPlan, *, only_lists: bool) -> EngineInfo:
    """Who the engine will be; listing the cases does not need it, and leaves open what cannot be found out."""
    engine = variant.engine
    try:
        return describe(variant.factory, engine)
    except EngineError:
        if not only_lists:
            raise
        response_format = engine.response_format or ResponseFormat.JSON_SCHEMA
        return EngineInfo(
            engine=engine.name, model=engine.model or "default", response_format=response_format, streaming=True
        )


def _describe_dataset(settings: Settings, plan: Plan) -> dict[str, Any]:
    if not settings.targets.suite:  # the cases are whatever the project's tests ask
        return {"source": _PROJECT_SOURCE, "cases": 0}
    keys = plan.selected.dataset.keys()  # of all shards
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
    versions = {"pytest-jsbench": __version__, "judge": JUDGE_VERSION}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "unknown"
    return versions
