from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.arguments import (
    CheckedFields,
    Reader,
    arguments,
    flag,
    names,
    number,
    one_of,
    path,
    text,
    whole,
)
from pytest_jsbench.core.errors import JSBenchError


@arguments(otherwise={"seed": "say it elsewhere"}, size=whole(1), tasks=names)
def taken(size: int, *, tasks: object = None, anything: object = 0) -> tuple[object, ...]:
    return size, tasks, anything


@dataclass(frozen=True, slots=True)
class Speed(CheckedFields):
    rate: float | None = None

    def __post_init__(self) -> None:
        self._convert({"rate": number("a number above 0", above=0)})


def untyped(function: Any) -> Any:
    """Return the value with the type Any, which type checkers do not check."""
    return function


class Whole(int):
    """Integer-like type as in numpy: another type that is a whole number."""


def test_arguments_are_converted_by_their_readers() -> None:
    assert taken(Whole(3), tasks="one") == (3, ("one",), 0)
    assert type(taken(size=Whole(3))[0]) is int
    assert taken(1, tasks=None, anything="8") == (1, None, "8")
    assert Speed(2).rate == 2.0
    assert Speed().rate is None
    assert taken.__name__ == "taken"


def test_checked_fields_leave_signature_copies_and_pickles_of_a_dataclass_unchanged() -> None:
    assert str(inspect.signature(Speed)) == "(rate: 'float | None' = None) -> None"
    assert pickle.loads(pickle.dumps(Speed(2))) == copy.copy(Speed(2)) == replace(Speed(), rate=2) == Speed(2.0)
    with pytest.raises(JSBenchError, match="rate is 0; expected a number above 0"):
        replace(Speed(2), rate=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: untyped(taken)("8"), "taken: size is '8'; expected a whole number of at least 1"),
        (lambda: untyped(taken)(size=None), "taken: size is None; expected"),
        (lambda: untyped(taken)(1, tasks=[5]), "taken: tasks is [5]; expected a list of names"),
        (
            lambda: untyped(taken)(1, taks=[]),
            "taken has no argument 'taks': did you mean 'tasks'? (one of anything, size, tasks)",
        ),
        (lambda: untyped(taken)(1, seed=2), "taken has no argument 'seed': say it elsewhere"),
        (lambda: untyped(Speed)(rat=1), "Speed has no argument 'rat': did you mean 'rate'? (one of rate)"),
        (lambda: untyped(Speed)(-1), "Speed: rate is -1; expected a number above 0"),
    ],
)
def test_wrong_argument_is_one_line_with_what_is_expected(call: Callable[[], object], message: str) -> None:
    with pytest.raises(JSBenchError) as refused:
        call()

    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
    assert refused.value.where


@pytest.mark.parametrize(
    ("read", "value"),
    [
        *((whole(0), value) for value in (True, 1.0, -1, "1", None)),
        *((number("a number", least=0), value) for value in (True, -0.1, float("nan"), float("inf"), "1", 1j)),
        (number("a number", above=0), 0),
        *((text, value) for value in ("", 5, b"x")),
        *((flag, value) for value in (0, 1, "off", None)),
        *((path, value) for value in ("", 5, None, b"x")),
        *((names, value) for value in (5, [1], None)),
        (one_of("a function", Callable), {}),
    ],
)
def test_values_of_similar_types_are_rejected(read: Reader, value: object) -> None:
    with pytest.raises(ValueError, match=r"^(a|True)"):
        read(value)


def test_a_path_is_read_as_text() -> None:
    assert path(Path("runs")) == "runs"
