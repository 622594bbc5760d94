"""Measure adapted schemas, and compare them with a provider's limits for one schema and for one request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pytest_jsbench.schemas.keywords import children

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.rules import Node
    from pytest_jsbench.adaptation.subsets import RequestLimits, SubsetLimits

#: Keywords that contain definitions.
_DEFINITIONS = ("$defs", "definitions")
_CONTAINERS = frozenset({"object", "array"})


def excess(schema: Node, limits: SubsetLimits) -> Iterator[tuple[str, str, str]]:
    """Yield the keyword, the count and the limit for each limit that the adapted schema exceeds."""
    nodes = [node for node, _ in walk(schema)]
    names = [name for node in nodes for keyword in ("properties", *_DEFINITIONS) for name in node.get(keyword, {})]
    enums = [node["enum"] for node in nodes if "enum" in node]
    values = [value for listed in enums for value in listed] + [node["const"] for node in nodes if "const" in node]
    counts = (
        ("properties", sum(len(node.get("properties", ())) for node in nodes), limits.properties, "properties"),
        ("properties", max(depth for _, depth in walk(schema)), limits.depth, "levels of nesting"),
        ("enum", _characters([*names, *values]), limits.characters, "characters in names and values"),
        ("enum", sum(map(len, enums)), limits.enum_values, "enum values"),
        ("required", sum(map(_count_optional, nodes)), limits.optional, "optional properties"),
        ("anyOf", sum(map(_is_union, nodes)), limits.unions, "places with a choice"),
    )
    for keyword, count, limit, what in counts:
        if limit is not None and count > limit:
            yield keyword, f"{count} {what}", f"at most {limit} are supported"
    most = limits.long_enum_characters
    for listed in enums if limits.long_enum is not None and most is not None else ():
        if len(listed) > (limits.long_enum or 0) and _characters(listed) > (most or 0):
            yield (
                "enum",
                f"an enum of {len(listed)} values",
                f"whose values may have at most {most} characters in total",
            )


def excess_of_request(schemas: Sequence[Any], tools: int, limits: RequestLimits) -> Iterator[str]:
    """
    Yield a text for each limit that the adapted schemas of one request exceed together.

    `schemas` are those that the provider enforces, and `tools` is the number of strict tools among them.
    """
    nodes = [node for schema in schemas if isinstance(schema, dict) for node, _ in walk(schema)]
    counts = (
        (tools, limits.strict_tools, "strict tools"),
        (sum(map(_count_optional, nodes)), limits.optional, "optional properties in all strict schemas"),
        (sum(map(_is_union, nodes)), limits.unions, "places with a choice in all strict schemas"),
    )
    for count, limit, what in counts:
        if limit is not None and count > limit:
            yield f"{count} {what}, at most {limit} are supported in one request"


def _count_optional(node: Node) -> int:
    return len(node.get("properties", {}).keys() - set(node.get("required", ())))


def _is_union(node: Node) -> bool:
    return len(node.get("anyOf", ())) > 1 or isinstance(node.get("type"), list)


def walk(node: Node, depth: int = 0) -> Iterator[tuple[Node, int]]:
    """
    Yield every subschema of an adapted schema with its nesting depth: the number of enclosing objects
    and arrays, including the subschema itself.
    """
    kinds = node.get("type", ())
    depth += bool(_CONTAINERS & set([kinds] if isinstance(kinds, str) else kinds))
    yield node, depth
    for child in children({keyword: value for keyword, value in node.items() if keyword not in _DEFINITIONS}):
        yield from walk(child, depth)
    for keyword in _DEFINITIONS:
        for child in node.get(keyword, {}).values():
            yield from walk(child, 0)


def _characters(values: Iterable[Any]) -> int:
    return sum(len(value if isinstance(value, str) else str(value)) for value in values)
