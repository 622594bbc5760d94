"""Define the modes of a Python type's JSON Schema, with Pydantic's names: `validation` and `serialization`."""

from __future__ import annotations

from typing import Literal

#: JSON Schema of a type: `validation` describes its input, and `serialization` its output.
Mode = Literal["validation", "serialization"]
MODES: tuple[Mode, ...] = ("validation", "serialization")


def read_mode(value: object) -> Mode:
    """Return the value if it is a mode; raise ValueError with the names of the modes otherwise."""
    for mode in MODES:
        if value == mode:
            return mode
    raise ValueError(" or ".join(map(repr, MODES)))
