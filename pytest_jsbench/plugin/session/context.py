"""What all parts of the plugin read: settings and session, what a worker is handed, what a test asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_jsbench.core.cases import CaseKey, safe_name
from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.fixture.marker import MarkerArguments
from pytest_jsbench.plugin.session.cases import Marks
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
    """The variant that a project's test asks; empty where the run has one way to ask, or the test is not one."""
    callspec = getattr(item, "callspec", None)
    params = {} if callspec is None else callspec.params
    variant = params.get(FIXTURE, params.get(SHARED))
    return variant if isinstance(variant, str) else ""


def asks(item: pytest.Item) -> bool:
    """Say whether the test asks for the fixture, by itself or through another."""
    return isinstance(item, pytest.Function) and FIXTURE in item.fixturenames


def shares(item: pytest.Item) -> bool:
    """Say whether a fixture of the test asks for answers that several tests look at."""
    return isinstance(item, pytest.Function) and SHARED in item.fixturenames


def read_terms(item: pytest.Item) -> MarkerArguments:
    """The arguments of the test's markers; ContractError where one cannot be read."""
    return MarkerArguments.of((mark.args, mark.kwargs) for mark in item.iter_markers("jsbench"))


def key_of(nodeid: str, variant: str = "") -> CaseKey:
    """The case of a test, the same for all variants: its module, dotted, is the task."""
    path, _, name = nodeid.partition("::")
    name, _, parameters = name.partition("[")
    parameters = parameters.removesuffix("]")
    if variant:
        parameters = parameters.removeprefix(variant).removeprefix("-")
    name = name.replace("::", ".") + (f"-{parameters}" if parameters else "")
    return CaseKey(task=safe_name(path.removesuffix(".py").replace("/", ".")), id=safe_name(name))


def key_of_shared(name: str) -> CaseKey:
    """The case of an answer that tests share by this name; no two names are one case, or a further question of one."""
    key = CaseKey(task=SHARED, id=safe_name(name))
    return key if key.number == 1 else CaseKey(task=SHARED, id=safe_name(f"{name}/"))


_KEY = "jsbench"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInput:
    """The part of a run that a worker cannot find out for itself."""

    handover: Handover
    #: by the variant's name, the engine as the controller has prepared it
    prepared: Mapping[str, EngineConfig] = field(default_factory=dict)
    #: the cases, as the controller has written them down
    selected: Mapping[str, Any] = field(default_factory=dict)
    #: whether xdist may give a worker's tests to another, so that it must not call ahead of them
    steals: bool = False
    #: how many workers make the run's calls
    workers: int = 1

    @classmethod
    def of(cls, config: pytest.Config) -> WorkerInput | None:
        """Read what the controller has handed to this worker; None in any other process."""
        given = getattr(config, "workerinput", {})
        if _KEY not in given:
            return None
        return from_json(cls, json.loads(given[_KEY]), workers=int(given.get("workercount", 1)))

    def hand_to(self, node: Any) -> None:
        """Give it to a worker, as one JSON text: xdist carries builtins only."""
        node.workerinput[_KEY] = json.dumps(to_json(self))
