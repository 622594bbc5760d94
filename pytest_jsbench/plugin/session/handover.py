"""What holds for a whole run: found out once, where it is started, and handed to xdist's workers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.runs import redaction
from pytest_jsbench.runs.records import RunMetadata
from pytest_jsbench.runs.redaction import Redaction
from pytest_jsbench.settings.plan import RateLimits

if TYPE_CHECKING:
    from pytest_jsbench.runner.limits import LimitsFile

_KEY = "jsbench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """What the processes of a run share, and a worker cannot find out for itself."""

    metadata: RunMetadata
    #: where records are written; None: nowhere
    folder: Path | None
    #: what its processes tell each other while the run lasts
    shared: Path
    limits: RateLimits
    #: the records of an earlier run; None: there are none
    recorded: Path | None = None
    #: what replaces texts of records by digests; None: they are written as they are
    redaction: Redaction | None = None
    #: the cases, as the controller has written them down
    selected: Mapping[str, Any] = field(default_factory=dict)
    #: whether xdist may give a worker's tests to another, so that it must not call ahead of them
    steals: bool = False
    #: how many workers make the run's calls; 1 in the only process
    workers: int = 1
    #: by the variant's name, the engine as xdist's controller has prepared it; none where this process does it itself
    prepared: Mapping[str, EngineConfig] = field(default_factory=dict)

    @property
    def records(self) -> Path:
        """Where records are while the run lasts: where nothing is kept, they go with what the processes share."""
        return self.shared if self.folder is None else self.folder

    @property
    def answers(self) -> Path:
        """What a provider's batches have brought, where the cases are handed in as such."""
        return self.shared / "batch.jsonl"

    @property
    def interrupted(self) -> Path:
        """Where a file is once the run is interrupted, so that no process calls any more."""
        return self.shared / "interrupted"

    def shared_limits(self) -> LimitsFile:
        """Open the file of the run's limits, which all of its processes share."""
        from pytest_jsbench.runner.limits import LimitsFile

        return LimitsFile(self.shared / "limits.db", self.limits)

    @classmethod
    def from_worker_input(cls, config: pytest.Config) -> Handover | None:
        """What the controller has handed to this worker; None in any other process."""
        text = getattr(config, "workerinput", {}).get(_KEY)
        if text is None:
            return None
        data: Mapping[str, Any] = json.loads(text)
        return cls(
            metadata=RunMetadata.from_dict(data["metadata"]),
            folder=None if data["folder"] is None else Path(data["folder"]),
            shared=Path(data["shared"]),
            limits=RateLimits(**data["limits"]),
            recorded=None if data["recorded"] is None else Path(data["recorded"]),
            redaction=redaction.from_dict(data["redaction"]),
            selected=data["selected"],
            steals=data["steals"],
            workers=int(getattr(config, "workerinput", {}).get("workercount", 1)),
            prepared={name: EngineConfig.from_dict(engine) for name, engine in data["engines"].items()},
        )

    def hand_to(self, node: Any, prepared: Mapping[str, EngineConfig], selected: Mapping[str, Any]) -> None:
        """Give it to a worker, as one JSON text: xdist carries builtins only."""
        node.workerinput[_KEY] = json.dumps(
            {
                "engines": {name: engine.to_dict() for name, engine in prepared.items()},
                "redaction": redaction.to_dict(self.redaction),
                "selected": selected,
                "steals": node.config.getoption("dist") == "worksteal",
                "metadata": self.metadata.to_dict(),
                "folder": None if self.folder is None else str(self.folder),
                "shared": str(self.shared),
                "limits": dataclasses.asdict(self.limits),
                "recorded": None if self.recorded is None else str(self.recorded),
            }
        )
