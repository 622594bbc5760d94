"""Decide with the algebra of jsonschema-rs whether two schemas accept the same instances."""

from __future__ import annotations

from typing import Any

from pytest_jsbench.schemas.algebra import covers
from pytest_jsbench.schemas.dialects import DRAFT_2020_12, dialect_of, find_dialect


def accept_the_same(first: Any, second: Any, dialect: str) -> bool | None:
    """
    Return whether both schemas accept the same instances; None if the algebra cannot decide.

    `dialect` is the `$schema` URI that applies to a schema without `$schema`.
    """
    declared = dialect_of(first, find_dialect(dialect) or DRAFT_2020_12)
    if declared is None:
        return None
    answers = [covers(first, second, declared), covers(second, first, declared)]
    if False in answers:
        return False
    return None if None in answers else True
