"""Says when calls wait for a provider, when it answers again, and when the run has given up on it."""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.plugin.controller.progress import is_watched, write_line
from pytest_jsbench.runner.limits_file import LimitsFile

if TYPE_CHECKING:
    from pytest_jsbench.plugin.session.context import RunContext
    from pytest_jsbench.runner.provider_state import ProviderState

#: seconds between two looks
_INTERVAL = 1.0


class ProviderWatch:
    """
    Looks at the run's shared limits once a second, and writes a line where something has changed.

    The activation makes one beside the controller. It looks in a thread of its own, from the start of the test loop to
    the end of the session, since the main thread has nothing to do while all calls wait. Being down and being given up
    is said to everybody; being slowed down only where a person watches.
    """

    def __init__(self, config: pytest.Config, context: RunContext) -> None:
        self._config = config
        self._context = context
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="jsbench-providers", daemon=True)
        #: what was last said of each provider, without its numbers
        self._said: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Begin to look."""
        if not self._context.settings.only_looks and self._config.option.verbose >= 0:
            self._thread.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Look a last time, and no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        limits = self._context.handover.shared_limits()
        if not isinstance(limits, LimitsFile):
            return
        while not self._ended.wait(_INTERVAL):
            self._look(limits)
        self._look(limits)
        limits.close()

    def _look(self, limits: LimitsFile) -> None:
        try:
            states = limits.providers()
        except sqlite3.Error:  # the calls themselves say what is wrong with the file
            return
        for name, state in states.items():
            if line := self.line(name, state, watched=is_watched(self._config)):
                write_line(self._config, f"jsbench: {line}")

    def line(self, name: str, state: ProviderState, *, watched: bool) -> str:
        """What is to be said now of a provider; empty where that was said before, or nothing is to be said."""
        before = self._said.get(name, "")
        now = "given up" if state.given_up else "down" if state.down else "slow" if state.share < 1 else ""
        if now == before or (now == "slow" and not watched and before != "down"):
            return ""
        self._said[name] = now
        if before == "down" and now in ("", "slow"):
            return f"{name} answers again"
        if before == "slow" and not now:
            return f"{name} takes as many calls as before" if watched else ""
        return f"{name}: {state.describe(time.monotonic())}"
