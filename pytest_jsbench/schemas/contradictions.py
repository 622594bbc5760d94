"""Find bounds of a schema that contradict each other, or that are not 64-bit integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_jsbench.schemas.keywords import located
from pytest_jsbench.schemas.references import pointer_of

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema

#: Pairs of bounds: the type that they limit, the lower bound, and the upper bound.
_PAIRS = (
    ("string", "minLength", "maxLength"),
    ("array", "minItems", "maxItems"),
    ("array", "minContains", "maxContains"),
    ("object", "minProperties", "maxProperties"),
    ("number", "minimum", "maximum"),
    ("number", "exclusiveMinimum", "maximum"),
    ("number", "minimum", "exclusiveMaximum"),
    ("number", "exclusiveMinimum", "exclusiveMaximum"),
)
_INTEGER_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
#: Smallest number that is too large. The ends of 64 bits are included, since libraries add 1 to a bound or negate it.
_TOO_LARGE = 2**63 - 1


def find_impossible_bound(schema: Schema) -> str:
    """
    Describe the first bounds that no value meets or that need more than 64 bits; empty if there are
    no such bounds.
    """
    for path, node in located(schema):
        problem = _contradiction(node) or _oversize(node)
        if problem:
            return f"{problem} at {pointer_of(path) or '/'}"
    return ""


def _contradiction(node: Mapping[str, Any]) -> str:
    for kind, lower, upper in _PAIRS:
        least = _number(node.get(lower))
        most = _number(node.get(upper))
        if least is None or most is None or not _allows(node, kind):
            continue
        open_ended = lower.startswith("exclusive") or upper.startswith("exclusive")
        if least > most or (open_ended and least == most):
            return f"no value lies between {lower} {least} and {upper} {most}"
    return ""


def _oversize(node: Mapping[str, Any]) -> str:
    for keyword in _INTEGER_BOUNDS if _allows(node, "integer") else ():
        bound = _number(node.get(keyword))
        # larger bounds that are written as floats, such as 1e30, are accepted
        if isinstance(bound, int) and abs(bound) >= _TOO_LARGE:
            return f"{keyword} is not a 64-bit integer"
    return ""


def _allows(node: Mapping[str, Any], kind: str) -> bool:
    """Return whether the node's own `type` allows a type."""
    declared = node.get("type")
    if declared is None:
        return True
    kinds = declared if isinstance(declared, list) else [declared]
    return kind in kinds or (kind == "number" and "integer" in kinds)


def _number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
