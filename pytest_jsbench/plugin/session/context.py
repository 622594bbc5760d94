"""Puts the parts together once an engine is named."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.generations import GenerationParams
from pytest_jsbench.core.prompts import Template
from pytest_jsbench.engines.base import EngineConfig, EngineFactory
from pytest_jsbench.plugin.options.settings import Settings
from pytest_jsbench.plugin.session.cases import Selected
from pytest_jsbench.plugin.session.handover import Handover
from pytest_jsbench.plugin.session.secrecy import Secrecy
from pytest_jsbench.runs.records import RunMetadata
from pytest_jsbench.runs.resumption import Recorded, Resumption

if TYPE_CHECKING:
    from pytest_jsbench.reports.registry import Exporter
    from pytest_jsbench.runner.classifiers import Classifier


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
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


RUN_CONTEXT = pytest.StashKey[RunContext]()


def prepare(active: RunContext) -> AbstractContextManager[EngineConfig]:
    """Start what all processes of the run share; where no model is called, nothing."""
    config = active.settings.engine
    return nullcontext(config) if active.selected.labelled is not None else active.factory.prepare(config)


_FIXTURE = "jsbench"


def asks(item: pytest.Item) -> bool:
    """Whether the test asks for the fixture, by itself or through another."""
    return isinstance(item, pytest.Function) and _FIXTURE in item.fixturenames
