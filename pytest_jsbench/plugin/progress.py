"""Describe the progress of a run in an interactive terminal, and print lines about problems of providers."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.text import dollars, printable
from pytest_jsbench.plugin.live_line import LiveLine, is_watched, past_capturing
from pytest_jsbench.plugin.pytest_options import ROOT
from pytest_jsbench.records.outcomes import AttemptOutcome, Run

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.plugin.context import RunContext
    from pytest_jsbench.records.records import Attempt
    from pytest_jsbench.run.provider_state import ProviderState
    from pytest_jsbench.run.state import RunState

#: Maximum number of cases whose schemas are read to estimate the remaining time; with more cases, each has weight 1.
_MOST_WEIGHED = 1000
#: Weight of the prompt without the schema, in characters.
_PROMPT_WEIGHT = 400


class Progress:
    """
    Counts the attempts, and describes the progress of the run for the line that `LiveLine` shows.

    `activation` creates one object for the controller, which reports each attempt to it. pytest calls its hooks in
    the main thread. The thread of `LiveLine` calls `text`, but never during a hook.
    """

    def __init__(self, context: RunContext, state: RunState, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._context = context
        self._state = state
        self._clock = clock
        self._watched = False
        #: Time when the first test began; the engine was open then.
        self._began = 0.0
        self._done = self._failing = self._done_of_suite = 0
        #: Weight of the suite's finished attempts, and of the attempts among these that are not from a resumed run.
        self._done_weight = self._called_weight = 0
        #: Weight of each case, and total weight of the planned attempts; computed when the first attempt is counted.
        self._weights: dict[CaseKey, int] | None = None
        self._planned_weight = 0
        #: Attempts whose cost has not been added to `_cost` yet.
        self._made: list[AttemptOutcome] = []
        self._cost = 0.0
        #: Node ids of running tests, each with its start time.
        self._under_way: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Determine whether the terminal is interactive, which pytest does not know earlier."""
        self._watched = is_watched(self._context.config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test has begun."""
        self._under_way[nodeid] = self._clock()
        self._began = self._began or self._under_way[nodeid]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note that a test has ended."""
        self._under_way.pop(nodeid, None)

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """Note that a test has crashed its worker process."""
        self._under_way.pop(crashitem, None)

    def count(self, attempt: AttemptOutcome, *, resumed: bool) -> None:
        """Count an attempt; an attempt from a resumed run affects neither the cost nor the remaining time."""
        if not self._watched:
            return
        weight = self._weight_of(attempt.attempt)
        self._done += 1
        self._done_of_suite += weight > 0
        self._done_weight += weight
        self._failing += attempt.failing
        if not resumed:
            self._called_weight += weight
            self._made.append(attempt)

    def text(self) -> str:
        """Describe the progress: attempts, remaining time, cost, and the test that has been running longest."""
        from pytest_jsbench.metrics.prices import costs

        now = self._clock()
        made = Run(metadata=self._context.handover.metadata, planned=(), outcomes=tuple(self._made))
        self._cost += sum(costs(made).attempts.values())
        self._made.clear()
        parts = [f"{self._done:,} of {self._state.count:,} done", f"{self._failing:,} failing"]
        if (left := self._seconds_left(now)) is not None:
            parts.append(f"~{clock(left)} left")
        if self._cost:
            parts.append(f"{dollars(self._cost)} so far")
        if self._under_way:
            nodeid, began = next(iter(self._under_way.items()))
            more = f" and {len(self._under_way) - 1} more" if len(self._under_way) > 1 else ""
            passed = f"{now - began:.0f} s" if now - began < 60 else clock(now - began)
            parts.append(f"{passed} in {nodeid.removeprefix(f'{ROOT}::')}{more}")
        return ", ".join(parts)

    def _seconds_left(self, now: float) -> float | None:
        """
        Estimate the remaining seconds from the weights of the cases; None before the first answer.

        Each call in flight is assumed to be half finished.
        """
        attempts = len(self._state.planned) - self._done_of_suite
        weight = self._planned_weight - self._done_weight
        if not self._called_weight or attempts <= 0:
            return None
        halfway = weight / attempts * min(self._concurrency, attempts) / 2
        return (weight - halfway) * (now - self._began) / (self._called_weight + halfway)

    @property
    def _concurrency(self) -> int:
        """Maximum number of calls in flight in all processes together."""
        processes = getattr(self._context.config.option, "numprocesses", None) or 1
        return processes * sum(variant.concurrency for variant in self._context.plan.variants.values())

    def _weight_of(self, attempt: Attempt) -> int:
        if self._weights is None:
            self._weights = self._weigh_cases()
            self._planned_weight = sum(self._weights.get(one.key, 0) for one in self._state.planned)
        return self._weights.get(attempt.key, 0)

    def _weigh_cases(self) -> dict[CaseKey, int]:
        """Return the weight of each case; longer schemas count more, since their prompts and answers are longer."""
        planned = {attempt.key for attempt in self._state.planned}
        if len(planned) > _MOST_WEIGHED:
            return dict.fromkeys(planned, 1)
        return {key: self._weigh(key) for key in planned}

    def _weigh(self, key: CaseKey) -> int:
        try:
            case = self._context.plan.cases.case(key)
        except JSBenchError:  # the test of the case reports the problem
            return _PROMPT_WEIGHT
        return _PROMPT_WEIGHT + (len(json.dumps(case.schema)) if isinstance(case, Case) else 0)


def write_line(config: pytest.Config, line: str, **markup: bool) -> None:
    """Print a line of its own between pytest's lines; print nothing with -p no:terminal."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    reporter.ensure_newline()
    if config.get_terminal_writer().width_of_current_line:  # under xdist, `ensure_newline` does not end pytest's line
        reporter.line("")
    reporter.write_line(printable(line, None), **markup)


def from_here(path: Path) -> Path:
    """Return a path below the working directory as a relative path, and any other path unchanged."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def clock(seconds: float) -> str:
    """Format seconds as minutes and seconds, with hours if necessary."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


#: Seconds between two checks of the limits that all processes share.
_INTERVAL = 1.0
#: Lowest verbosity at which lines about providers are printed: with -q, but not with -qq.
_QUIETEST = -1


class ProviderWatch:
    """
    Checks the providers' state once a second, and prints a line when the state of a provider has changed.

    `activation` creates one object next to the controller. The checks run in a separate thread, from the start of the
    test loop to the end of the session, since the main thread is blocked while it waits for calls. A provider that is
    down or given up is always reported, a slow provider only in an interactive terminal. If tests run in this process,
    pytest captures standard output, so the lines are written to a duplicate of the terminal's file handle.
    """

    def __init__(self, context: RunContext, live_line: LiveLine) -> None:
        self._config = context.config
        self._context = context
        self._live_line = live_line
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="jsbench-providers", daemon=True)
        #: Last reported problem of each provider; an empty text if the provider works again.
        self._reported: dict[str, str] = {}
        #: Duplicate of the terminal's file handle; None if output is not captured.
        self._terminal: TextIO | None = None
        #: Node id of the test that began most recently.
        self._nodeid = ""
        #: Whether any test has ended.
        self._any_ended = False
        #: Width of pytest's current line, and node id of the running test, when a line was last printed.
        self._written = (0, "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Start the checks; at this time, output is not captured yet."""
        shown = self._config.pluginmanager.has_plugin("terminalreporter") and self._config.get_verbosity() >= _QUIETEST
        if shown and not self._context.settings.only_looks:
            if not self._config.pluginmanager.has_plugin("dsession"):
                self._terminal = past_capturing()
            with suppress(RuntimeError):  # no more threads can be started, which the calls report as an error
                self._thread.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Remember the running test: with -v, lines of different tests may have the same width."""
        self._nodeid = nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self) -> None:
        """Note that a test has ended; pytest's own output shows progress from now on."""
        self._any_ended = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Check the providers a last time, and end the thread."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._terminal is not None:
            self._terminal.close()

    def _work(self) -> None:
        with closing(self._context.session.runners.limits_file()) as limits:
            ended = False
            alive = not is_watched(self._config)
            while not ended:
                ended = self._ended.wait(_INTERVAL)
                if not (alive or ended or self._any_ended or self._live_line.is_shown):
                    self._write("jsbench: waiting for the first answer")
                alive = True
                with suppress(sqlite3.Error):  # the calls report problems with the file of limits
                    for name, state in limits.providers().items():
                        if line := self.line(name, state, now=time.monotonic(), watched=is_watched(self._config)):
                            self._write(f"jsbench: {line}")

    def _write(self, line: str) -> None:
        with self._live_line.cleared():
            self._write_line(line)

    def _write_line(self, line: str) -> None:
        if self._terminal is None:
            write_line(self._config, line)
            return
        width = self._config.get_terminal_writer().width_of_current_line
        before = self._written
        self._written = (width, self._nodeid)
        with suppress(OSError):  # the terminal is closed, which pytest will report
            self._terminal.write(("\n" if width and self._written != before else "") + printable(line, None) + "\n")
            self._terminal.flush()

    def line(self, name: str, state: ProviderState, *, now: float, watched: bool) -> str:
        """
        Return a line about a provider whose state has changed; empty if there is nothing to report. Changes of the
        speed are reported only if `watched`.
        """
        slow = state.share_at(now) < 1
        if state.given_up:
            problem = "given up"
        elif state.down:
            problem = "down"
        else:
            problem = "slow" if slow else ""
        before = self._reported.get(name, "")
        if problem == before or (problem == "slow" and not watched and before != "down"):
            return ""
        self._reported[name] = problem
        if before == "down" and problem in ("", "slow"):
            return f"{name} answers again"
        if before == "slow" and not problem:
            return f"{name} accepts the full number of calls again" if watched else ""
        return f"{name}: {state.describe(now)}"
