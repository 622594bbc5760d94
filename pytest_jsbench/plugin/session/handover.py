"""Xdist's controller hands its workers the start of the run, its engines as they are prepared, and its cases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.runner.handover import Handover

if TYPE_CHECKING:
    import pytest

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
