from __future__ import annotations

import io
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest._io import TerminalWriter

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.text import format_clock
from pytest_jsbench.plugin import live_line, progress
from pytest_jsbench.plugin.live_line import LiveLine
from pytest_jsbench.plugin.progress import Progress, ProviderWatch
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import Attempt
from pytest_jsbench.run.provider_state import CallEnd, ProviderState, Sign
from pytest_jsbench.run.state import RunState
from tests.support import examples
from tests.support.bench import Bench
from tests.support.clock import Clock

BELOW, BACK = "\x1bD\x1b[A\x1b7\x1b[B\r\x1b[2K", "\x1b8"


@pytest.fixture
def drawn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run on a terminal whose drawings go to this file, one after each of pytest's own writes."""
    path = bench.path / "drawn.txt"
    monkeypatch.setattr(live_line, "can_redraw", lambda _config: True)
    monkeypatch.setattr(live_line, "past_capturing", lambda: path.open("w", encoding="utf-8"))
    monkeypatch.setattr(live_line, "LiveLine", partial(LiveLine, soonest=-1.0))
    monkeypatch.setattr(progress, "is_watched", lambda _config: True)
    bench.case("a")
    bench.case("b", '{"n": -1}')
    bench.case("c")
    return path


def texts(path: Path) -> list[str]:
    """Return the lines that were drawn; each is followed by the codes that bring the cursor back."""
    return re.findall(r"\x1b\[\?7l(.*?)\x1b\[\?7h\x1b8", path.read_bytes().decode())


@pytest.mark.parametrize(("bench", "verbose"), [("plain", []), ("plain", ["-v"]), ("xdist", [])], indirect=["bench"])
def test_line_shows_progress_remaining_time_and_running_test(drawn: Path, bench: Bench, verbose: list[str]) -> None:
    result = bench.run(*verbose)

    result.assert_outcomes(passed=2, failed=1)
    assert " done" not in result.stdout.str()
    shown = texts(drawn)
    # with workers, any test may begin first, and the last ones may end together
    first, done = ("[abc]", "[12]") if bench.workers else ("a", "2")
    assert re.fullmatch(rf"0 of 3 done, 0 failing, \d+ s in orders::{first}( and \d more)?", shown[0])
    later = rf"{done} of 3 done, \d failing, ~\d:\d\d left, \d+ s in orders::\w( and \d more)?"
    assert any(re.fullmatch(later, line) for line in shown)
    assert drawn.read_bytes().decode().endswith(BELOW + BACK)  # the line is removed at the end


def test_nothing_is_drawn_if_no_person_watches(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_line, "past_capturing", lambda: pytest.fail("draws"))
    bench.case("a")

    bench.run().stdout.no_re_match_line(r".* of 1 done")


@pytest.mark.slow
def test_a_run_gives_a_sign_of_life_before_its_first_answer(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "is_watched", lambda _config: True)
    bench.case("a", {"instance": {"n": 1}, "delay": 1.5})

    bench.run().stdout.fnmatch_lines(["jsbench: waiting for the first answer", "*[[]100%]"])


class Screen(io.StringIO):
    """A terminal whose text can be read after it is closed."""

    def close(self) -> None:
        pass


def line_on(screen: Screen, text: str, **options: float) -> LiveLine:
    writer = SimpleNamespace(fullwidth=14, flush=lambda: None)
    config: Any = SimpleNamespace(get_terminal_writer=lambda: writer)
    line = LiveLine(config, lambda: text, **options)
    line._terminal = screen
    return line


def test_line_is_cleared_while_something_else_is_written() -> None:
    screen = Screen()
    line = line_on(screen, "3 of 9\x1b[31m done", soonest=-1.0)
    drawing = f"{BELOW}\x1b[?7l3 of 9\\x1b[3…\x1b[?7h{BACK}"  # cut, without codes of its own

    with line.cleared():
        screen.write("collected")
    for letter in "VT":
        line._begun = True
        with line.cleared():
            screen.write(letter)
    line.end()
    with line.cleared():
        screen.write("=== FAILURES")

    clearing = BELOW + BACK
    assert screen.getvalue() == f"collectedV{drawing}{clearing}T{drawing}{clearing}=== FAILURES"
    assert not line.is_shown


