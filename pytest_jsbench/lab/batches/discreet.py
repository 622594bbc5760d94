"""Batches in which no secret of the run is said: neither by what they raise nor by what they hold."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.secrets import errors_freed, out_of_fault, out_of_generation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.core.secrets import Secrets
    from pytest_jsbench.engines.base import Batches, BatchFactory, BatchLimits, BatchState, EngineConfig, Result


def build_batches(factory: BatchFactory, config: EngineConfig) -> Batches:
    """The factory's batches, with the secrets of the run replaced in what they say."""
    with errors_freed(config) as secrets:
        return DiscreetBatches(factory.build_batches(config), secrets)


class DiscreetBatches:
    """Submits batches, and replaces each secret of the run in what the provider says of them."""

    def __init__(self, batches: Batches, secrets: Secrets) -> None:
        self._batches = batches
        self._secrets = secrets

    @property
    def limits(self) -> BatchLimits:
        """The most that one batch may hold."""
        return self._batches.limits

    def line(self, name: str, request: Request) -> bytes:
        """The request as the batch holds it."""
        return self._batches.line(name, request)

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """Upload the requests; the function that is returned creates the batch and gives its id, to be written down."""
        with _faults_freed(self._secrets):
            create = self._batches.upload(lines)

        def created() -> str:
            with _faults_freed(self._secrets):
                batch = create()
            if self._secrets.out_of_message(batch) != batch:
                raise CallError(FaultKind.BAD_RESPONSE, "the batch's id holds a secret of this run, and is not kept")
            return batch

        return created

    def state(self, batch: str) -> BatchState:
        """The progress of a batch."""
        with _faults_freed(self._secrets):
            state = self._batches.state(batch)
        left = state.unanswered
        return state if left is None else replace(state, unanswered=out_of_generation(left, self._secrets))

    def results(self, batch: str) -> Iterator[Result]:
        """The result of each of its requests, by the request's name."""
        with _faults_freed(self._secrets):
            for name, result in self._batches.results(batch):
                yield self._secrets.out_of_message(name), out_of_generation(result, self._secrets)

    def close(self) -> None:
        """Close the provider's client."""
        self._batches.close()


@contextmanager
def _faults_freed(secrets: Secrets) -> Iterator[None]:
    try:
        yield
    except CallError as error:
        raise out_of_fault(error, secrets) from None
