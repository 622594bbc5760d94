"""Provide a scheduler for xdist that sends each worker enough tests for calls ahead of the tests."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest


def scheduler(config: pytest.Config, log: Any, *, ahead: int) -> Any:
    """
    Return an xdist scheduler that keeps `ahead` tests queued at each worker; None if the user chose another scheduler.

    A worker can make calls ahead only for tests that xdist has sent to it. These tests stay with the worker, so that no
    call is made twice; therefore a worker gets only as many tests as it makes calls ahead.
    """
    if config.getoption("dist") == "each":
        message = "--dist=each would make every call once per worker, and keep only one answer; use --dist=load"
        raise pytest.UsageError(message)
    if config.getoption("dist") != "load" or config.getoption("maxschedchunk", None) is not None:
        return None
    from xdist.scheduler import LoadScheduling

    class CreditScheduling(LoadScheduling):  # type: ignore[misc]  # xdist is not typed
        collection: list[str] | None
        credit: int

        def schedule(self) -> None:
            if self.collection is None:
                first, *others = self.node2collection.values()
                if any(other != first for other in others):
                    super().schedule()  # xdist reports that the workers collected different tests, and assigns none
                    return
                self.collection = first
                self.pending[:] = range(len(self.collection) - 1, -1, -1)
                fair = -(-len(self.pending) // max(1, len(self.nodes)))
                self.credit = max(2, min(ahead, fair))
            for node in self.nodes:
                self.check_schedule(node)

        def check_schedule(self, node: Any, duration: float = 0) -> None:  # noqa: ARG002  xdist's signature
            if node.shutting_down or self.collection is None:
                return
            count = min(self.credit - len(self.node2pending[node]), len(self.pending))
            indices = [self.pending.pop() for _ in range(count)]
            if indices:
                self.node2pending[node].extend(indices)
                # sending fails if the worker has just died; xdist will assign its tests again
                with contextlib.suppress(OSError):
                    node.send_runtest_some(indices)
            if not self.pending:
                node.shutdown()

        def mark_test_pending(self, item: str) -> None:
            assert self.collection is not None
            self.pending.append(self.collection.index(item))
            for node in self.node2pending:
                self.check_schedule(node)

    return CreditScheduling(config, log)
