"""How a run starts, once, in the only process or in xdist's controller: who answers it, its folder, what it resumes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import EngineInfo, ResponseFormat
from pytest_jsbench.datasets.registry import revision_of
from pytest_jsbench.engines.secrets import describe
from pytest_jsbench.metrics.prices import price_of
from pytest_jsbench.plugin.session.folders import run_folder, shared_folder
from pytest_jsbench.plugin.session.handover import Handover
from pytest_jsbench.runner.description import describe_cases, describe_shared, describe_variant, name_run
from pytest_jsbench.runs import journal
from pytest_jsbench.runs.records import Entry, RunMetadata
from pytest_jsbench.runs.redaction import Redaction
from pytest_jsbench.runs.resumption import Resumption, resume
from pytest_jsbench.runs.variants import each, together
from pytest_jsbench.settings.variant import errors_of

if TYPE_CHECKING:
    import pytest

    from pytest_jsbench.plugin.settings import Settings
    from pytest_jsbench.runner.batches import BatchPart
    from pytest_jsbench.settings.plan import Plan
    from pytest_jsbench.settings.variant import Variant

#: the source of the cases of a run without the suite
_PROJECT_SOURCE = "own tests"


def start(config: pytest.Config, settings: Settings, plan: Plan) -> tuple[Handover, Resumption | None]:
    """Make the run's folders and take over an earlier run; a mere listing of the cases writes and reads nothing."""
    metadata = _describe_run(plan, only_lists=settings.only_lists)
    shared = shared_folder(config)
    if settings.only_lists:
        return Handover(metadata=metadata, folder=None, shared=shared, limits=plan.limits), None
    if plan.limits.max_cost is not None:
        variants = each(metadata)
        for described in [one for one in variants if one.provider is not None] or variants:
            with errors_of(described.variant):
                price_of(described)
    for variant in plan.variants.values():
        if variant.recording is not None:
            from pytest_jsbench.engines.recorded.recordings import Recordings

            Recordings(variant.recording.path).require_writable()
    redaction = Redaction.new() if plan.redact else None
    resumption = _resume(plan, metadata)
    batches = _find_batches(resumption, metadata, batch=plan.batch is not None)
    folder = run_folder(config, plan.output, metadata.run_id)
    if folder is not None:
        metadata = dataclasses.replace(metadata, run_id=folder.name)
        if batches:  # before anything else of this run, which from now on is the newest
            from pytest_jsbench.runner.batches import BatchFile

            BatchFile(folder / journal.BATCHES, metadata, batches)
    recorded = None
    if resumption is not None and resumption.metadata is not None:
        metadata = dataclasses.replace(metadata, resumed_from=resumption.metadata.run_id)
        recorded = resumption.write_to(folder or shared, metadata, redaction)
    return (
        Handover(
            metadata=metadata,
            folder=folder,
            shared=shared,
            limits=plan.limits,
            recorded=recorded,
            redaction=redaction,
        ),
        resumption,
    )


def _resume(plan: Plan, metadata: RunMetadata) -> Resumption | None:
    if plan.resume is None:
        return None
    keys = plan.keys if plan.suite else ()
    load = plan.cases.case
    templates = {name: variant.template.render for name, variant in plan.variants.items()}
    return resume(plan.resume, metadata, keys, load=load, templates=templates)


def _find_batches(resumption: Resumption | None, metadata: RunMetadata, *, batch: bool) -> tuple[BatchPart, ...]:
    """The batches that the earlier run has handed in."""
    if resumption is None or not (resumption.folder / journal.BATCHES).exists():
        return ()
    from pytest_jsbench.runner.batches import take_over

    return take_over(resumption.folder, metadata, batch=batch)


def _describe_run(plan: Plan, *, only_lists: bool) -> RunMetadata:
    """All that the answers of this run depend on."""
    now = datetime.now(UTC)
    shared = _describe_shared(plan, now)
    found = [_describe_variant(plan, variant, shared, now, only_lists=only_lists) for variant in plan.variants.values()]
    if list(plan.variants) == [""]:
        return found[0]
    return dataclasses.replace(together(found), run_id=name_run(now, f"{len(found)}-variants"))


def _describe_shared(plan: Plan, now: datetime) -> dict[str, Any]:
    """What all variants have in common."""
    return describe_shared(
        now,
        entry=Entry.PYTEST,
        dataset=_describe_dataset(plan),
        repeats=plan.repeats,
        policy=plan.policy,
        classifiers=plan.classifiers,
        comparers=plan.comparers,
        redacted=plan.redact,
    )


def _describe_variant(
    plan: Plan, variant: Variant, shared: Mapping[str, Any], now: datetime, *, only_lists: bool
) -> RunMetadata:
    with errors_of(variant.name):
        info = _describe_engine(variant, only_lists=only_lists)
    return describe_variant(
        shared,
        now,
        info,
        variant=variant.name,
        template=variant.template,
        shots=variant.shots,
        asked=variant.params,
        sampled=variant.sampled,
        adapt=variant.adapt,
        concurrency=variant.concurrency,
        streaming=info.streaming and plan.batch is None,
    )


def _describe_engine(variant: Variant, *, only_lists: bool) -> EngineInfo:
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


def _describe_dataset(plan: Plan) -> dict[str, Any]:
    if not plan.suite:  # the cases are whatever the project's tests ask
        return {"source": _PROJECT_SOURCE, "cases": 0}
    return describe_cases(
        plan.cases.said,
        plan.cases.source.keys(),
        revision=revision_of(str(plan.cases.said["source"])),
        shard=None if plan.shard is None else str(plan.shard),
    )
