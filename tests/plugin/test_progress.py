from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest._io import TerminalWriter

import pytest_jsbench.plugin.progress
from pytest_jsbench.plugin import progress
from pytest_jsbench.plugin.progress import ProviderWatch
from pytest_jsbench.run.provider_state import CallEnd, ProviderState, Sign
from tests.plugin.conftest import Bench


@pytest.fixture
def watched(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Run on a terminal, slowly enough for a progress line after each test."""
    monkeypatch.setattr(progress, "is_watched", lambda _config: True)
    monkeypatch.setattr(progress, "_SOONEST", 0.0)
    monkeypatch.setattr(progress, "_LATEST", 0.0)
    monkeypatch.setattr(progress, "_FEWEST", 2)
    bench.case("a")
    bench.case("b", '{"n": -1}')
    bench.case("c")
    return bench


@pytest.mark.parametrize(("bench", "verbose"), [("plain", []), ("plain", ["-v"]), ("xdist", [])], indirect=["bench"])
def test_each_line_stands_by_itself(watched: Bench, verbose: list[str]) -> None:
    result = watched.run(*verbose)

    result.stdout.re_match_lines(
        [
            r"^jsbench: 1 of 3 done, \d failing$",  # without the remaining time
            r"^jsbench: 2 of 3 done, \d failing, [\d.e+]+ a (second|minute), about 0:0\d left$",
        ]
    )
    result.stdout.no_re_match_line(r".*3 of 3 done")
    result.assert_outcomes(passed=2, failed=1)


def test_a_run_gives_a_sign_of_life_before_its_first_answer(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "is_watched", lambda _config: True)
    monkeypatch.setattr(progress, "_INTERVAL", 0.1)
    bench.case("a", {"instance": {"n": 1}, "delay": 0.5})

    bench.run().stdout.fnmatch_lines(["jsbench: waiting for the first answer", "*[[]100%]"])


def test_who_does_not_watch_is_not_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SOONEST", 0.0)
    monkeypatch.setattr(progress, "_LATEST", 0.0)
    bench.case("a")

    bench.run().stdout.no_re_match_line(r".* of 1 done")


class Reporter:
    def __init__(self, *, terminal: bool) -> None:
        self.isatty = terminal


@pytest.mark.parametrize(
    ("terminal", "verbose", "ci", "expected"),
    [(True, 0, "", True), (True, 1, "", True), (True, -1, "", False), (False, 0, "", False), (True, 0, "true", False)],
)
def test_only_a_person_at_a_terminal_watches(
    terminal: bool, verbose: int, ci: str, expected: bool, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytestconfig.pluginmanager, "get_plugin", lambda _name: Reporter(terminal=terminal))
    monkeypatch.setattr(pytestconfig.option, "verbose", verbose)
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    monkeypatch.setenv("CI", ci)

    watched = pytest_jsbench.plugin.progress.is_watched(pytestconfig)
    monkeypatch.undo()

    assert watched is expected


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (113, "1:53"), (3661, "1:01:01")])
def test_times_are_said_asclocks_do(seconds: float, text: str) -> None:
    assert progress.clock(seconds) == text


def lines(*states: ProviderState, watched: bool) -> list[str]:
    nothing: Any = SimpleNamespace(config=None)
    watch = ProviderWatch(nothing)
    return [line for state in states if (line := watch.line("openai m", state, now=1.0, watched=watched))]


def after(*signs: Sign) -> ProviderState:
    state = ProviderState()
    for sign in signs:
        state = state.after(CallEnd(sign=sign, message="no", share_in_flight=0.5), began=1.0, now=1.0, patience=300)
    return state


WELL, SLOW, DOWN = ProviderState(), after(Sign.REFUSED), after(*[Sign.DOWN] * 10)
GIVEN_UP = after(*[Sign.FATAL] * 5)


def test_each_change_is_said_once() -> None:
    assert lines(WELL, DOWN, DOWN, WELL, WELL, GIVEN_UP, GIVEN_UP, watched=False) == [
        "openai m: provider is down; retrying one call at a time: no",
        "openai m answers again",
        "openai m: given up; the remaining attempts are not made: 5 calls in a row failed with: no",
    ]


def test_that_calls_are_slowed_down_is_said_where_people_watch() -> None:
    assert lines(SLOW, SLOW, WELL, watched=False) == []
    assert lines(SLOW, SLOW, WELL, watched=True) == [
        "openai m: reduced to 50 % of the concurrency after refusals; all calls wait 1 s",
        "openai m accepts as many calls as before",
    ]


@pytest.mark.parametrize("written", ["t::c1 ", "t::c10 "], ids=["as wide as before", "wider"])
def test_what_is_said_stands_on_lines_of_its_own(written: str) -> None:
    output = io.StringIO()
    terminal = TerminalWriter(output)
    watch = ProviderWatch(SimpleNamespace(config=SimpleNamespace(get_terminal_writer=lambda: terminal)))  # type: ignore[arg-type]
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
