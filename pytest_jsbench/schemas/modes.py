"""The two JSON Schemas of a Python type, by the names that Pydantic has for them."""

from __future__ import annotations

from typing import Literal

#: Which of a type's two JSON Schemas: of what the type reads, or of what its objects are written as.
Mode = Literal["validation", "serialization"]
MODES: tuple[Mode, ...] = ("validation", "serialization")


def read_mode(value: object) -> Mode:
    """Return the mode of a type's JSON Schema; raise ValueError with what is expected otherwise."""
    for mode in MODES:
        if value == mode:
            return mode
    raise ValueError(" or ".join(map(repr, MODES)))
