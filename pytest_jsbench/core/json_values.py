"""JSON values and texts: what JSON calls a value, copies, digests, values of an expected type, how deep a text goes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from itertools import accumulate
from types import NoneType
from typing import Any, TypeVar

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


def digest(value: object) -> str:
    """The SHA-256 of a JSON value in canonical form (sorted keys, no white space), as `sha256:<hex>`."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def json_type(value: object) -> str:
    """What JSON calls the value."""
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
    """Whether a JSON text nests arrays and objects deeper than that, seen without parsing it."""
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
    message = f"{name} is not {' or '.join(_NAMES[kind] for kind in kinds)}"
    raise TypeError(message)


def known(kind: type[T], data: Mapping[str, Any], *types: type) -> T:
    """A value of that dataclass, of these types alone; fields that it does not have are of a later version."""
    names = [one.name for one in fields(kind) if one.name in data]  # type: ignore[arg-type]
    return kind(**{name: expect(data[name], name, *types) if types else data[name] for name in names})
