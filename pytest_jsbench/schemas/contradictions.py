"""Find bounds in a schema that contradict each other, or integer bounds that decoding libraries cannot handle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_jsbench.schemas.keywords import find_schemas
from pytest_jsbench.schemas.references import pointer_of

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema

#: Pairs of bounds: the type that they limit, the keyword of the lower bound, and the keyword of the upper bound.
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
#: Smallest absolute value of an unusable integer bound: decoding libraries add 1 to 64-bit bounds, or negate them.
_TOO_LARGE = 2**63 - 1
#: Maximum number of digits in a `minimum` without a `maximum`, or in a negative `maximum` without a `minimum`.
_MOST_DIGITS = 16


def find_impossible_bound(schema: Schema) -> str:
    """
    Describe the first bounds in the schema that no value can satisfy or that have too many digits; return an empty text
    if there are none.
    """
    for path, node in find_schemas(schema):
        problem = _contradiction(node) or _oversize(node) or _open_range(node)
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


def _open_range(node: Mapping[str, Any]) -> str:
    """
    Describe a very large `minimum` without a `maximum`, or a very large negative `maximum` without a `minimum`; return
    an empty text if the integers have no such bound.
    """
    if not _declares_integer(node):
        return ""
    for keyword, exclusive, other, sign in (
        ("minimum", "exclusiveMinimum", "maximum", 1),
        ("maximum", "exclusiveMaximum", "minimum", -1),
    ):
        ends = (_number(node.get(other)), _number(node.get(f"exclusive{other.capitalize()}")))
        if any(end is not None for end in ends):
            continue
        for name, step in ((keyword, 0), (exclusive, 1)):
            bound = _number(node.get(name))
            if bound is not None and 10**_MOST_DIGITS <= sign * bound + step < _TOO_LARGE:
                return f"{name} has more than {_MOST_DIGITS} digits, and there is no {other}"
    return ""


def _declares_integer(node: Mapping[str, Any]) -> bool:
    declared = node.get("type")
    return declared == "integer" or (isinstance(declared, list) and "integer" in declared)


def _allows(node: Mapping[str, Any], kind: str) -> bool:
    """Return whether the `type` of this schema allows a type; the schemas inside it are not checked."""
    declared = node.get("type")
    if declared is None:
        return True
    kinds = declared if isinstance(declared, list) else [declared]
    return kind in kinds or (kind == "number" and "integer" in kinds)


def _number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
