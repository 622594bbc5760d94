"""Decide with the algebra of jsonschema-rs whether two schemas accept the same instances."""

from __future__ import annotations

from typing import Any

import jsonschema_rs

from pytest_jsbench.schemas.dialects import DRAFT_2020_12, dialect_of, find_dialect


def accept_the_same(first: Any, second: Any, dialect: str) -> bool | None:
    """
    Return whether both schemas accept the same instances; None if the algebra cannot decide.

    `dialect` is the `$schema` URI that applies to a schema without `$schema`.
    """
    declared = dialect_of(first, find_dialect(dialect) or DRAFT_2020_12)
    if declared is None:
        return None
    draft = getattr(jsonschema_rs, declared.validator.removesuffix("Validator"))
    try:
        one, other = (jsonschema_rs.canonicalize(each, draft=draft, offline=True) for each in (first, second))
        answers = [one.covers(other), other.covers(one)]
    except (ValueError, jsonschema_rs.ReferencingError):  # a part of a schema that the algebra does not support
        return None
    if jsonschema_rs.canonical.Containment.NO in answers:
        return False
    return True if answers == [jsonschema_rs.canonical.Containment.YES] * 2 else None
