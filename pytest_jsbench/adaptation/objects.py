"""Objects in the subset's words."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_jsbench.adaptation.changes import Contradiction
from pytest_jsbench.adaptation.document import SchemaPart
from pytest_jsbench.schemas.keywords import BY_KIND

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.constraints import Constraints, Context, Node
    from pytest_jsbench.adaptation.document import Path

#: with one of these the properties have to be known
_CLOSING = BY_KIND["object"] - {"properties", "required", "additionalProperties"}
_PLAIN_PATTERN = re.compile(r"[\w^$.*+\-]*", re.ASCII)


def say_object(facts: Constraints, context: Context) -> Node:
    """The keywords of objects."""
    _check(facts, context)
    properties = _named(facts)
    required = _required(facts, context)
    closing = context.subset.closed or _has_to_close(facts)
    if closing:
        _check_map(facts, context, properties)
    body: Node = {}
    said: Node = {}
    optional: list[tuple[Node, Path]] = []
    for name in dict.fromkeys([*properties, *required]):
        parts, where = _parts(facts, name), (*facts.path, "properties", name)
        if (*where, *(token for part in parts for token in part.path)) in context.omitted and name not in required:
            context.ledger.note("tightened", "properties", facts.path, f"without {name!r}, which would never end")
            continue
        try:
            if any(part.schema is False for part in parts):
                raise Contradiction
            said[name] = context.place(parts, where)
        except Contradiction:
            if name in required:
                raise
            context.ledger.note("rewritten", "properties", facts.path, f"without {name!r}, which no value conforms to")
            closing = True
            continue
        if name not in properties:
            context.ledger.note("rewritten", "required", facts.path, f"{name!r} is among the properties")
        optional.append((said[name], (*where, *(token for part in parts for token in part.path))))
    required = _counted(facts, context, list(said), required, closing=closing)
    if context.subset.all_required and (missing := [name for name in said if name not in required]):
        context.ledger.note("tightened", "required", facts.path, f"also {', '.join(map(repr, missing))}")
        context.made_required.extend(pair for name, pair in zip(said, optional, strict=True) if name in missing)
        required = list(said)
    if said or closing or facts.said("properties"):
        body["properties"] = said
    if required or facts.said("required"):
        body["required"] = required
    return {**body, **_openness(facts, context, closing=closing)}


def _check(facts: Constraints, context: Context) -> None:
    for keyword in ("properties", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies"):
        for value, path in facts.said(keyword):
            if not isinstance(value, Mapping):
                context.ledger.refuse(keyword, path, "not an object")
    for keyword in ("propertyNames", "unevaluatedProperties"):
        for value, path in facts.said(keyword):
            if value is not True:
                context.ledger.give_up(keyword, path, f"{keyword} is not taken")


def _named(facts: Constraints) -> list[str]:
    return list(dict.fromkeys(name for value, _ in facts.said("properties") for name in value))


def _required(facts: Constraints, context: Context) -> list[str]:
    """What is required, and what has to come along with the properties that may be there."""
    required: dict[str, None] = {}
    for names, path in facts.said("required"):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            context.ledger.refuse("required", path, "not a list of names")
        required.update(dict.fromkeys(names))
    known = {*_named(facts), *required}
    for keyword in ("dependentRequired", "dependencies"):
        for value, path in facts.said(keyword):
            context.ledger.note("rewritten", keyword, path, "what a property brings along is required in any case")
            changed = True
            while changed:
                brought = {other for name in known & value.keys() for other in _strings(value[name])}
                changed = not brought <= known
                known |= brought
                required.update(dict.fromkeys(sorted(brought)))
    late = [name for value, _ in facts.said("dependencies") for name in known - set(_named(facts)) if name in value]
    if any(isinstance(value[name], Mapping | bool) for value, _ in facts.said("dependencies") for name in late):
        context.ledger.refuse("dependencies", facts.where("dependencies"), "on a property that has no schema")
    for value, path in facts.said("dependentSchemas"):
        if (known - set(_named(facts))) & value.keys():
            context.ledger.refuse("dependentSchemas", path, "on a property that has no schema")
    return list(required)


def _strings(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _has_to_close(facts: Constraints) -> bool:
    speaking = [node for node in facts.nodes if BY_KIND["object"] & node.schema.keys()]
    return any(_CLOSING & node.schema.keys() for node in speaking) or (
        len(speaking) > 1 and any(node.schema.get("additionalProperties", True) is not True for node in speaking)
    )


def _check_map(facts: Constraints, context: Context, properties: list[str]) -> None:
    """An object of any names is its additional properties: closed, nothing of it would be left."""
    if properties or context.ledger.mode == "relax":
        return
    for keyword in ("patternProperties", "additionalProperties"):
        for value, path in facts.said(keyword):
            if isinstance(value, Mapping) and value:
                context.ledger.refuse(keyword, path, "closed, as objects have to be, only the empty one would be left")


def _parts(facts: Constraints, name: str) -> tuple[SchemaPart, ...]:
    """What each node asks of the property."""
    parts = []
    for node in facts.nodes:
        own = name in node.schema.get("properties", {})
        if own:
            parts.append(node.below("properties", name))
        patterns = [one for one in node.schema.get("patternProperties", {}) if _may_match(one, name)]
        parts += [node.below("patternProperties", one) for one in patterns]
        certainly = own or any(_PLAIN_PATTERN.fullmatch(one) for one in patterns)
        if "additionalProperties" in node.schema and not certainly:
            parts.append(node.below("additionalProperties"))
    return tuple(parts)


def _may_match(pattern: str, name: str) -> bool:
    """Whether the name matches; it may where the dialects of regular expressions could differ."""
    try:
        return (
            _PLAIN_PATTERN.fullmatch(pattern) is None
            or re.search(pattern.replace("$", r"\Z"), name, re.ASCII) is not None
        )
    except re.error:
        return True


def _counted(
    facts: Constraints, context: Context, names: list[str], required: list[str], *, closing: bool
) -> list[str]:
    """What is required, so that there are as many properties as there have to be."""
    ledger = context.ledger
    least = max(facts.numbers("minProperties", ledger), default=0)
    most = min(facts.numbers("maxProperties", ledger), default=math.inf)
    if closing and not names and least <= 0 and not facts.said("maxProperties"):
        return required
    if least > len(names):
        ledger.give_up("minProperties", facts.where("minProperties"), f"{len(names)} properties have a name here")
    elif least > len(required):
        ledger.note("tightened", "minProperties", facts.where("minProperties"), "so many properties are required")
        others = [name for name in names if name not in required]
        required = required + others[: math.ceil(least) - len(required)]
    elif facts.said("minProperties"):
        ledger.note("rewritten", "minProperties", facts.where("minProperties"), "as many properties are required")
    if len(names) > most:
        ledger.give_up("maxProperties", facts.where("maxProperties"), f"{len(names)} properties have a name")
    elif facts.said("maxProperties"):
        ledger.note("rewritten", "maxProperties", facts.where("maxProperties"), "no more properties have a name")
    return required


def _openness(facts: Constraints, context: Context, *, closing: bool) -> Node:
    said = facts.said("additionalProperties")
    if closing:
        if facts.said("patternProperties"):
            where = facts.where("patternProperties")
            context.ledger.note("tightened", "patternProperties", where, "only the properties with a name of their own")
        if not said or any(value is not False for value, _ in said):
            note = "no properties but those with a name of their own"
            context.ledger.note("tightened", "additionalProperties", facts.where("additionalProperties"), note)
        return {"additionalProperties": False}
    if not said:
        return {}
    node = next(node for node in facts.nodes if "additionalProperties" in node.schema)
    if isinstance(node.schema["additionalProperties"], bool):
        return {"additionalProperties": node.schema["additionalProperties"]}
    if context.subset.typed and not node.schema["additionalProperties"]:
        return {"additionalProperties": copy.deepcopy(True)}
    try:
        return {"additionalProperties": context.place((node.below("additionalProperties"),), node.path)}
    except Contradiction:
        return {"additionalProperties": False}
