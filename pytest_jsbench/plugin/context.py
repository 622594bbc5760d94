"""The run as one process knows it, and how pytest's tests stand to it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pytest_jsbench.core.cases import CaseKey, safe_name
from pytest_jsbench.plugin.cases import Marks
from pytest_jsbench.plugin.settings import Settings
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.settings.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The run as this process knows it."""

    settings: Settings
    session: RunSession
    #: the marks of single cases
    marks: Marks = field(default_factory=dict)
    #: xdist's name of this process; None in the only process and in the controller
    worker: str | None = None
    #: whether xdist may give this worker's tests to another, so that it must not call ahead of them
    steals: bool = False

    @property
    def plan(self) -> Plan:
        """The plan of the run."""
        return self.session.plan

    @property
    def handover(self) -> Handover:
        """The findings of its start."""
        return self.session.handover


RUN_CONTEXT = pytest.StashKey[RunContext]()

#: what a test asks through, and what its fixtures ask through for several tests; with variants both are parametrized
FIXTURE, SHARED = "jsbench", "jsbench_shared"


def variant_of(item: pytest.Item) -> str:
    """Name the variant that a project's test asks; empty where the run has one way to ask, or the test is not one."""
    callspec = getattr(item, "callspec", None)
    params = {} if callspec is None else callspec.params
    variant = params.get(FIXTURE, params.get(SHARED))
    return variant if isinstance(variant, str) else ""


def uses(item: pytest.Item, fixture: str) -> bool:
    """Say whether the test asks for the fixture, by itself or through another."""
    return isinstance(item, pytest.Function) and fixture in item.fixturenames


def key_of(nodeid: str, variant: str = "") -> CaseKey:
    """Name the case of a test, the same for all variants: its module, dotted, is the task."""
    path, _, name = nodeid.partition("::")
    name, _, parameters = name.partition("[")
    parameters = parameters.removesuffix("]")
    if variant:
        parameters = parameters.removeprefix(variant).removeprefix("-")
    name = name.replace("::", ".") + (f"-{parameters}" if parameters else "")
    return CaseKey(task=safe_name(path.removesuffix(".py").replace("/", ".")), id=safe_name(name))
