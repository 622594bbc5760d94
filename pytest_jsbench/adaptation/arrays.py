"""The keywords of arrays, written with the keywords that the subset takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_jsbench.adaptation.changes import Contradiction

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.constraints import Constraints, Context, Node
    from pytest_jsbench.adaptation.document import Path, SchemaPart


def array_keywords(constraints: Constraints, context: Context) -> Node:
    """The keywords of an array that satisfies all constraints."""
    least = math.ceil(max(constraints.numbers("minItems", context.ledger), default=0))
    most = min(constraints.numbers("maxItems", context.ledger), default=math.inf)
    first, rest = _items(constraints, context)
    least = max(least, _contained(constraints, context, rest))
    if constraints.stated("unevaluatedItems"):
        context.ledger.give_up(
            "unevaluatedItems", constraints.where("unevaluatedItems"), "unevaluatedItems is not taken"
        )
    most = _unique(constraints, context, least, most)
    body: Node = {}
    if first:
        body["prefixItems"] = [context.place(tuple(parts), constraints.path) for parts in first]
    if rest or (context.subset.typed and not first):
        try:
            body["items"] = context.place(tuple(rest), constraints.path)
        except Contradiction:
            context.ledger.note("rewritten", "items", constraints.where("items"), "maxItems")
            most = min(most, len(first))
            if context.subset.typed and not first:
                body["items"] = context.place((), constraints.path)
    if most < least:
        raise Contradiction
    return {**body, **_bounds(constraints, context, least, most)}


def _items(constraints: Constraints, context: Context) -> tuple[list[list[SchemaPart]], list[SchemaPart]]:
    """The subschemas of the first items, position by position, and those of all other items."""
    tuples: list[list[SchemaPart]] = []
    rests: list[SchemaPart | None] = []
    for node in constraints.nodes:
        items = node.schema.get("items")
        keyword = "items" if isinstance(items, list) else "prefixItems"
        listed = node.schema.get(keyword, [])
        if not isinstance(listed, list):
            context.ledger.refuse(keyword, node.path, "not a list of schemas")
        if listed:
            _check_tuple(keyword, node.path, context)
        tuples.append([node.below(keyword, str(number)) for number in range(len(listed))])
        after = "additionalItems" if isinstance(items, list) else "items"
        rests.append(node.below(after) if after in node.schema else None)
    sayable = "prefixItems" in context.subset.keywords and context.document.draft >= 2020
    longest = max(map(len, tuples), default=0) if sayable else 0
    first: list[list[SchemaPart]] = []
    for position in range(longest):
        parts = [one[position] if position < len(one) else rest for one, rest in zip(tuples, rests, strict=True)]
        first.append([part for part in parts if part is not None])
    # without their tuple, those of a node that has one would be asked of the first items too
    kept = [rest for one, rest in zip(tuples, rests, strict=True) if rest is not None and (sayable or not one)]
    return first, kept


def _check_tuple(keyword: str, path: Path, context: Context) -> None:
    if context.document.draft < 2020 and "prefixItems" in context.subset.keywords:
        context.ledger.give_up(keyword, path, "prefixItems, which would be taken, means nothing in the schema's draft")
    elif "prefixItems" not in context.subset.keywords or keyword == "items":
        context.ledger.give_up(keyword, path, "one schema for each of the first items is not taken")


def _contained(constraints: Constraints, context: Context, rest: list[SchemaPart]) -> int:
    """Require of every item what `contains` requires of some; returns the smallest number of items."""
    least = 0
    for node in constraints.nodes:
        if "contains" not in node.schema:
            continue
        if "maxContains" in node.schema:
            context.ledger.give_up("maxContains", node.path, "maxContains is not taken")
        wanted = node.schema.get("minContains", 1)
        if isinstance(wanted, bool) or not isinstance(wanted, int | float):
            context.ledger.refuse("minContains", node.path, "not a number")
        if wanted > 0:
            context.ledger.note("tightened", "contains", node.path, "asked of every item")
            rest.append(node.below("contains"))
            least = max(least, math.ceil(wanted), 1)
    return least


def _unique(constraints: Constraints, context: Context, least: int, most: float) -> float:
    """The largest number of items with which `uniqueItems` holds."""
    where = constraints.where("uniqueItems")
    if not constraints.stated("uniqueItems"):
        return most
    if not any(value is True for value, _ in constraints.stated("uniqueItems")) or most <= 1:
        context.ledger.note("rewritten", "uniqueItems", where, "holds for every array that is left")
    elif context.ledger.mode == "narrow" and least <= 1 and "maxItems" in context.subset.keywords:
        context.ledger.note("tightened", "uniqueItems", where, "maxItems 1")
        return 1
    else:
        context.ledger.give_up("uniqueItems", where, "uniqueItems is not taken")
    return most


def _bounds(constraints: Constraints, context: Context, least: int, most: float) -> Node:
    bounds: Node = {}
    taken = "minItems" in context.subset.keywords
    highest = context.subset.most_min_items if taken else 0
    if highest is not None and least > highest:
        above = f" above {highest}" if taken else ""
        context.ledger.give_up("minItems", constraints.where("minItems"), f"minItems{above} is not taken")
        least = highest
    if not taken and constraints.stated("minItems") and not least:
        context.ledger.note("rewritten", "minItems", constraints.where("minItems"), "every array is as long")
    elif least or any(value == 0 for value, _ in constraints.stated("minItems")):
        bounds["minItems"] = least
    if most < math.inf and "maxItems" not in context.subset.keywords:
        context.ledger.give_up("maxItems", constraints.where("maxItems"), "maxItems is not taken")
    elif most < math.inf:
        bounds["maxItems"] = math.floor(most)
    return bounds
