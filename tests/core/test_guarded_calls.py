from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.child_process import ChildNotStarted
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, GuardedCalls

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKING = "tests.core.working"


@pytest.fixture(scope="module")
def calls() -> Iterator[GuardedCalls]:
    calls = GuardedCalls(memory=256 << 20, longest=1 << 20)
    yield calls
    calls.close()


def call(calls: GuardedCalls, name: str, *arguments: Any, seconds: float = 30) -> Any:
    return calls.call(f"{WORKING}:{name}", *arguments, seconds=seconds)


@pytest.mark.parametrize(
    "value", [None, [1, 1.0, -0.0, "é\ud800\u2028"], {"a": {"b": [True, 10**30]}}, {"end": None, "error": 1}]
)
def test_what_goes_there_comes_back(calls: GuardedCalls, value: Any) -> None:
    assert call(calls, "echo", value) == value


@pytest.mark.parametrize("name", ["hang", "count_for_ever"])
def test_a_call_has_its_time_and_no_more(calls: GuardedCalls, name: str) -> None:
    call(calls, "process")
    started = time.perf_counter()
    with pytest.raises(BoundExceeded, match=r"^within 0\.3 s$"):
        call(calls, name, seconds=0.3)
    assert time.perf_counter() - started < 10
    assert call(calls, "echo", 1) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is Linux's")
@pytest.mark.parametrize("name", ["fill", "fill_slowly"])
def test_a_call_has_its_memory_and_no_more(calls: GuardedCalls, name: str) -> None:
    pid = call(calls, "process")
    with pytest.raises(BoundExceeded, match=r"^within 256 MB of memory$"):
        call(calls, name)
    assert call(calls, "process") != pid


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [("long_text", (1 << 20,), "^within 1 MB of text$"), ("nest", (), "^as it is nested too deeply$")],
)
def test_what_comes_of_a_call_is_bounded(
    calls: GuardedCalls, name: str, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(BoundExceeded, match=message):
        call(calls, name, *arguments)


def test_what_is_nested_too_deeply_to_be_sent_is_beyond_the_bounds(calls: GuardedCalls) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BoundExceeded, match="nested too deeply"):
        call(calls, "echo", deep)
    assert call(calls, "echo", 1) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("break_it", "ZeroDivisionError: by zero"),
        ("die", "its process ended: exit status 3"),
        ("half", "its process ended: exit status 4"),
        ("no_such_function", "AttributeError: .*no_such_function"),
    ],
)
def test_a_call_that_breaks_says_how_and_the_next_one_works(calls: GuardedCalls, name: str, message: str) -> None:
    with pytest.raises(CallBroke, match=message):
        call(calls, name)
    assert call(calls, "echo", 1) == 1


def test_without_an_interpreter_there_is_nobody_to_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ChildNotStarted, match="expected a Python at '/nowhere/python'"):
        call(GuardedCalls(), "echo", 1)
