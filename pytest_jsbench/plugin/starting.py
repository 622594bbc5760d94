"""What happens once, where a run is started: its folder, what it takes over of an earlier one, what it may cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench import journal
from pytest_jsbench.cases import CaseKey
from pytest_jsbench.plugin.folders import run_folder, shared_folder
from pytest_jsbench.plugin.handover import Handover
from pytest_jsbench.prices import price_of
from pytest_jsbench.redaction import Redaction
from pytest_jsbench.resumption import Resumption, resume

if TYPE_CHECKING:
    from pytest_jsbench.batching.file import Part
    from pytest_jsbench.datasets.base import Dataset
    from pytest_jsbench.plugin.settings import Settings
    from pytest_jsbench.prompts import PromptTemplate
    from pytest_jsbench.records import RunMetadata


def start(
    config: pytest.Config,
    settings: Settings,
    metadata: RunMetadata,
    dataset: Dataset,
    keys: Sequence[CaseKey],
    *,
    template: PromptTemplate,
    listing: bool,
) -> tuple[Handover, Resumption | None]:
    """Make ready for a run; a mere listing of its cases writes and reads nothing."""
    shared = shared_folder(config)
    if listing:
        return Handover(metadata=metadata, folder=None, shared=shared, limits=settings.limits), None
    if settings.limits.max_cost is not None:
        price_of(metadata)
    redaction = Redaction.new() if settings.redact else None
    resumption = None
    if settings.resume is not None:
        resumption = resume(settings.resume, metadata, keys, load=dataset.case, template=template, redaction=redaction)
    earlier = _batches(resumption, metadata, batch=settings.batch is not None)
    folder = run_folder(config, settings.output, metadata.run_id)
    if folder is not None:
        metadata = dataclasses.replace(metadata, run_id=folder.name)
    if earlier and folder is not None:
        from pytest_jsbench.batching.file import BatchFile

        # before anything else of this run is there: from now on it is the newest
        BatchFile(folder / journal.BATCHES, metadata, earlier)
    recorded = None
    if resumption is not None and resumption.metadata is not None:
        metadata = dataclasses.replace(metadata, resumed_from=resumption.metadata.run_id)
        # kept beside the new records, so that this run can be gone on with in its turn
        recorded = (folder or shared) / journal.RESUMED
        earlier_run = dataclasses.replace(resumption.metadata, redacted=settings.redact)
        journal.write(recorded, earlier_run, (*resumption.records, *resumption.own))
    return (
        Handover(
            metadata=metadata,
            folder=folder,
            shared=shared,
            limits=settings.limits,
            recorded=recorded,
            redaction=redaction,
        ),
        resumption,
    )


def _batches(resumption: Resumption | None, metadata: RunMetadata, *, batch: bool) -> tuple[Part, ...]:
    """The batches that the earlier run has handed in."""
    if resumption is None or not (resumption.folder / journal.BATCHES).exists():
        return ()
    from pytest_jsbench.batching.file import take_over

    return take_over(resumption.folder, metadata, batch=batch)
