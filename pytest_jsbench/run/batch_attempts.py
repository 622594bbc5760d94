"""A run's attempts as batches of a provider, which a room hands in that an entry point finds."""

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
    """A batch of requests."""

    #: None from just before it is submitted until the provider has answered with its id
    id: str | None
    #: ISO 8601, UTC
    handed_in_at: str
    #: the names of its requests
    requests: tuple[str, ...]
    #: whether its results have been read; what failed in it may then be asked again
    ended: bool = False


class Batching(Protocol):
    """The batches of one run, in the process that started it."""

    def make(
        self,
        attempts: Iterable[Attempt],
        *,
        handed_in: Callable[[BatchPart], None] = ...,
        progress: Callable[[BatchState], None] = ...,
        stopped: threading.Event = ...,
    ) -> None:
        """
        Hand the attempts in, wait as the plan says, and write what is answered where the processes find it.

        Once it is stopped, by any thread, nothing more is handed in or waited for.
        """

    def waiting(self) -> list[BatchPart]:
        """Return the batches that hold a request of this run and have not ended."""

    def doubts(self, folder: Path) -> list[str]:
        """Say, of each batch without a known id, what a user is to do; the run's folder as it is to be shown."""


class BatchRoom(Protocol):
    """The steps of a run in which batches have a part."""

    def take_over(self, source: Path, metadata: RunMetadata, *, batch: bool) -> tuple[BatchPart, ...]:
        """Read the batches of an earlier run; ResumeError where they cannot be gone on with."""

    def keep(self, folder: Path, metadata: RunMetadata, parts: Sequence[BatchPart]) -> None:
        """Write them into the folder of this run."""

    def is_unfinished(self, folder: Path) -> bool:
        """Look whether a run's folder names a batch with results that have not been read."""

    def batching(self, session: Any) -> Batching:
        """Make what hands in the attempts of a `RunSession`."""

    def engine(self, answers: Path, info: EngineInfo) -> Engine:
        """Make an engine that answers from the file of answers."""


def batch_room() -> BatchRoom:
    """Find the room."""
    room: BatchRoom = extension("batch_room", "provider", error=BatchError)
    return room
