"""Pass the results of a run's start to every process of the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.redaction import Redaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """Results of a run's start, which the other processes of the run cannot compute themselves."""

    metadata: RunMetadata
    #: Directory of the run's files; None if they are not kept.
    folder: Path | None
    #: Directory through which the processes communicate while the run lasts.
    shared: Path
    #: File with the records of an earlier run; None for a new run.
    recorded: Path | None = None
    #: Replaces texts in records by digests; None if the run is not redacted.
    redaction: Redaction | None = None

    @property
    def records(self) -> Path:
        """
        Directory of the records while the run lasts: the run's directory, or the shared directory if the run's files
        are not kept.
        """
        return self.shared if self.folder is None else self.folder

    @property
    def answers(self) -> Path:
        """File with the answers from a provider's batches."""
        return self.shared / "batch.jsonl"

    @property
    def interrupted(self) -> Path:
        """File whose existence shows that the run was interrupted, so that no process makes further calls."""
        return self.shared / "interrupted"
