"""Adapt the keywords of objects and arrays to the provider's subset."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_jsbench.adaptation.adapter import Contradiction
from pytest_jsbench.adaptation.document import names_in
from pytest_jsbench.schemas.keywords import BY_KIND

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.document import Path, SchemaPart
    from pytest_jsbench.adaptation.rules import Node, Rules

#: Keywords that the adaptation expresses by closing the object.
_CLOSING = BY_KIND["object"] - {"properties", "required", "additionalProperties"}
_PLAIN_PATTERN = re.compile(r"[\w^$.*+\-]*", re.ASCII)


def object_keywords(rules: Rules) -> Node:
    """Return supported keywords for objects that together enforce all rules."""
    _check_keywords(rules)
    properties = _property_names(rules)
    required = _required_names(rules)
    closing = rules.subset.closed or _must_close(rules)
    if closing:
        _check_map(rules, properties)
    adapted: Node = {}
    places: list[tuple[Node, Path]] = []
    for name in dict.fromkeys([*properties, *required]):
        parts = _subschemas_for(rules, name)
        where = (*rules.path, "properties", name)
        place = (*where, *(token for part in parts for token in part.path))
        if place in rules.context.omitted and name not in required:
            rules.note("tightened", "properties", f"removed {name!r}, which has no finite value", path=rules.path)
            continue
        try:
            if any(part.schema is False for part in parts):
                raise Contradiction
            adapted[name] = rules.context.place(parts, where)
        except Contradiction:
            if name in required:
                raise
            rules.note("rewritten", "properties", f"removed {name!r}, which has no valid value", path=rules.path)
            closing = True
            continue
        if name not in properties:
            rules.note("rewritten", "required", f"added {name!r} to the properties", path=rules.path)
        places.append((adapted[name], place))
    required = _require_by_count(rules, list(adapted), required, closing=closing)
    missing = [name for name in adapted if name not in required]
    if rules.subset.all_required and missing:
        rules.note("tightened", "required", f"also requires {', '.join(map(repr, missing))}", path=rules.path)
        rules.context.made_required.extend(pair for name, pair in zip(adapted, places, strict=True) if name in missing)
        required = list(adapted)
    body: Node = {}
    if adapted or closing or rules.values_of("properties"):
        body["properties"] = adapted
    if required or rules.values_of("required"):
        body["required"] = required
    return {**body, **_additional_properties(rules, closing=closing)}


def _check_keywords(rules: Rules) -> None:
    for keyword in ("properties", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies"):
        for value, path in rules.values_of(keyword):
            if not isinstance(value, Mapping):
                rules.ledger.refuse(keyword, path, "not an object")
    for keyword in ("propertyNames", "unevaluatedProperties"):
        for value, path in rules.values_of(keyword):
            if value is not True:
                rules.ledger.give_up(keyword, path, f"{keyword} is not supported")


def _property_names(rules: Rules) -> list[str]:
    return list(dict.fromkeys(name for value, _ in rules.values_of("properties") for name in value))


def _required_names(rules: Rules) -> list[str]:
    """Return the required properties, including all properties that a dependency may require."""
    required: dict[str, None] = {}
    for names, path in rules.values_of("required"):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            rules.ledger.refuse("required", path, "not a list of names")
        required.update(dict.fromkeys(names))
    properties = set(_property_names(rules))
    possible = {*properties, *required}
    for keyword in ("dependentRequired", "dependencies"):
        for value, path in rules.values_of(keyword):
            rules.ledger.note("rewritten", keyword, path, "the dependent properties are always required")
            changed = True
            while changed:
                added = {other for name in possible & value.keys() for other in names_in(value[name])}
                changed = not added <= possible
                possible |= added
                required.update(dict.fromkeys(sorted(added)))
    without_schema = possible - properties
    for value, _ in rules.values_of("dependencies"):
        if any(isinstance(value[name], Mapping | bool) for name in without_schema & value.keys()):
            rules.refuse("dependencies", "depends on a property that has no schema")
    for value, path in rules.values_of("dependentSchemas"):
        if without_schema & value.keys():
            rules.ledger.refuse("dependentSchemas", path, "depends on a property that has no schema")
    return list(required)


def _must_close(rules: Rules) -> bool:
    constrained = [node for node in rules.nodes if BY_KIND["object"] & node.schema.keys()]
    return any(_CLOSING & node.schema.keys() for node in constrained) or (
        len(constrained) > 1 and any(node.schema.get("additionalProperties", True) is not True for node in constrained)
    )


def _check_map(rules: Rules, properties: list[str]) -> None:
    """
    End the adaptation (`narrow`) if an object without named properties must be closed, since it could then have no
    properties.
    """
    if properties or rules.ledger.mode == "relax":
        return
    for keyword in ("patternProperties", "additionalProperties"):
        for value, path in rules.values_of(keyword):
            if isinstance(value, Mapping) and value:
                rules.ledger.refuse(keyword, path, "the object must be closed, and would then have no properties")


def _subschemas_for(rules: Rules, name: str) -> tuple[SchemaPart, ...]:
    """Return the subschemas that apply to the property."""
    parts = []
    for node in rules.nodes:
        own = name in node.schema.get("properties", {})
        if own:
            parts.append(node.below("properties", name))
        patterns = [pattern for pattern in node.schema.get("patternProperties", {}) if _may_match(pattern, name)]
        parts += [node.below("patternProperties", pattern) for pattern in patterns]
        certainly = own or any(map(_PLAIN_PATTERN.fullmatch, patterns))
        if "additionalProperties" in node.schema and not certainly:
            parts.append(node.below("additionalProperties"))
    return tuple(parts)


def _may_match(pattern: str, name: str) -> bool:
    """Return whether the name may match the pattern; True if regular expression engines may disagree."""
    if _PLAIN_PATTERN.fullmatch(pattern) is None:
        return True
    try:
        return re.search(pattern.replace("$", r"\Z"), name, re.ASCII) is not None
    except re.error:
        return True


def _require_by_count(rules: Rules, names: list[str], required: list[str], *, closing: bool) -> list[str]:
    """Return the required properties, with optional properties added until `minProperties` is met."""
    least = max(rules.numbers("minProperties"), default=0)
    most = min(rules.numbers("maxProperties"), default=math.inf)
    if closing and not names and least <= 0 and not rules.values_of("maxProperties"):
        return required
    if least > len(names):
        rules.give_up("minProperties", f"exceeds the number of named properties ({len(names)})")
    elif least > len(required):
        rules.note("tightened", "minProperties", "replaced by the same number of required properties")
        others = [name for name in names if name not in required]
        required = required + others[: math.ceil(least) - len(required)]
    elif rules.values_of("minProperties"):
        rules.note("rewritten", "minProperties", "removed, as enough properties are required")
    if len(names) > most:
        rules.give_up("maxProperties", f"is less than the number of named properties ({len(names)})")
    elif rules.values_of("maxProperties"):
        rules.note("rewritten", "maxProperties", "removed, as every remaining object satisfies it")
    return required


def _additional_properties(rules: Rules, *, closing: bool) -> Node:
    declared = rules.values_of("additionalProperties")
    if closing:
        if rules.values_of("patternProperties"):
            rules.note("tightened", "patternProperties", "only the named properties are allowed")
        if not declared or any(value is not False for value, _ in declared):
            rules.note("tightened", "additionalProperties", "only the named properties are allowed")
        return {"additionalProperties": False}
    if not declared:
        return {}
    node = next(node for node in rules.nodes if "additionalProperties" in node.schema)
    others = node.schema["additionalProperties"]
    if isinstance(others, bool):
        return {"additionalProperties": others}
    if rules.subset.typed and not others:
        return {"additionalProperties": True}
    try:
        return {"additionalProperties": rules.context.place((node.below("additionalProperties"),), node.path)}
    except Contradiction:
        return {"additionalProperties": False}


def array_keywords(rules: Rules) -> Node:
    """Return supported keywords for arrays that together enforce all rules."""
    least = math.ceil(max(rules.numbers("minItems"), default=0))
    most = min(rules.numbers("maxItems"), default=math.inf)
    first, rest = _item_schemas(rules)
    least = max(least, _apply_contains(rules, rest))
    if rules.values_of("unevaluatedItems"):
        rules.give_up("unevaluatedItems", "unevaluatedItems is not supported")
    most = _apply_unique_items(rules, least, most)
    body: Node = {}
    if first:
        body["prefixItems"] = [rules.context.place(tuple(parts), rules.path) for parts in first]
    if rest or (rules.subset.typed and not first):
        try:
            body["items"] = rules.context.place(tuple(rest), rules.path)
        except Contradiction:
            rules.note("rewritten", "items", "replaced by maxItems")
            most = min(most, len(first))
            if rules.subset.typed and not first:
                body["items"] = rules.context.place((), rules.path)
    if most < least:
        raise Contradiction
    return {**body, **_item_bounds(rules, least, most)}


def _item_schemas(rules: Rules) -> tuple[list[list[SchemaPart]], list[SchemaPart]]:
    """Return the subschemas for each of the first items, and the subschemas for all further items."""
    tuples: list[list[SchemaPart]] = []
    rests: list[SchemaPart | None] = []
    for node in rules.nodes:
        items = node.schema.get("items")
        keyword = "items" if isinstance(items, list) else "prefixItems"
        listed = node.schema.get(keyword, [])
        if not isinstance(listed, list):
            rules.ledger.refuse(keyword, node.path, "not a list of schemas")
        if listed:
            _check_tuple(rules, keyword, node.path)
        tuples.append([node.below(keyword, str(number)) for number in range(len(listed))])
        after = "additionalItems" if isinstance(items, list) else "items"
        rests.append(node.below(after) if after in node.schema else None)
    has_tuples = rules.has_keyword("prefixItems") and "prefixItems" in rules.document.dialect.keywords
    longest = max(map(len, tuples), default=0) if has_tuples else 0
    first: list[list[SchemaPart]] = []
    for position in range(longest):
        parts = [
            listed[position] if position < len(listed) else rest for listed, rest in zip(tuples, rests, strict=True)
        ]
        first.append([part for part in parts if part is not None])
    # without a node's schemas for the first items, its schema for further items would apply to the first items, too
    kept = [rest for listed, rest in zip(tuples, rests, strict=True) if rest is not None and (has_tuples or not listed)]
    return first, kept


def _check_tuple(rules: Rules, keyword: str, path: Path) -> None:
    if "prefixItems" not in rules.document.dialect.keywords and rules.has_keyword("prefixItems"):
        rules.ledger.give_up(
            keyword, path, "prefixItems is supported, but the schema's draft does not have this keyword"
        )
    elif not rules.has_keyword("prefixItems") or keyword == "items":
        rules.ledger.give_up(keyword, path, "separate schemas for the first items are not supported")


def _apply_contains(rules: Rules, rest: list[SchemaPart]) -> int:
    """Apply the schemas in `contains` to every item, by adding them to `rest`; return the minimum number of items."""
    least = 0
    for node in rules.nodes:
        if "contains" not in node.schema:
            continue
        if "maxContains" in node.schema:
            rules.ledger.give_up("maxContains", node.path, "maxContains is not supported")
        wanted = node.schema.get("minContains", 1)
        if isinstance(wanted, bool) or not isinstance(wanted, int | float):
            rules.ledger.refuse("minContains", node.path, "not a number")
        if wanted > 0:
            rules.ledger.note("tightened", "contains", node.path, "applied to every item")
            rest.append(node.below("contains"))
            least = max(least, math.ceil(wanted), 1)
    return least


def _apply_unique_items(rules: Rules, least: int, most: float) -> float:
    """Replace `uniqueItems` by a maximum of one item if necessary; return the maximum number of items."""
    declared = rules.values_of("uniqueItems")
    if not declared:
        return most
    if not any(value is True for value, _ in declared) or most <= 1:
        rules.note("rewritten", "uniqueItems", "removed, as every remaining array satisfies it")
    elif rules.ledger.mode == "narrow" and least <= 1 and rules.has_keyword("maxItems"):
        rules.note("tightened", "uniqueItems", "replaced by maxItems 1")
        return 1
    else:
        rules.give_up("uniqueItems", "uniqueItems is not supported")
    return most


def _item_bounds(rules: Rules, least: int, most: float) -> Node:
    bounds: Node = {}
    has_minimum = rules.has_keyword("minItems")
    highest = rules.subset.most_min_items if has_minimum else 0
    if highest is not None and least > highest:
        value = f"minItems above {highest}" if has_minimum else "minItems"
        rules.give_up("minItems", f"{value} is not supported")
        least = highest
    if not has_minimum and rules.values_of("minItems") and not least:
        rules.note("rewritten", "minItems", "removed, as every array satisfies it")
    elif least or any(value == 0 for value, _ in rules.values_of("minItems")):
        bounds["minItems"] = least
    if most < math.inf and not rules.has_keyword("maxItems"):
        rules.give_up("maxItems", "maxItems is not supported")
    elif most < math.inf:
        bounds["maxItems"] = math.floor(most)
    return bounds
