"""
Check and convert the arguments of public functions.

A wrong argument raises JSBenchError with one line that states what was found and what was expected.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping
from os import PathLike, fspath
from typing import Any, ClassVar, NoReturn, Self, TypeVar

#: A function that converts an argument; the message of its ValueError or TypeError states what is expected.
Reader = Callable[[Any], Any]
F = TypeVar("F", bound=Callable[..., Any])
#: Arguments that may contain an API key, so messages show only the type of their value.
_MAY_HOLD_KEYS = frozenset({"base_url", "api_key_env", "engine_option"})


def arguments(
    known: Mapping[str, Reader] | None = None,
    /,
    *,
    otherwise: Mapping[str, str] | None = None,
    **others: Reader,
) -> Callable[[F], F]:
    """
    Return a decorator that checks the arguments of a function; a wrong argument raises JSBenchError.

    `known` and `others` map names of arguments to readers, which convert the values. An argument without a reader stays
    unchanged; None stays unchanged if it is the argument's default. `otherwise` maps wrong names of arguments to
    advice.
    """
    readers = {**(known or {}), **others}

    def decorate(function: F) -> F:
        parameters = inspect.signature(function).parameters
        name = function.__qualname__
        open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())

        @functools.wraps(function)
        def call_checked(*args: Any, **named: Any) -> Any:
            __tracebackhide__ = True  # keeps this wrapper out of the traceback of a failing test
            if not open_ended:
                for unknown in named.keys() - parameters.keys():
                    _refuse(unknown, parameters.keys() - {"self", "cls"}, of=name, otherwise=otherwise or {})
            placed = [_read(value, parameters[at], readers, name) for value, at in zip(args, parameters, strict=False)]
            values = {at: _read(value, parameters.get(at), readers, name) for at, value in named.items()}
            return function(*placed, *args[len(placed) :], **values)

        return call_checked  # type: ignore[return-value]

    return decorate


class CheckedFields:
    """Base class of a frozen dataclass whose constructor checks its arguments."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __new__(cls, *_args: object, **named: object) -> Self:
        """Raise JSBenchError for an argument that is not a field."""
        for unknown in named.keys() - cls.__dataclass_fields__.keys():
            _refuse(unknown, cls.__dataclass_fields__, of=cls.__name__, otherwise={})
        return super().__new__(cls)

    def _convert(self, readers: Mapping[str, Reader]) -> None:
        """Convert fields with the readers for their names, for `__post_init__`; a wrong value raises JSBenchError."""
        for name in readers:
            value = getattr(self, name)
            if value is not None or self.__dataclass_fields__[name].default is not None:
                object.__setattr__(self, name, _value(value, name, readers, type(self).__name__))


def read_all(given: Mapping[str, Any], readers: Mapping[str, Reader], *, of: str) -> dict[str, Any]:
    """Convert each argument with the reader for its name, except None; a wrong argument raises JSBenchError."""
    for name in given.keys() - readers.keys():
        _refuse(name, readers, of=of, otherwise={})
    return {name: value if value is None else _value(value, name, readers, of) for name, value in given.items()}


def _refuse(unknown: str, known: Iterable[str], *, of: str, otherwise: Mapping[str, str]) -> NoReturn:
    # Imported here, because pytest imports this module for the table of options even if the plugin is not used.
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

        expected = str(error).removeprefix("expected ")  # messages from parsers of option texts begin with "expected"
        if name in _MAY_HOLD_KEYS and value:
            shown = value = kind_of(value)
        else:
            shown = plain_value(value)
        message = f"{of}: {name} is {shown}; expected {expected}"
        raise JSBenchError(message, found=value, expected=expected, option=name) from None


def text(value: object) -> str:
    """Return the value if it is a non-empty string; otherwise raise ValueError."""
    if not isinstance(value, str) or not value:
        raise ValueError("a non-empty string")
    return value


def flag(value: object) -> bool:
    """Return the value if it is True or False; reject other truthy or falsy values."""
    if not isinstance(value, bool):
        raise ValueError("True or False")
    return value


def path(value: object) -> str:
    """Return a path as a string."""
    if not isinstance(value, str | PathLike) or not isinstance(text := fspath(value), str) or not text:
        raise ValueError("a path")
    return text


def names(value: object) -> tuple[str, ...]:
    """Return names as a tuple; a single string is one name."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable):
        raise ValueError("a list of names")
    texts = tuple(value)
    if not all(isinstance(name, str) for name in texts):
        raise ValueError("a list of names")
    return texts


def join_names(value: object) -> str:
    """Return a list of names as a comma-separated string; return a string unchanged."""
    if isinstance(value, str):
        return value
    texts = list(value) if isinstance(value, Iterable) else []
    if not texts or not all(isinstance(name, str) for name in texts):
        raise ValueError("names separated by commas, or a list of names")
    return ",".join(texts)


def numeral(value: object) -> str:
    """Return a number as text; return a non-empty text unchanged."""
    return text(value) if isinstance(value, bool) or not isinstance(value, numbers.Real) else str(value)


def whole(least: int, most: int | None = None) -> Reader:
    """Return a reader of integers, including numpy's, from `least` to `most`."""
    expected = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most:,}"

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
            raise ValueError(expected)
        number = operator.index(value)
        if most is not None and number > most:
            raise ValueError(expected)
        return number

    return read


def number(what: str, *, least: float = -math.inf, above: float = -math.inf) -> Reader:
    """Return a reader of finite numbers that are at least `least` and above `above`."""

    def read(value: object) -> float:
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not real or not least <= value < math.inf or not value > above:  # type: ignore[operator]
            raise ValueError(what)
        return float(value)  # type: ignore[arg-type]

    return read


def one_of(what: str, *kinds: Any) -> Reader:
    """Return a reader that accepts only instances of these types, which may include `Callable`."""

    def read(value: object) -> object:
        if not isinstance(value, kinds):
            raise ValueError(what)
        return value

    return read
