"""Schemas that are small, and much once their references and alternatives are written out."""

from __future__ import annotations

from typing import Any


def chain(length: int, *, alike: bool = True, **beside: Any) -> dict[str, Any]:
    """Definitions of which each offers the next twice, in the same words or in others."""
    definitions: dict[str, Any] = {"end": {"type": "object", "properties": {"a": {}}}}
    for number in range(length):
        following = {"$ref": f"#/$defs/d{number + 1}" if number + 1 < length else "#/$defs/end"}
        other = following if alike else {**following, "maxProperties": 9 + number}
        definitions[f"d{number}"] = {"anyOf": [following, other], "minProperties": 1, **beside}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def wide(levels: int, width: int) -> dict[str, Any]:
    """Alternatives that are told apart by what many others say, level after level."""
    definitions: dict[str, Any] = {"end": {"type": "object"}}
    for number in range(levels):
        following = f"#/$defs/w{number + 1}" if number + 1 < levels else "#/$defs/end"
        definitions[f"w{number}"] = {"allOf": [{"$ref": following}] * width}
    return {"oneOf": [{"$ref": "#/$defs/w0"}, {"type": "string"}], "$defs": definitions}


def lowered_one_by_one(length: int) -> dict[str, Any]:
    """References of which each is known to be delicate only after the one that stands behind it."""
    definitions = {f"r{number:05}": {"allOf": [{"$ref": f"#/$defs/r{number + 1:05}"}, {}]} for number in range(length)}
    ordered = dict(sorted(definitions.items(), reverse=True))
    return {"not": {"$ref": "#/$defs/r00000"}, "$defs": {f"r{length:05}": {"type": "string"}, **ordered}}
