"""What holds for a whole run: found out once, where it is started, and handed to xdist's workers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.files import private
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.plugin.session.folders import shared_folder
from pytest_jsbench.plugin.session.remote_journals import RemoteJournal, is_elsewhere
from pytest_jsbench.runner.rate_limits import RateLimits, SharedLimits
from pytest_jsbench.runs import redaction
from pytest_jsbench.runs.journal import RESUMED
from pytest_jsbench.runs.records import RunMetadata
from pytest_jsbench.runs.redaction import Redaction

if TYPE_CHECKING:
    from pytest_jsbench.runner.limits_address import LimitsAddress

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
    #: where the limits are asked for; None: in the file that the processes of this machine share
    limits_at: LimitsAddress | None = None
    #: whether xdist may give a worker's tests to another, so that it must not call ahead of them
    steals: bool = False
    #: how many workers make the run's calls; 1 in the only process
    workers: int = 1
    #: whether where reports land cannot read what this process writes: it is on another machine
    apart: bool = False
    #: journals on other machines that an earlier run left, and that are in `recorded` now
    collected: tuple[RemoteJournal, ...] = ()
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

    def shared_limits(self) -> SharedLimits:
        """The run's limits, as this process reaches them."""
        if self.limits_at is not None:
            from pytest_jsbench.runner.limits_address import RemoteLimits

            return RemoteLimits(self.limits_at, self.limits)
        from pytest_jsbench.runner.limits_file import LimitsFile

        return LimitsFile(self.shared / "limits.db", self.limits)

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
            limits_at=_limits_at(data["limits_at"]),
            recorded=None if recorded is None else Path(recorded),
            redaction=redaction.from_dict(data["redaction"]),
            selected=data["selected"],
            steals=data["steals"],
            workers=int(getattr(config, "workerinput", {}).get("workercount", 1)),
            apart=data["apart"],
            prepared={name: EngineConfig.from_dict(engine) for name, engine in data["engines"].items()},
        )

    def hand_to(
        self,
        node: Any,
        prepared: Mapping[str, EngineConfig],
        selected: Mapping[str, Any],
        serve_limits: Callable[[], LimitsAddress] | None = None,
        folder: str | None = None,
    ) -> None:
        """
        Give it to a worker, as one JSON text (xdist carries builtins only).

        A worker on another machine (`is_remote`) sees no file of ours: it is sent the earlier records, sends its own,
        and writes them to the folder on its machine. It asks for the limits at the address that `serve_limits` names;
        without one each worker gets its share of the limits for itself alone, those of this machine too.
        """
        remote = is_remote(node)
        apart = serve_limits is None and any(map(is_elsewhere, node.nodemanager.specs))
        kept = None if self.folder is None else str(self.folder)
        limits = self.limits.shared_by(len(node.nodemanager.specs)) if apart else self.limits
        node.workerinput[_KEY] = json.dumps(
            {
                "engines": {name: engine.to_dict() for name, engine in prepared.items()},
                "redaction": redaction.to_dict(self.redaction),
                "selected": selected,
                "steals": node.config.getoption("dist") == "worksteal",
                "metadata": self.metadata.to_dict(),
                "folder": folder if remote else kept,
                "apart": remote or (apart and kept is None),
                "shared": None if apart or remote else str(self.shared),
                "limits": dataclasses.asdict(limits),
                "limits_at": dataclasses.asdict(serve_limits()) if remote and serve_limits is not None else None,
                "recorded": None if self.recorded is None or remote else str(self.recorded),
                "records": _text(self.recorded) if self.recorded is not None and remote else None,
            }
        )


def _limits_at(data: Mapping[str, Any] | None) -> LimitsAddress | None:
    if data is None:
        return None
    from pytest_jsbench.runner.limits_address import LimitsAddress

    return LimitsAddress(**data)


def is_remote(node: Any) -> bool:
    """Whether one of xdist's workers may be on another machine."""
    return is_elsewhere(node.gateway.spec)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        message = f"cannot read {path}: {error}"
        raise JSBenchError(message, where=path) from error
