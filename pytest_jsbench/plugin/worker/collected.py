"""The tests that would ask an engine, as they were collected: which are to run, and how many are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_jsbench.plugin.session.context import asks
from pytest_jsbench.plugin.worker.items import JSBenchCase

if TYPE_CHECKING:
    import pytest

_KEY = "jsbench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What one process has collected, which is what each of xdist's workers has."""

    #: tests of the project's own that are to run, by node id
    own: tuple[str, ...] = ()
    #: how many are to run, and how many were deselected
    selected: int = 0
    deselected: int = 0

    @classmethod
    def of(cls, items: Iterable[pytest.Item], *, before: int) -> Collected:
        """What is left of so many as there were before."""
        chosen = [item for item in items if would_ask(item)]
        own = tuple(item.nodeid for item in chosen if not isinstance(item, JSBenchCase))
        return cls(own=own, selected=len(chosen), deselected=max(0, before - len(chosen)))

    @property
    def any(self) -> bool:
        """Whether there was any test that would have asked."""
        return self.selected + self.deselected > 0

    def hand_back(self, config: pytest.Config) -> None:
        """Let xdist carry it to the controller, if this is one of its workers."""
        if (output := getattr(config, "workeroutput", None)) is not None:
            output[_KEY] = {"own": list(self.own), "selected": self.selected, "deselected": self.deselected}

    @classmethod
    def from_worker_output(cls, output: Mapping[str, Any]) -> Collected | None:
        """What a worker has handed back; None where it has not."""
        data = output.get(_KEY)
        return None if data is None else cls(**{**data, "own": tuple(data["own"])})


def would_ask(item: pytest.Item) -> bool:
    """Whether the item makes attempts when it runs."""
    return isinstance(item, JSBenchCase) or asks(item)
