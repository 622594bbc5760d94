"""JSON values and texts: what JSON calls a value, copies, digests, depths; values of our types as JSON."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
import threading
from collections.abc import Mapping
from itertools import accumulate
from pathlib import PurePath
from types import NoneType
from typing import Annotated, Any, TypeVar, overload

import msgspec

from pytest_jsbench.core.text import printable

#: those of which a value has nothing inside; nearly all that a schema holds are of one of them
_PLAIN = frozenset({str, int, float, bool, NoneType})
#: characters of a value that an error shows
_LONGEST_SHOWN = 40
_LONGEST_PROBLEM = 400


def copy_of(value: Any) -> Any:
    """A copy of a JSON value, which its holder may change; copy.deepcopy takes many times as long."""
    if isinstance(value, (list, tuple)):
        return [inner if type(inner) in _PLAIN else copy_of(inner) for inner in value]
    # in this order, since it takes long to ask whether something is a Mapping
    if isinstance(value, (dict, Mapping)):
        return {name: inner if type(inner) in _PLAIN else copy_of(inner) for name, inner in value.items()}
    return value


def as_dict(value: Any) -> dict[str, Any]:
    """A mapping that `json` does not take for one, such as a read-only view; TypeError for anything else."""
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        return {name: value[name] for name in value.keys()}  # iterating one need not yield its keys
    raise TypeError(f"found {type(value).__name__}, expected only JSON values")


def digest(value: object) -> str:
    """The SHA-256 of a JSON value in canonical form (sorted keys, no white space), as `sha256:<hex>`."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def json_type(value: object) -> str:
    """The name of the value's type in JSON."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"


_DEPTH_CHANGE = dict.fromkeys(b"[{", 1) | dict.fromkeys(b"]}", -1)


def structure(text: bytes | str, marks: bytes) -> bytes:
    """Of a JSON text those of the marks that stand outside of its strings, seen without parsing it."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    others = bytes(set(range(256)) - {*marks, *b'"'})
    # without escapes each quotation mark is the end of a string, and every other part is inside of one
    kept = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, others).replace(b'""', b"")
    return b"".join(kept.split(b'"')[::2])


def too_deep(text: bytes | str, deepest: int) -> bool:
    """True where a JSON text nests arrays and objects deeper than that, seen without parsing it."""
    opened = text.count(b"[") + text.count(b"{") if isinstance(text, bytes) else text.count("[") + text.count("{")
    if opened <= deepest:
        return False
    return any(map(deepest.__lt__, accumulate(map(_DEPTH_CHANGE.__getitem__, structure(text, b"[]{}")))))


T = TypeVar("T")

#: a whole number that may stand in a file of ours: every JSON tool can hold it
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
#: a number of attempts, or of tries
Times = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
#: a rate, or a probability
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1_000_000_000)]
#: one of our digests, which is hexadecimal
Digest = Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{64}$")]


def written(default: T) -> T:
    """The default of a field of a Struct that is in its JSON all the same; other fields are not, by their default."""
    value: T = msgspec.field(default_factory=lambda: default)
    return value


def to_json(value: object) -> Any:
    """The JSON values by which its types describe a value: a tuple is an array, a path and an enum's member a text."""
    return copy_of(msgspec.to_builtins(value, enc_hook=_path_text))


def _path_text(value: object) -> str:
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"found {type(value).__name__}, expected only JSON values")


@overload
def from_json(kind: type[T], data: object) -> T: ...


@overload
def from_json(kind: Any, data: object) -> Any: ...


def from_json(kind: Any, data: object) -> Any:
    """
    The value of this type, or of one of several, that `to_json` gives so; fields of a later version are left alone.

    ValueError names the first place that is not as the type describes it, with what was found and what was expected.
    """
    _describe(kind)
    try:
        return msgspec.convert(data, kind, dec_hook=_of_text)
    except msgspec.ValidationError as error:
        raise ValueError(printable(_misfit(str(error), data), _LONGEST_PROBLEM)) from error
    except UnicodeEncodeError:
        raise ValueError("the name of a field holds a lone surrogate") from None


#: no value of any type
_NOTHING = object()
_DESCRIBING = threading.Lock()


@functools.cache
def _describe(kind: Any) -> None:
    """Have one thread describe the type; msgspec does so when it is first used, and crashes with two (msgspec 0.22)."""
    with _DESCRIBING, contextlib.suppress(msgspec.ValidationError):
        msgspec.convert(_NOTHING, kind, dec_hook=_of_text)


def _of_text(kind: Any, value: object) -> object:
    if isinstance(value, str) and issubclass(kind, PurePath):
        return _path(kind, value)
    raise ValueError(f"found {json_type(value)}, expected text")


#: all records of a process are in one file, whose path is larger than all else that is known of where one is
@functools.lru_cache(maxsize=64)
def _path(kind: type[PurePath], text: str) -> PurePath:
    return kind(text)


_MISFIT = re.compile(r"(?P<problem>.*?)(?: - at `(?P<key>key` in `)?\$(?P<place>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_MISSING = re.compile("Object missing required field `(.*)`")


def _misfit(message: str, data: Any) -> str:
    """A sentence on what msgspec says of a value: the place, what stands there, and what was expected."""
    parts = _MISFIT.fullmatch(message)
    assert parts is not None
    problem, place = parts["problem"], parts["place"] or ""
    shown = place.removeprefix(".") or "the whole"
    if missing := _MISSING.fullmatch(problem):
        return f"{shown} has no {missing[1]}"
    for name, number in () if "[...]" in place else _STEP.findall(place):
        data = data[name] if name else data[int(number)]
    if parts["key"]:
        shown, value = f"a key of {shown}", "is wrong"
    elif "[...]" in place or not isinstance(data, str | int | float | None):
        value = f"is an {json_type(data)}" if "[...]" not in place and isinstance(data, list | dict) else "is wrong"
    else:
        text = json.dumps(data)
        value = f"is {text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + '…'}"
    return f"{shown} {value}: {problem[:1].lower()}{problem[1:].replace('`', '')}"
