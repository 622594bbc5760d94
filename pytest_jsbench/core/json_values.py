"""
Handle JSON values and texts: copies, digests, depth, and conversion of this package's types to and from JSON.

The package's own files are read and written only through `to_json` and `from_json`.
"""

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
from typing import Annotated, Any, TypeVar, cast, overload

import msgspec

from pytest_jsbench.core.text import printable

#: Types of JSON scalars; most values in a schema are scalars.
_PLAIN = frozenset({str, int, float, bool, NoneType})
#: Maximum length, in characters, of a value that an error shows.
_LONGEST_SHOWN = 40
_LONGEST_PROBLEM = 400


def copy_of(value: Any) -> Any:
    """Return a deep copy of a JSON value; copy.deepcopy takes many times as long."""
    if isinstance(value, (list, tuple)):
        return [inner if type(inner) in _PLAIN else copy_of(inner) for inner in value]
    # dict comes first, because an isinstance check for Mapping is slow.
    if isinstance(value, (dict, Mapping)):
        return {name: inner if type(inner) in _PLAIN else copy_of(inner) for name, inner in value.items()}
    return value


def as_dict(value: Any) -> dict[str, Any]:
    """
    Convert a mapping that `json` rejects, such as a read-only view, to a dict; raise TypeError for
    any other value.
    """
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        return {name: value[name] for name in value.keys()}  # iterating over the value need not yield its keys
    raise TypeError(f"found {type(value).__name__}, expected only JSON values")


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a JSON object; otherwise an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def loads(text: str | bytes) -> Any:
    """
    Parse a JSON text as `json.loads` does, in a quarter of the time.

    msgspec rejects every text that it would read differently, such as NaN or a lone surrogate.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError):
        return json.loads(text)


def compact_text(value: object) -> bytes | None:
    """
    Return the text of a JSON value without white space, to search in; None if the value cannot be written.

    To write and search the text takes a seventh of the time that it takes to visit each object of the value.
    """
    try:
        return msgspec.json.encode(value)
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError):
        return None


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON value in canonical form (sorted keys, no white space), as `sha256:<hex>`."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def json_type(value: object) -> str:
    """Return the name of the value's JSON type."""
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
_AS_PARENTHESES = bytes.maketrans(b"[]{}", b"()()")
#: Number of levels that are removed one by one; each removal reads the rest of the text again.
_LEVELS_REMOVED = 32


def structure(text: bytes | str, marks: bytes) -> bytes:
    """
    Return the structural characters of a JSON text, which are those outside its strings, without
    parsing the text.
    """
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    others = bytes(set(range(256)) - {*marks, *b'"'})
    # Once escapes are removed, quotation marks only delimit strings, so every second part is inside a string.
    kept = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, others).replace(b'""', b"")
    return b"".join(kept.split(b'"')[::2])


def too_deep(text: bytes | str, deepest: int) -> bool:
    """Return whether arrays and objects in a JSON text are nested deeper than `deepest`, without parsing the text."""
    opened = text.count(b"[") + text.count(b"{") if isinstance(text, bytes) else text.count("[") + text.count("{")
    if opened <= deepest:
        return False
    brackets = structure(text, b"[]{}")
    # A document with many values is rarely deep, and removing its innermost level again and again is fast.
    rest = brackets.translate(_AS_PARENTHESES)
    for _ in range(min(deepest, _LEVELS_REMOVED)):
        rest = rest.replace(b"()", b"")
        if not rest:
            return False
    return any(map(deepest.__lt__, accumulate(map(_DEPTH_CHANGE.__getitem__, brackets))))


T = TypeVar("T")

#: An integer in the package's files, small enough for every JSON tool.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
#: Number of attempts or retries.
Times = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
#: A rate or a probability.
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1_000_000_000)]
#: A digest, as returned by `digest`.
Digest = Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{64}$")]


def write_always(default: T) -> T:
    """
    Return the default for a Struct field that is always written to JSON; other fields are omitted if they have their
    default.
    """
    value: T = msgspec.field(default_factory=lambda: default)
    return value


def to_json(value: object) -> Any:
    """Convert a value of this package's types to JSON values: tuples to arrays, paths and enum members to strings."""
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
    Convert JSON values to this type; ignore unknown fields, which a later version may have written.

    Raise a ValueError that names the first place that does not match the type, what was found and what was expected.
    """
    _describe(kind)
    try:
        return msgspec.convert(data, kind, dec_hook=_decode_path)
    except msgspec.ValidationError as error:
        raise ValueError(printable(_misfit(str(error), data), _LONGEST_PROBLEM)) from error
    except UnicodeEncodeError:
        raise ValueError("the name of a field contains a lone surrogate") from None


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    _describe(kind)
    return msgspec.json.Decoder(kind, dec_hook=_decode_path)


def from_known_json(kind: type[T], text: bytes) -> T | None:
    """
    Convert a JSON text, which `parse_json` and `from_json` have accepted before, to this type in a fraction of their
    time.

    Return None if the text does not match the type, or only they can read it, for example because of a lone surrogate.
    """
    with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        value: T = _decoder(cast("Any", kind)).decode(text)
        return value
    return None


#: Sentinel that no type accepts: its conversion prepares the type and then fails.
_NOTHING = object()
_DESCRIBING = threading.Lock()


@functools.cache
def _describe(kind: Any) -> None:
    """
    Make msgspec prepare the type under a lock; msgspec 0.22 crashes if two threads use a new type
    at the same time.
    """
    with _DESCRIBING, contextlib.suppress(msgspec.ValidationError):
        msgspec.convert(_NOTHING, kind, dec_hook=_decode_path)


def _decode_path(kind: Any, value: object) -> object:
    if isinstance(value, str) and issubclass(kind, PurePath):
        return _path(kind, value)
    raise ValueError(f"found {json_type(value)}, expected text")


# Cached, because a process reads many records from the same file, and a path takes more memory than an offset.
@functools.lru_cache(maxsize=64)
def _path(kind: type[PurePath], text: str) -> PurePath:
    return kind(text)


_MISFIT = re.compile(r"(?P<problem>.*?)(?: - at `(?P<key>key` in `)?\$(?P<place>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_MISSING = re.compile("Object missing required field `(.*)`")


def _misfit(message: str, data: Any) -> str:
    """Rewrite a validation message of msgspec to state the place, what was found, and what was expected."""
    parts = _MISFIT.fullmatch(message)
    assert parts is not None
    problem = parts["problem"]
    place = parts["place"] or ""
    shown = place.removeprefix(".") or "the whole"
    if missing := _MISSING.fullmatch(problem):
        return f"{shown} has no {missing[1]}"
    for name, number in () if "[...]" in place else _STEP.findall(place):
        data = data[name] if name else data[int(number)]
    if parts["key"]:
        shown = f"a key of {shown}"
        value = "is wrong"
    elif "[...]" in place or not isinstance(data, str | int | float | None):
        value = f"is an {json_type(data)}" if "[...]" not in place and isinstance(data, list | dict) else "is wrong"
    else:
        text = json.dumps(data)
        value = f"is {text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + '…'}"
    return f"{shown} {value}: {problem[:1].lower()}{problem[1:].replace('`', '')}"
