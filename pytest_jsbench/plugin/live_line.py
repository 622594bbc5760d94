"""Show a line below pytest's own output, redrawn in place, if a person watches the run."""

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

#: Seconds between two drawings by the thread.
_INTERVAL = 0.25
#: Minimum number of seconds between two drawings after pytest's own output.
_SOONEST = 0.1
#: VT100 codes: make room for a line below the cursor, remember the cursor, and go to the start of the line below, which
#: is cleared; the terminal cuts what does not fit.
_BELOW = "\x1bD\x1b[A\x1b7\x1b[B\r\x1b[2K"
_BACK = "\x1b8"
_CUT = "\x1b[?7l"
_WRAP = "\x1b[?7h"


class LiveLine:
    """
    A line below pytest's own output that is redrawn in place: on a terminal, outside of CI, and without -q or -s.

    The activation creates one object for the controller. A thread redraws the line from the first test to the
    end of the session; whatever else writes to the terminal meanwhile does so inside `cleared`. `text` is called under
    the lock that the hooks below also hold.
    """

    def __init__(self, config: pytest.Config, text: Callable[[], str], *, soonest: float = _SOONEST) -> None:
        self._config = config
        self._text = text
        self._soonest = soonest
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="jsbench-live-line", daemon=True)
        #: File handle of the terminal; None if the line is not shown, or no longer.
        self._terminal: TextIO | None = None
        #: Whether a test has begun.
        self._begun = False
        #: Whether the line is on the terminal.
        self._drawn = False
        #: Time of the latest drawing.
        self._latest = 0.0

    @property
    def is_shown(self) -> bool:
        """Whether the line is shown, or will be once a test has begun."""
        return self._terminal is not None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Begin if a person watches, which pytest does not know earlier; output is not captured yet."""
        if can_redraw(self._config):
            self._terminal = past_capturing()
        if self._terminal is not None:
            with suppress(RuntimeError):  # no more threads can be started, a problem that the calls themselves report
                self._thread.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logstart(self) -> Generator[None, object, object]:
        """Clear the line while pytest writes."""
        self._begun = True
        with self.cleared():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self) -> Generator[None, object, object]:
        """Clear the line while pytest writes."""
        with self.cleared():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logfinish(self) -> Generator[None, object, object]:
        """Clear the line while pytest writes."""
        with self.cleared():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True, optionalhook=True)
    def pytest_testnodedown(self) -> Generator[None, object, object]:
        """Clear the line while xdist reports a worker that died."""
        with self.cleared():
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_enter_pdb(self) -> None:
        """End: the terminal is the debugger's."""
        self.end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self) -> None:
        """End before pytest describes the error."""
        self.end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """End before the summary."""
        self.end()

    @contextmanager
    def cleared(self) -> Iterator[None]:
        """Remove the line inside, and let nothing else draw it."""
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
            with suppress(OSError):  # the terminal is closed, which pytest itself reports
                self._terminal.write(text)
                self._terminal.flush()


def can_redraw(config: pytest.Config) -> bool:
    """Return whether a person watches, on a terminal that only pytest and its usual reporter write to."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    is_usual = type(reporter) is pytest.TerminalReporter
    has_codes = os.name == "posix" and os.environ.get("TERM", "dumb") != "dumb"
    return is_usual and has_codes and config.getoption("capture", "no") != "no" and is_watched(config)


def is_watched(config: pytest.Config) -> bool:
    """Return whether a person watches the run."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.get_verbosity() < 0:
        return False
    return bool(reporter.isatty) and not any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER"))


def past_capturing() -> TextIO | None:
    """Duplicate the current standard output, which pytest will redirect; None if it has no file descriptor."""
    try:
        handle = os.dup(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return os.fdopen(handle, "w", encoding=sys.stdout.encoding, errors="backslashreplace")
