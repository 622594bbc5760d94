"""Shows how far a long run is, and how long it will take, where a person watches."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.errors import PriceError
from pytest_jsbench.core.text import printable
from pytest_jsbench.metrics.prices import price_of
from pytest_jsbench.runs.variants import each

if TYPE_CHECKING:
    from pytest_jsbench.metrics.prices import Price
    from pytest_jsbench.plugin.session.context import RunContext
    from pytest_jsbench.runner.state import RunState
    from pytest_jsbench.runs.outcomes import AttemptOutcome
    from pytest_jsbench.runs.records import AnsweredBy

#: seconds to the first line, and between two of them at least and at most
_SOONEST = 10.0
_LATEST = 60.0


class Progress:
    """
    Writes a line now and then on how far the run is: on a terminal, not under CI, not with -q.

    The activation makes one for the controller, which counts each attempt with it. pytest calls its hooks in the main
    thread: the clock starts with the test loop, and a line may follow each test. It needs no end.
    """

    def __init__(self, config: pytest.Config, context: RunContext, state: RunState) -> None:
        self._config = config
        self._context = context
        self._state = state
        self._watched = False
        #: who answers, by the variant's name
        self._asked = {one.variant: one.engine_asked for one in each(context.handover.metadata)}
        #: by who answers, and whether in a batch; None where no price is published
        self._prices: dict[tuple[AnsweredBy, bool], Price | None] = {}
        self._started = self._said = time.perf_counter()
        self._done = self._called = self._failing = 0
        self._cost = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Start the clock, and find out whether a person watches, which pytest does not know any earlier."""
        self._started = self._said = time.perf_counter()
        self._watched = is_watched(self._config)
        if not self._watched:
            return
        for who in self._asked.values():
            self._price(who, batch=False)

    def count(self, attempt: AttemptOutcome, *, resumed: bool) -> None:
        """Count an attempt; an earlier run has paid for a resumed one."""
        self._done += 1
        self._failing += attempt.failing
        if resumed:
            return
        self._called += 1
        who = attempt.answered_by or self._asked[attempt.variant]
        price = self._price(who, batch=attempt.batch)
        if price is not None and attempt.usage is not None:
            self._cost += price(attempt.usage) or 0.0

    def _price(self, who: AnsweredBy, *, batch: bool) -> Price | None:
        if (who, batch) not in self._prices:
            try:
                self._prices[who, batch] = price_of(self._context.handover.metadata, who, batch=batch)
            except PriceError:  # the summary says why there is none
                self._prices[who, batch] = None
        return self._prices[who, batch]

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        """Write a line, if it is time."""
        now = time.perf_counter()
        if not self._watched or self._done == self._state.count:
            return
        if now - self._said < min(_LATEST, max(_SOONEST, (now - self._started) / 10)):
            return
        self._said = now
        write_line(self._config, f"jsbench: {self.line(now - self._started)}")

    def line(self, seconds: float) -> str:
        """How far it is after so many seconds."""
        planned = self._state.count
        parts = [f"{self._done:,} of {planned:,} done", f"{self._failing:,} failing"]
        if self._called:
            rate = self._called / seconds
            parts += [f"{rate:.3g} a second", f"{clock((planned - self._done) / rate)} left"]
        if any(self._prices.values()):
            parts.append(f"${self._cost:,.2f} so far")
        return ", ".join(parts)


def write_line(config: pytest.Config, line: str, **markup: bool) -> None:
    """Write a line of its own between those of the tests, or after them; none with -p no:terminal."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    reporter.ensure_newline()
    if config.get_terminal_writer().width_of_current_line:  # under xdist, where no path heads the line
        reporter.line("")
    reporter.write_line(printable(line, None), **markup)


def is_watched(config: pytest.Config) -> bool:
    """Whether a person watches the run."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.get_verbosity() < 0:
        return False
    return bool(reporter.isatty) and not any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER"))


def clock(seconds: float) -> str:
    """Minutes and seconds, and hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
