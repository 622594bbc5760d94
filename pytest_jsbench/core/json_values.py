"""JSON values and texts: what JSON calls a value, copies, digests, dataclasses as JSON, how deep a text goes."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from itertools import accumulate
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

#: those of which a value has nothing inside; nearly all that a schema holds are of one of them
_PLAIN = frozenset({str, int, float, bool, NoneType})


def copy_of(value: Any) -> Any:
    """A copy of a JSON value, which its holder may change; copy.deepcopy takes many times as long."""
    if isinstance(value, list):
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

#: what JSON calls the types that values are expected to be of
_NAMES: Mapping[type, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "a boolean",
    list: "an array",
    Mapping: "an object",
    NoneType: "null",
}


def expect(value: Any, name: str, *kinds: type) -> Any:
    """The value, which is of one of these types (a boolean is no number); TypeError, by name, where it is not."""
    if type(value) in kinds or (isinstance(value, kinds) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{name} is not {' or '.join(_NAMES[kind] for kind in kinds)}")


#: of a dataclass's field: JSON holds it only where it is not the default, or never
UNSAID, UNWRITTEN = {"json": "unsaid"}, {"json": "unwritten"}


def to_json(value: Any) -> Any:
    """A value with each dataclass that it holds as a JSON object, each tuple as an array, each path as a text."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return [to_json(part) for part in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {name: to_json(part) for name, part in value.items()}
    if not hasattr(value, "__dataclass_fields__"):
        return str(value) if isinstance(value, PurePath) else value
    kind: Any = type(value)
    parts = ((name, getattr(value, name), unsaid) for name, unsaid in _written(kind))
    return {name: part if type(part) in _PLAIN else to_json(part) for name, part, unsaid in parts if part != unsaid}


def from_json(kind: Callable[..., T], data: Mapping[str, Any], **made: Any) -> T:
    """
    The dataclass that is written so; KeyError where a field without a default is missing.

    The data has been checked against its published format. `made` are values that JSON holds in another form; fields
    that the dataclass does not have are of a later version, and left alone.
    """
    for name, read, required in _readers(kind):
        if name in made:
            continue
        if name in data:
            made[name] = data[name] if read is None else read(data[name])
        elif required:
            raise KeyError(name)
    return kind(**made)


@functools.cache
def _written(kind: Any) -> tuple[tuple[str, object], ...]:
    """The fields that JSON holds, each with the value for which it does not."""
    written = [field for field in fields(kind) if field.metadata != UNWRITTEN]
    return tuple((field.name, field.default if field.metadata == UNSAID else MISSING) for field in written)


@functools.cache
def _readers(kind: Any) -> tuple[tuple[str, Callable[[Any], Any] | None, bool], ...]:
    """Of each field its name, what makes its value of a JSON value, and whether there is no default for it."""
    hints = get_type_hints(kind)
    return tuple(
        (field.name, _reader(hints[field.name]), field.default is field.default_factory is MISSING)
        for field in fields(kind)
        if field.metadata != UNWRITTEN
    )


def _reader(hint: Any) -> Callable[[Any], Any] | None:
    """The function that makes a value of this type of a JSON value; None where it is one."""
    parts = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        others = [part for part in parts if part is not NoneType]
        read = _reader(others[0]) if len(others) == 1 else None
        return read and (lambda value: None if value is None else read(value))
    if get_origin(hint) is tuple:
        inner = _reader(parts[0])
        return tuple if inner is None else lambda values: tuple(map(inner, values))
    if get_origin(hint) is Mapping:
        part = _reader(parts[1])
        return part and (lambda values: {name: part(value) for name, value in values.items()})
    if get_origin(hint) is Literal and isinstance(parts[0], Enum):
        return type(parts[0])
    if hasattr(hint, "__dataclass_fields__"):
        return functools.partial(from_json, hint)
    if isinstance(hint, type) and (issubclass(hint, Enum | PurePath) or hint is int):
        return hint  # 1.0 is a whole number of JSON
    return _text if hint is str else None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(f"{json_type(value)} where a string was expected")
