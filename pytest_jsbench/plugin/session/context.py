"""What all parts of the plugin read: the settings, the plan of the run, and what its processes share."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import pytest

from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.plugin.session.cases import Marks
from pytest_jsbench.plugin.session.handover import Handover
from pytest_jsbench.plugin.settings import Settings
from pytest_jsbench.runs.records import RunMetadata
from pytest_jsbench.runs.resumption import Recorded
from pytest_jsbench.settings.plan import Plan
from pytest_jsbench.settings.variant import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What this process knows of the run; the same in every process but for `worker` and `handover.prepared`."""

    settings: Settings
    plan: Plan
    #: the marks of single cases
    marks: Marks = field(default_factory=dict)
    handover: Handover
    #: what an earlier run has answered; empty where there is none
    recorded: Recorded
    #: xdist's name of this process; None in the only process and in the controller
    worker: str | None

    def metadata_of(self, variant: str) -> RunMetadata:
        """What the answers of a variant depend on, as of a run of its own."""
        return self.handover.metadata.of_variant(variant) if variant else self.handover.metadata


RUN_CONTEXT = pytest.StashKey[RunContext]()


def prepare(context: RunContext, variant: Variant) -> AbstractContextManager[EngineConfig]:
    """Start what all processes of the run share of a variant's engine; where no model is called, nothing."""
    if context.plan.cases.labelled is not None:
        return nullcontext(variant.engine)
    return variant.factory.prepare(variant.engine)


#: what a test asks through, and what its fixtures ask through for several tests; with variants both are parametrized
FIXTURE, SHARED = "jsbench", "jsbench_shared"


def variant_of(item: pytest.Item) -> str:
    """The variant that a project's test asks; empty where the run has one way to ask, or the test is not one."""
    callspec = getattr(item, "callspec", None)
    params = {} if callspec is None else callspec.params
    variant = params.get(FIXTURE, params.get(SHARED))
    return variant if isinstance(variant, str) else ""


def asks(item: pytest.Item) -> bool:
    """Whether the test asks for the fixture, by itself or through another."""
    return isinstance(item, pytest.Function) and FIXTURE in item.fixturenames


def shares(item: pytest.Item) -> bool:
    """Whether a fixture of the test asks for answers that several tests look at."""
    return isinstance(item, pytest.Function) and SHARED in item.fixturenames
