"""Show a progress line below pytest's output, redrawn in place, in an interactive terminal."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import pytest

from pytest_jsbench.core.text import printable

#: Seconds between two updates by the thread.
_INTERVAL = 0.25
#: Minimum number of seconds between two updates after pytest's output.
_SOONEST = 0.1
#: VT100 codes. `_BELOW`: make room for a line below the cursor, save the cursor position, go to the start of the line
#: below and clear it. `_BACK`: restore the cursor position. `_CUT` and `_WRAP`: switch line wrapping off and on.
_BELOW = "\x1bD\x1b[A\x1b7\x1b[B\r\x1b[2K"
_BACK = "\x1b8"
_CUT = "\x1b[?7l"
_WRAP = "\x1b[?7h"


class LiveLine:
    """
    A progress line below pytest's output, redrawn in place: on a terminal, outside of CI, and without -q or -s.

    `activation` creates one object for the controller. A thread redraws the line from the first test to the end of
    the session. Code that writes to the terminal meanwhile uses `cleared`, as the hooks below do. `text` is called with
    the lock held.
    """

    def __init__(self, config: pytest.Config, text: Callable[[], str], *, soonest: float = _SOONEST) -> None:
        self._config = config
        self._text = text
        self._soonest = soonest
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="jsbench-live-line", daemon=True)
        #: File handle of the terminal; None if the line is not shown.
        self._terminal: TextIO | None = None
        #: Whether a test has begun.
        self._begun = False
        #: Whether the line is on the terminal.
        self._drawn = False
        #: Time of the latest drawing.
        self._latest = 0.0

    @property
    def is_shown(self) -> bool:
        """Whether the line is shown, or will be shown when the first test begins."""
        return self._terminal is not None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Start, if the terminal is interactive; pytest knows the terminal now, and does not capture output yet."""
        if can_redraw(self._config):
            self._terminal = past_capturing()
        if self._terminal is not None:
            with suppress(RuntimeError):  # no more threads can be started, which the calls report as an error
                self._thread.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logstart(self) -> Generator[None, object, object]:
        """Remove the line while pytest writes."""
        self._begun = True
        with self.cleared():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self) -> Generator[None, object, object]:
        """Remove the line while pytest writes."""
        with self.cleared():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logfinish(self) -> Generator[None, object, object]:
        """Remove the line while pytest writes."""
        with self.cleared():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True, optionalhook=True)
    def pytest_testnodedown(self) -> Generator[None, object, object]:
        """Remove the line while xdist reports a dead worker."""
        with self.cleared():
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_enter_pdb(self) -> None:
        """Remove the line for good, since the debugger uses the terminal."""
        self.end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self) -> None:
        """Remove the line for good before pytest prints the error."""
        self.end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Remove the line for good before pytest prints the summary."""
        self.end()

    @contextmanager
    def cleared(self) -> Iterator[None]:
        """Return a context in which the line is removed and not redrawn, so that other code can write."""
        if self._terminal is None:
            yield
            return
        with self._lock:
            self._clear()
            yield
            if time.perf_counter() - self._latest > self._soonest:
                self._config.get_terminal_writer().flush()
                self._draw()

    def end(self) -> None:
        """Remove the line for good."""
        self._ended.set()
        with self._lock:
            self._clear()
            terminal = self._terminal
            self._terminal = None
        if terminal is not None:
            terminal.close()

    def _work(self) -> None:
        while not self._ended.wait(_INTERVAL):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        if self._terminal is not None and self._begun:
            width = self._config.get_terminal_writer().fullwidth
            self._write(f"{_BELOW}{_CUT}{printable(self._text(), width - 1)}{_WRAP}{_BACK}")
            self._drawn = True
            self._latest = time.perf_counter()

    def _clear(self) -> None:
        if self._drawn:
            self._write(_BELOW + _BACK)
            self._drawn = False

    def _write(self, text: str) -> None:
        if self._terminal is not None:
            with suppress(OSError):  # the terminal is closed, which pytest will report
                self._terminal.write(text)
                self._terminal.flush()


def can_redraw(config: pytest.Config) -> bool:
    """Return whether a line can be redrawn: the terminal is interactive, and only pytest's reporter writes to it."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    is_usual = type(reporter) is pytest.TerminalReporter
    has_codes = os.name == "posix" and os.environ.get("TERM", "dumb") != "dumb"
    return is_usual and has_codes and config.getoption("capture", "no") != "no" and is_watched(config)


def is_watched(config: pytest.Config) -> bool:
    """Return whether a person can watch the run: an interactive terminal, outside of CI, and without -q."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.get_verbosity() < 0:
        return False
    return bool(reporter.isatty) and not any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER"))


def past_capturing() -> TextIO | None:
    """Return a duplicate of standard output, which pytest will redirect; None if there is no file descriptor."""
    try:
        handle = os.dup(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return os.fdopen(handle, "w", encoding=sys.stdout.encoding, errors="backslashreplace")
