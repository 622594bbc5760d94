"""Arguments that a program gives a function: each is read, or one line says what was found and what is expected."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from os import PathLike, fspath
from typing import Any, NoReturn, TypeVar

#: gives the value of an argument; the ValueError or TypeError of one that cannot be used says what is expected
Reader = Callable[[Any], Any]
F = TypeVar("F", bound=Callable[..., Any])
#: arguments of which a message does not show the value
_MAY_HOLD_KEYS = frozenset({"base_url", "api_key_env", "engine_option"})
#: a message may be on disk, or of another's engine: an option stands in it as pytest takes it
_IN_MESSAGE = re.compile(r"(?<!pytest )--jsbench-([a-z]+(?:-[a-z]+)*)")


def arguments(
    known: Mapping[str, Reader] | None = None,
    /,
    *,
    of: str = "",
    otherwise: Mapping[str, str] | None = None,
    **others: Reader,
) -> Callable[[F], F]:
    """
    A decorator of a function, or of a class that is made of its arguments: JSBenchError for a wrong one.

    Each argument that has a reader is what that makes of it; None stays where it is the default. `of` is who is
    called, where that is another than what is decorated; `otherwise` says of names that are no arguments what to do.
    """
    readers = {**(known or {}), **others}

    def decorate(function: F) -> F:
        if isinstance(function, type):
            function.__init__ = arguments(readers, of=function.__name__, otherwise=otherwise)(function.__init__)  # type: ignore[misc]
            return function
        parameters = inspect.signature(function).parameters
        name = of or function.__qualname__
        open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())

        @functools.wraps(function)
        def called(*args: Any, **named: Any) -> Any:
            __tracebackhide__ = True  # a test that fails in the function is shown as it is without this
            if not open_ended:
                for unknown in named.keys() - parameters.keys():
                    _refuse(unknown, parameters.keys() - {"self", "cls"}, of=name, otherwise=otherwise or {})
            placed = [_read(value, parameters[at], readers, name) for value, at in zip(args, parameters, strict=False)]
            values = {at: _read(value, parameters.get(at), readers, name) for at, value in named.items()}
            return function(*placed, *args[len(placed) :], **values)

        return called  # type: ignore[return-value]

    return decorate


def read_all(given: Mapping[str, Any], readers: Mapping[str, Reader], *, of: str) -> dict[str, Any]:
    """Read arguments by their names; JSBenchError for a wrong one, and None stays."""
    for name in given.keys() - readers.keys():
        _refuse(name, readers, of=of, otherwise={})
    return {name: value if value is None else _value(value, name, readers, of) for name, value in given.items()}


def _refuse(unknown: str, known: Iterable[str], *, of: str, otherwise: Mapping[str, str]) -> NoReturn:
    # not above: pytest reads the table of options, which names readers of here, also where nobody asks for a run
    from pytest_jsbench.core.errors import JSBenchError, nearest
    from pytest_jsbench.core.text import printable

    offer = otherwise.get(unknown) or nearest(unknown, known)
    message = f"{of} has no argument '{printable(unknown, 60)}': {offer}"
    raise JSBenchError(message, found=unknown, expected=sorted(known), where=of)


def _read(value: Any, parameter: inspect.Parameter | None, readers: Mapping[str, Reader], of: str) -> Any:
    if parameter is None or parameter.name not in readers or (value is None and parameter.default is None):
        return value
    return _value(value, parameter.name, readers, of)


def _value(value: Any, name: str, readers: Mapping[str, Reader], of: str) -> Any:
    try:
        return readers[name](value)
    except (TypeError, ValueError) as error:
        from pytest_jsbench.core.errors import JSBenchError
        from pytest_jsbench.core.text import kind_of, plain_value

        expected = str(error).removeprefix("expected ")  # that of an option's text says what was found, too
        if name in _MAY_HOLD_KEYS and value:
            shown = value = kind_of(value)
        else:
            shown = plain_value(value)
        message = f"{of}: {name} is {shown}; expected {expected}"
        raise JSBenchError(message, found=value, expected=expected, option=name) from None


def text(value: object) -> str:
    """Reads a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("a text that is not empty")
    return value


def flag(value: object) -> bool:
    """Reads True or False, and not what is only true or false."""
    if not isinstance(value, bool):
        raise ValueError("True or False")
    return value


def path(value: object) -> str:
    """Reads a path."""
    if not isinstance(value, str | PathLike) or not isinstance(text := fspath(value), str) or not text:
        raise ValueError("a path")
    return text


def names(value: object) -> tuple[str, ...]:
    """Reads names; one by itself is one."""
    texts = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else ()
    if not all(isinstance(name, str) for name in texts) or (not texts and not isinstance(value, Iterable)):
        raise ValueError("a list of names")
    return texts


def joined(value: object) -> str:
    """Reads names with commas between them, or one after another."""
    if isinstance(value, str):
        return value
    texts = list(value) if isinstance(value, Iterable) else []
    if not texts or not all(isinstance(name, str) for name in texts):
        raise ValueError("names with commas between them, or a list of names")
    return ",".join(texts)


def numeral(value: object) -> str:
    """Reads a number, or the text of one."""
    return text(value) if isinstance(value, bool) or not isinstance(value, numbers.Real) else str(value)


def whole(least: int) -> Reader:
    """Reads a whole number, numpy's too."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
            raise ValueError(f"a whole number of at least {least}")
        return operator.index(value)

    return read


def number(what: str, *, least: float = -math.inf, above: float = -math.inf) -> Reader:
    """Reads a finite number that is at least so much, or above it."""

    def read(value: object) -> float:
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not real or not least <= value < math.inf or not value > above:  # type: ignore[operator]
            raise ValueError(what)
        return float(value)  # type: ignore[arg-type]

    return read


def one_of(what: str, *kinds: Any) -> Reader:
    """Reads what is of one of these types; `Callable` is one."""

    def read(value: object) -> object:
        if not isinstance(value, kinds):
            raise ValueError(what)
        return value

    return read


def respelled(message: str, spell: Callable[[str], str]) -> str:
    """Write each option that a message names as another door takes it; what pytest is asked for keeps its name."""
    return _IN_MESSAGE.sub(lambda match: spell(match[1].replace("-", "_")), message)
