from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest._io import TerminalWriter

from pytest_jsbench.plugin.controller.provider_watch import ProviderWatch
from pytest_jsbench.runner.provider_state import CallEnd, ProviderState, Sign


def lines(*states: ProviderState, watched: bool) -> list[str]:
    nothing: Any = SimpleNamespace()
    watch = ProviderWatch(nothing, nothing)
    return [line for state in states if (line := watch.line("openai m", state, now=1.0, watched=watched))]


def after(*signs: Sign) -> ProviderState:
    state = ProviderState()
    for sign in signs:
        state = state.after(CallEnd(sign=sign, message="no", beside=0.5), began=1.0, now=1.0, patience=300)
    return state


WELL, SLOW, DOWN = ProviderState(), after(Sign.REFUSED), after(*[Sign.DOWN] * 10)
GIVEN_UP = after(*[Sign.FATAL] * 5)


def test_each_change_is_said_once() -> None:
    assert lines(WELL, DOWN, DOWN, WELL, WELL, GIVEN_UP, GIVEN_UP, watched=False) == [
        "openai m: no answer, so one call at a time tries again: no",
        "openai m answers again",
        "openai m: given up, what is left is not run: 5 calls in a row ended like this: no",
    ]


def test_that_calls_are_slowed_down_is_said_where_people_watch() -> None:
    assert lines(SLOW, SLOW, WELL, watched=False) == []
    assert lines(SLOW, SLOW, WELL, watched=True) == [
        "openai m: slowed down to 50% of the calls in flight after refusals, all wait 1 s",
        "openai m takes as many calls as before",
    ]


@pytest.mark.parametrize("written", ["t::c1 ", "t::c10 "], ids=["as wide as before", "wider"])
def test_what_is_said_stands_on_lines_of_its_own(written: str) -> None:
    output = io.StringIO()
    terminal = TerminalWriter(output)
    watch = ProviderWatch(SimpleNamespace(get_terminal_writer=lambda: terminal), SimpleNamespace())  # type: ignore[arg-type]
    watch._terminal = output

    watch._write("before any test")
    watch.pytest_runtest_logstart("t::c0")
    terminal.write("t::c0 ")
    watch._write("down")
    watch._write("still down")
    terminal.write("FAILED")
    terminal.line()
    watch.pytest_runtest_logstart(written.strip())
    terminal.write(written)
    watch._write("given up")
    assert output.getvalue() == f"before any test\nt::c0 \ndown\nstill down\nFAILED\n{written}\ngiven up\n"
