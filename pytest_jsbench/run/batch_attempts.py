"""
Interface of batch support, which an extension implements: the run's attempts are submitted as batches of a provider.
The extension is found through an entry point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_jsbench.core.errors import BatchError
from pytest_jsbench.core.extensions import extension

if TYPE_CHECKING:
    import threading

    from pytest_jsbench.core.generations import EngineInfo
    from pytest_jsbench.engines.base import BatchState, Engine
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.records import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPart:
    """A batch of requests that was or will be submitted to a provider."""

    #: Id assigned by the provider; None from just before the submission until the provider has confirmed the batch.
    id: str | None
    #: Time of the submission, ISO 8601 in UTC.
    handed_in_at: str
    #: Names of the batch's requests.
    requests: tuple[str, ...]
    #: True once the results have been read; requests that failed may then be submitted again.
    ended: bool = False


class Batching(Protocol):
    """The batches of one run, in the process that started the run."""

    def make(
        self,
        attempts: Iterable[Attempt],
        *,
        handed_in: Callable[[BatchPart], None] = ...,
        progress: Callable[[BatchState], None] = ...,
        stopped: threading.Event = ...,
    ) -> None:
        """
        Submit the attempts, wait as configured, and write the answers to a file that all processes of the run read.

        Any thread may set `stopped`: then no more batches are submitted, and the method returns.
        """

    def waiting(self) -> list[BatchPart]:
        """Return the unfinished batches that contain a request of this run."""

    def doubts(self, folder: Path) -> list[str]:
        """
        Return one line for each batch whose id is unknown, with the next steps for the user; the lines name `folder`,
        the run's directory.
        """


class BatchSupport(Protocol):
    """The steps of a run that differ if the run uses batches."""

    def take_over(self, source: Path, metadata: RunMetadata, *, batch: bool) -> tuple[BatchPart, ...]:
        """Read the batches of an earlier run; raise ResumeError if the batches cannot be resumed."""

    def keep(self, folder: Path, metadata: RunMetadata, parts: Sequence[BatchPart]) -> None:
        """Write the batches of an earlier run into this run's directory."""

    def is_unfinished(self, folder: Path) -> bool:
        """Return whether the files in a run's directory name a batch whose results have not been read."""

    def batching(self, session: Any) -> Batching:
        """Return the batching for the attempts of a `RunSession`."""

    def engine(self, answers: Path, info: EngineInfo) -> Engine:
        """Return an engine that reads its answers from the file of batch answers."""


def load_batch_support() -> BatchSupport:
    """Load the extension that implements batches."""
    support: BatchSupport = extension("batch_room", "provider", error=BatchError)
    return support
