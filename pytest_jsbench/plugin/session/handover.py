"""What holds for a whole run: found out once, where it is started, and handed to xdist's workers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.files import private
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.plugin.session.folders import shared_folder
from pytest_jsbench.runner.rate_limits import RateLimits
from pytest_jsbench.runs import redaction
from pytest_jsbench.runs.journal import RESUMED
from pytest_jsbench.runs.records import RunMetadata
from pytest_jsbench.runs.redaction import Redaction

_KEY = "jsbench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """What the processes of a run share, and a worker cannot find out for itself."""

    metadata: RunMetadata
    #: where records are written; None: nowhere
    folder: Path | None
    #: what the processes on this machine tell each other while the run lasts
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
    #: whether where reports land cannot read what this process writes: it is on another machine
    apart: bool = False
    #: the engine as xdist's controller has prepared it; None where this process prepares it itself
    prepared: EngineConfig | None = None

    @property
    def records(self) -> Path:
        """Where records are while the run lasts: where nothing is kept, they go with what the processes share."""
        return self.shared if self.folder is None else self.folder

    @property
    def answers(self) -> Path:
        """What a provider's batches have brought, where the cases are handed in as such."""
        return self.shared / "batch.jsonl"

    @classmethod
    def from_worker_input(cls, config: pytest.Config) -> Handover | None:
        """What the controller has handed to this worker; None in any other process."""
        text = getattr(config, "workerinput", {}).get(_KEY)
        if text is None:
            return None
        data: Mapping[str, Any] = json.loads(text)
        shared = shared_folder(config) if data["shared"] is None else Path(data["shared"])
        if data["records"] is not None:
            private(shared / RESUMED).write_text(data["records"], encoding="utf-8")
        recorded = shared / RESUMED if data["records"] is not None else data["recorded"]
        return cls(
            metadata=RunMetadata.from_dict(data["metadata"]),
            folder=None if data["folder"] is None else Path(data["folder"]),
            shared=shared,
            limits=RateLimits(**data["limits"]),
            recorded=None if recorded is None else Path(recorded),
            redaction=redaction.from_dict(data["redaction"]),
            selected=data["selected"],
            steals=data["steals"],
            workers=int(getattr(config, "workerinput", {}).get("workercount", 1)),
            apart=data["folder"] is None and data["shared"] is None,
            prepared=EngineConfig.from_dict(data["engine"]),
        )

    def hand_to(self, node: Any, prepared: EngineConfig, selected: Mapping[str, Any]) -> None:
        """
        Give it to a worker, as one JSON text (xdist carries builtins only).

        A worker on another machine sees no file of ours: it is sent the records, writes none (`is_remote`), and gets
        its share of the limits for itself alone; and so do all then.
        """
        remote, apart = is_remote(node), any(map(_is_remote, node.nodemanager.specs))
        limits = self.limits.shared_by(len(node.nodemanager.specs)) if apart else self.limits
        node.workerinput[_KEY] = json.dumps(
            {
                "engine": prepared.to_dict(),
                "redaction": redaction.to_dict(self.redaction),
                "selected": selected,
                "steals": node.config.getoption("dist") == "worksteal",
                "metadata": self.metadata.to_dict(),
                "folder": None if self.folder is None or remote else str(self.folder),
                "shared": None if apart else str(self.shared),
                "limits": dataclasses.asdict(limits),
                "recorded": None if self.recorded is None or remote else str(self.recorded),
                "records": _text(self.recorded) if self.recorded is not None and remote else None,
            }
        )


def is_remote(node: Any) -> bool:
    """Whether one of xdist's workers may be on another machine."""
    return _is_remote(node.gateway.spec)


def _is_remote(spec: Any) -> bool:
    return not getattr(spec, "popen", None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        message = f"cannot read {path}: {error}"
        raise JSBenchError(message, where=path) from error
