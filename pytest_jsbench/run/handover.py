"""The start of a run hands its findings to each process of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.redaction import Redaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The findings of a run's start, which none of its other processes can make for itself."""

    metadata: RunMetadata
    #: where records are written; None: nowhere
    folder: Path | None
    #: what its processes tell each other while the run lasts
    shared: Path
    #: the records of an earlier run; None: there are none
    recorded: Path | None = None
    #: what replaces texts of records by digests; None: they are written as they are
    redaction: Redaction | None = None

    @property
    def records(self) -> Path:
        """The folder of the records while the run lasts: where nothing is kept, that which the processes share."""
        return self.shared if self.folder is None else self.folder

    @property
    def answers(self) -> Path:
        """The answers of a provider's batches, where the cases are handed in as such."""
        return self.shared / "batch.jsonl"

    @property
    def interrupted(self) -> Path:
        """A file that is there once the run is interrupted, so that no process calls any more."""
        return self.shared / "interrupted"
