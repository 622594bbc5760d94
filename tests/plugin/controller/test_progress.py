from __future__ import annotations

import pytest

import pytest_jsbench.plugin.controller.progress
from pytest_jsbench.plugin.controller import progress
from tests.plugin.conftest import Bench


@pytest.fixture
def watched(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A run on a terminal, so long that after each test a line is due."""
    monkeypatch.setattr(progress, "is_watched", lambda _config: True)
    monkeypatch.setattr(progress, "_SOONEST", 0.0)
    monkeypatch.setattr(progress, "_LATEST", 0.0)
    bench.case("a")
    bench.case("b", '{"n": -1}')
    return bench


@pytest.mark.parametrize(("bench", "verbose"), [("plain", []), ("plain", ["-v"]), ("xdist", [])], indirect=["bench"])
def test_each_line_stands_by_itself(watched: Bench, verbose: list[str]) -> None:
    result = watched.run(*verbose)

    result.stdout.re_match_lines([r"^jsbench: 1 of 2 done, \d failing, [\d.e+]+ a second, 0:0\d left$"])
    result.stdout.no_re_match_line(r".*2 of 2 done")
    result.assert_outcomes(passed=1, failed=1)


def test_who_does_not_watch_is_not_told(plain: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SOONEST", 0.0)
    monkeypatch.setattr(progress, "_LATEST", 0.0)
    plain.case("a")

    plain.run().stdout.no_re_match_line(r".* of 1 done")


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

    watched = pytest_jsbench.plugin.controller.progress.is_watched(pytestconfig)
    monkeypatch.undo()

    assert watched is expected


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (113, "1:53"), (3661, "1:01:01")])
def test_times_are_said_asclocks_do(seconds: float, text: str) -> None:
    assert progress.clock(seconds) == text