def test_line_ends_when_the_debugger_begins() -> None:
    screen = Screen()
    line = line_on(screen, "3 of 9 done")
    line._begun = True
    line._draw()

    line.pytest_enter_pdb()
    line._draw()

    assert screen.getvalue().endswith(f"done\x1b[?7h{BACK}{BELOW}{BACK}")


@pytest.mark.parametrize(
    ("terminal", "capture", "reporter", "watched", "expected"),
    [
        ("xterm", "fd", pytest.TerminalReporter, True, True),
        ("dumb", "fd", pytest.TerminalReporter, True, False),
        ("xterm", "no", pytest.TerminalReporter, True, False),
        ("xterm", "fd", SimpleNamespace, True, False),  # another plugin's, such as pytest-sugar's
        ("xterm", "fd", pytest.TerminalReporter, False, False),
    ],
)
def test_line_is_drawn_only_where_it_can_be(
    terminal: str, capture: str, reporter: Any, watched: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_line, "is_watched", lambda _config: watched)
    manager = SimpleNamespace(get_plugin=lambda _name: reporter.__new__(reporter))
    config: Any = SimpleNamespace(pluginmanager=manager, getoption=lambda _name, _default: capture)
    monkeypatch.setenv("TERM", terminal)

    assert live_line.can_redraw(config) is expected


def test_remaining_time_counts_long_schemas_and_calls_in_flight() -> None:
    clock = Clock(100.0)
    lengths = {"a": 600, "b": 1600, "c": 3600, "d": 5600}
    cases = {CaseKey(task="t", id=name): {"title": "x" * (length - 13)} for name, length in lengths.items()}
    plan = SimpleNamespace(
        cases=SimpleNamespace(case=lambda key: Case(key=key, schema=cases[key])),
        variants={"": SimpleNamespace(concurrency=2)},
    )
    handover = SimpleNamespace(metadata=examples.metadata())
    context: Any = SimpleNamespace(plan=plan, handover=handover, config=SimpleNamespace(option=SimpleNamespace()))
    state = RunState(tuple(cases))
    state.plan(Attempt(key=key, repeat=0) for key in cases)
    shown = Progress(context, state, clock=clock.read)
    shown._watched = True

    shown.pytest_runtest_logstart("jsbench::t::a")
    clock.now += 12
    before = shown.text()
    shown.count(AttemptFacts.of(examples.record("a", task="t")), resumed=True)
    resumed = shown.text()
    shown.count(AttemptFacts.of(examples.record("b", task="t")), resumed=False)

    assert before == "0 of 4 done, 0 failing, 12 s in t::a"
    assert "left" not in resumed
    # in 12 s: b (2,000 with its prompt), and half of c (4,000) and d (6,000); the other half takes 8.6 s
    assert shown.text() == "2 of 4 done, 0 failing, ~0:09 left, 12 s in t::a"


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

    watched = live_line.is_watched(pytestconfig)
    monkeypatch.undo()

    assert watched is expected


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (113, "1:53"), (3661, "1:01:01")])
def test_times_are_said_asclocks_do(seconds: float, text: str) -> None:
    assert format_clock(seconds) == text


def lines(*states: ProviderState, watched: bool) -> list[str]:
    nothing: Any = SimpleNamespace(config=None)
    watch = ProviderWatch(nothing, LiveLine(nothing.config, str))
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
        "openai m: reduced to 50 % of the concurrency after rejected calls; all calls wait 1 s",
        "openai m accepts the full number of calls again",
    ]


@pytest.mark.parametrize("written", ["t::c1 ", "t::c10 "], ids=["as wide as before", "wider"])
def test_what_is_said_stands_on_lines_of_its_own(written: str) -> None:
    output = io.StringIO()
    terminal = TerminalWriter(output)
    context: Any = SimpleNamespace(config=SimpleNamespace(get_terminal_writer=lambda: terminal))
    watch = ProviderWatch(context, LiveLine(context.config, str))
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
