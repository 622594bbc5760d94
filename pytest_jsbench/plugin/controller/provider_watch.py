"""Says when calls wait for a provider, when it answers again, and when the run has given up on it."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

import pytest

from pytest_jsbench.core.text import printable
from pytest_jsbench.plugin.controller.progress import is_watched, write_line
from pytest_jsbench.runner.limits import LimitsFile

if TYPE_CHECKING:
    from pytest_jsbench.plugin.session.context import RunContext
    from pytest_jsbench.runner.provider_state import ProviderState

#: seconds between two looks
_INTERVAL = 1.0
#: with -q too it is said why nothing happens; with -qq nothing is said
_QUIETEST = -1


class ProviderWatch:
    """
    Looks at the run's shared limits once a second, and writes a line where something has changed.

    The activation makes one beside the controller. It looks in a thread of its own, from the start of the test loop to
    the end of the session, since the main thread has nothing to do while all calls wait. Being down and being given up
    is said to everybody; being slowed down only where a person watches. Where tests run in this process, pytest
    captures what is written meanwhile, so the lines go past it, by a handle of their own.
    """

    def __init__(self, config: pytest.Config, context: RunContext) -> None:
        self._config = config
        self._context = context
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="jsbench-providers", daemon=True)
        #: what was last said of each provider, without its numbers
        self._said: dict[str, str] = {}
        #: None where nothing is captured
        self._terminal: TextIO | None = None
        #: the test that began last
        self._nodeid = ""
        #: the width of pytest's line and its test, when this last wrote
        self._written = (0, "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Begin to look; nothing is captured yet."""
        shown = self._config.pluginmanager.has_plugin("terminalreporter") and self._config.get_verbosity() >= _QUIETEST
        if shown and not self._context.settings.only_looks:
            if not self._config.pluginmanager.has_plugin("dsession"):
                self._terminal = _past_capturing()
            with suppress(RuntimeError):  # no more threads: the calls themselves will say so
                self._thread.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Remember it: with -v, lines of different tests may be equally wide."""
        self._nodeid = nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Look a last time, and no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._terminal is not None:
            self._terminal.close()

    def _work(self) -> None:
        limits = self._context.session.limits_file()
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
            if line := self.line(name, state, now=time.monotonic(), watched=is_watched(self._config)):
                self._write(f"jsbench: {line}")

    def _write(self, line: str) -> None:
        if self._terminal is None:
            write_line(self._config, line)
            return
        width = self._config.get_terminal_writer().width_of_current_line
        before, self._written = self._written, (width, self._nodeid)
        with suppress(OSError):  # nobody reads it any more, and pytest itself will say so
            self._terminal.write(("\n" if width and self._written != before else "") + printable(line, None) + "\n")
            self._terminal.flush()

    def line(self, name: str, state: ProviderState, *, now: float, watched: bool) -> str:
        """What is to be said now of a provider; empty where that was said before, or nothing is to be said."""
        before = self._said.get(name, "")
        slow = state.share_at(now) < 1
        is_now = "given up" if state.given_up else "down" if state.down else "slow" if slow else ""
        if is_now == before or (is_now == "slow" and not watched and before != "down"):
            return ""
        self._said[name] = is_now
        if before == "down" and is_now in ("", "slow"):
            return f"{name} answers again"
        if before == "slow" and not is_now:
            return f"{name} takes as many calls as before" if watched else ""
        return f"{name}: {state.describe(now)}"


def _past_capturing() -> TextIO | None:
    """The standard output as it is now, whatever pytest does to it later; None where it is no file."""
    try:
        handle = os.dup(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return os.fdopen(handle, "w", encoding=sys.stdout.encoding, errors="backslashreplace")
