from __future__ import annotations

from types import SimpleNamespace
from typing import Any

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
