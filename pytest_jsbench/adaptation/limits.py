"""Whether an adapted schema stays within the provider's limits, and whether an answer to it ever ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_jsbench.adaptation.constraints import Node
    from pytest_jsbench.adaptation.subsets import SubsetLimits

#: the keywords under which definitions stand
DEFINITIONS = ("$defs", "definitions")
_CONTAINERS = frozenset({"object", "array"})


def excess(schema: Node, limits: SubsetLimits) -> Iterator[tuple[str, str, str]]:
    """Each limit that the adapted schema exceeds: the keyword, what there is of it, and how much is taken."""
    nodes = [node for node, _ in _walk(schema)]
    named = ("properties", *DEFINITIONS)
    names = [name for node in nodes for keyword in named for name in node.get(keyword, {})]
    enums = [node["enum"] for node in nodes if "enum" in node]
    values = [value for listed in enums for value in listed] + [node["const"] for node in nodes if "const" in node]
    counts = (
        ("properties", sum(len(node.get("properties", ())) for node in nodes), limits.properties, "properties"),
        ("properties", max(depth for _, depth in _walk(schema)), limits.depth, "levels of nesting"),
        ("enum", sum(map(_length, [*names, *values])), limits.characters, "characters in names and values"),
        ("enum", sum(map(len, enums)), limits.enum_values, "enum values"),
        ("required", sum(map(_optional, nodes)), limits.optional, "optional properties"),
        ("anyOf", sum(map(_is_union, nodes)), limits.unions, "places with a choice"),
    )
    for keyword, count, limit, what in counts:
        if limit is not None and count > limit:
            yield keyword, f"{count} {what}", f"of which {limit} are taken"
    most = limits.long_enum_characters
    for listed in enums if limits.long_enum is not None and most is not None else ():
        if len(listed) > (limits.long_enum or 0) and sum(map(_length, listed)) > (most or 0):
            yield "enum", f"an enum of {len(listed)} values", f"which then have at most {most} characters"


def _walk(node: Node, depth: int = 0) -> Iterator[tuple[Node, int]]:
    """Every schema of an adapted schema, and the number of objects and arrays around it, itself included."""
    kinds = node.get("type", ())
    depth += bool(_CONTAINERS & set([kinds] if isinstance(kinds, str) else kinds))
    yield node, depth
    for child in _children(node):
        yield from _walk(child, depth)
    for keyword in DEFINITIONS:
        for child in node.get(keyword, {}).values():
            yield from _walk(child, 0)


def _children(node: Node) -> Iterator[Node]:
    yield from node.get("properties", {}).values()
    for keyword in ("anyOf", "allOf", "prefixItems"):
        yield from node.get(keyword, ())
    for keyword in ("items", "additionalProperties"):
        if isinstance(node.get(keyword), Mapping):
            yield node[keyword]


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(str(value))


def _optional(node: Node) -> int:
    return len(node.get("properties", {}).keys() - set(node.get("required", ())))


def _is_union(node: Node) -> bool:
    return "anyOf" in node or isinstance(node.get("type"), list)


def referred(root: Node, definitions: Mapping[str, Node]) -> dict[str, Node]:
    """The definitions that the root refers to, directly or not, each by its place: `$defs/name`."""
    found: dict[str, Node] = {}
    pending = [root]
    while pending:
        for node, _ in _walk(pending.pop()):
            name = node.get("$ref", "#").removeprefix("#/")
            if name in definitions and name not in found:
                found[name] = definitions[name]
                pending.append(definitions[name])
    return {name: node for name, node in definitions.items() if name in found}


def required_circle(root: Node, definitions: Mapping[str, Node]) -> str | None:
    """A reference that leads back to itself without a property that may be left out; None where there is none."""
    leads = {reference: set(_unavoidable(node)) for reference, node in _places(root, definitions).items()}
    for start in leads:
        found, pending = set[str](), [start]
        while pending:
            new = leads.get(pending.pop(), set()) - found
            found |= new
            pending += new
        if start in found:
            return start
    return None


def _places(root: Node, definitions: Mapping[str, Node]) -> dict[str, Node]:
    return {"#": root, **{f"#/{place}": node for place, node in definitions.items()}}


def _unavoidable(node: Node) -> Iterator[str]:
    """The references in the node, but for those within a property that is not required."""
    if "$ref" in node:
        yield node["$ref"]
    required = node.get("required", ())
    optional = [id(child) for name, child in node.get("properties", {}).items() if name not in required]
    for child in _children(node):
        if id(child) not in optional:
            yield from _unavoidable(child)


class Endings:
    """Finds the parts of an adapted schema that have a finite instance."""

    def __init__(self, root: Node, definitions: Mapping[str, Node]) -> None:
        self._ending: set[str] = set()
        places = _places(root, definitions)
        known = -1
        while known < len(self._ending):
            known = len(self._ending)
            self._ending |= {reference for reference, node in places.items() if self.ends(node)}
        self.root_ends = self.ends(root)

    def ends(self, node: Node) -> bool:
        """Whether the part has a finite instance."""
        if "$ref" in node:
            return node["$ref"] in self._ending
        if "anyOf" in node:
            return any(map(self.ends, node["anyOf"]))
        kinds = node.get("type")
        listed = [kinds] if isinstance(kinds, str) else kinds
        return listed is None or any(self._kind_ends(kind, node) for kind in listed)

    def _kind_ends(self, kind: str, node: Node) -> bool:
        if kind == "object":
            properties = node.get("properties", {})
            return self._all_end(properties[name] for name in node.get("required", ()) if name in properties)
        if kind == "array" and node.get("minItems", 0) > 0:
            first = node.get("prefixItems", [])
            rest = [node["items"]] if "items" in node and node["minItems"] > len(first) else []
            return self._all_end([*first[: node["minItems"]], *rest])
        return True

    def _all_end(self, nodes: Iterable[Node]) -> bool:
        return all(map(self.ends, nodes))
