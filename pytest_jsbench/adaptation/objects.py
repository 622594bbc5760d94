"""The keywords of objects, written with the keywords that the subset takes."""

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

#: with one of these keywords an object has to be closed
_CLOSING = BY_KIND["object"] - {"properties", "required", "additionalProperties"}
_PLAIN_PATTERN = re.compile(r"[\w^$.*+\-]*", re.ASCII)


def object_keywords(constraints: Constraints, context: Context) -> Node:
    """The keywords of an object that satisfies all constraints."""
    _check(constraints, context)
    properties = _named(constraints)
    required = _required(constraints, context)
    closing = context.subset.closed or _has_to_close(constraints)
    if closing:
        _check_map(constraints, context, properties)
    body: Node = {}
    said: Node = {}
    optional: list[tuple[Node, Path]] = []
    for name in dict.fromkeys([*properties, *required]):
        parts, where = _parts(constraints, name), (*constraints.path, "properties", name)
        if (*where, *(token for part in parts for token in part.path)) in context.omitted and name not in required:
            context.ledger.note("tightened", "properties", constraints.path, f"without {name!r}, which would never end")
            continue
        try:
            if any(part.schema is False for part in parts):
                raise Contradiction
            said[name] = context.place(parts, where)
        except Contradiction:
            if name in required:
                raise
            context.ledger.note(
                "rewritten", "properties", constraints.path, f"without {name!r}, which no value conforms to"
            )
            closing = True
            continue
        if name not in properties:
            context.ledger.note("rewritten", "required", constraints.path, f"{name!r} is among the properties")
        optional.append((said[name], (*where, *(token for part in parts for token in part.path))))
    required = _counted(constraints, context, list(said), required, closing=closing)
    if context.subset.all_required and (missing := [name for name in said if name not in required]):
        context.ledger.note("tightened", "required", constraints.path, f"also {', '.join(map(repr, missing))}")
        context.made_required.extend(pair for name, pair in zip(said, optional, strict=True) if name in missing)
        required = list(said)
    if said or closing or constraints.stated("properties"):
        body["properties"] = said
    if required or constraints.stated("required"):
        body["required"] = required
    return {**body, **_openness(constraints, context, closing=closing)}


def _check(constraints: Constraints, context: Context) -> None:
    for keyword in ("properties", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies"):
        for value, path in constraints.stated(keyword):
            if not isinstance(value, Mapping):
                context.ledger.refuse(keyword, path, "not an object")
    for keyword in ("propertyNames", "unevaluatedProperties"):
        for value, path in constraints.stated(keyword):
            if value is not True:
                context.ledger.give_up(keyword, path, f"{keyword} is not taken")


def _named(constraints: Constraints) -> list[str]:
    return list(dict.fromkeys(name for value, _ in constraints.stated("properties") for name in value))


def _required(constraints: Constraints, context: Context) -> list[str]:
    """The required properties, those that depend on other properties included."""
    required: dict[str, None] = {}
    for names, path in constraints.stated("required"):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            context.ledger.refuse("required", path, "not a list of names")
        required.update(dict.fromkeys(names))
    known = {*_named(constraints), *required}
    for keyword in ("dependentRequired", "dependencies"):
        for value, path in constraints.stated(keyword):
            context.ledger.note("rewritten", keyword, path, "what a property brings along is required in any case")
            changed = True
            while changed:
                brought = {other for name in known & value.keys() for other in _strings(value[name])}
                changed = not brought <= known
                known |= brought
                required.update(dict.fromkeys(sorted(brought)))
    late = [
        name
        for value, _ in constraints.stated("dependencies")
        for name in known - set(_named(constraints))
        if name in value
    ]
    if any(isinstance(value[name], Mapping | bool) for value, _ in constraints.stated("dependencies") for name in late):
        context.ledger.refuse("dependencies", constraints.where("dependencies"), "on a property that has no schema")
    for value, path in constraints.stated("dependentSchemas"):
        if (known - set(_named(constraints))) & value.keys():
            context.ledger.refuse("dependentSchemas", path, "on a property that has no schema")
    return list(required)


def _strings(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _has_to_close(constraints: Constraints) -> bool:
    speaking = [node for node in constraints.nodes if BY_KIND["object"] & node.schema.keys()]
    return any(_CLOSING & node.schema.keys() for node in speaking) or (
        len(speaking) > 1 and any(node.schema.get("additionalProperties", True) is not True for node in speaking)
    )


def _check_map(constraints: Constraints, context: Context, properties: list[str]) -> None:
    """Refuse to close an object that has only additional properties: no property would be left."""
    if properties or context.ledger.mode == "relax":
        return
    for keyword in ("patternProperties", "additionalProperties"):
        for value, path in constraints.stated(keyword):
            if isinstance(value, Mapping) and value:
                context.ledger.refuse(keyword, path, "closed, as objects have to be, only the empty one would be left")


def _parts(constraints: Constraints, name: str) -> tuple[SchemaPart, ...]:
    """The subschemas that apply to the property."""
    parts = []
    for node in constraints.nodes:
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
    """Whether the name may match; true where dialects of regular expressions differ."""
    try:
        return (
            _PLAIN_PATTERN.fullmatch(pattern) is None
            or re.search(pattern.replace("$", r"\Z"), name, re.ASCII) is not None
        )
    except re.error:
        return True


def _counted(
    constraints: Constraints, context: Context, names: list[str], required: list[str], *, closing: bool
) -> list[str]:
    """The required properties, more where `minProperties` needs them."""
    ledger = context.ledger
    least = max(constraints.numbers("minProperties", ledger), default=0)
    most = min(constraints.numbers("maxProperties", ledger), default=math.inf)
    if closing and not names and least <= 0 and not constraints.stated("maxProperties"):
        return required
    if least > len(names):
        ledger.give_up("minProperties", constraints.where("minProperties"), f"{len(names)} properties have a name here")
    elif least > len(required):
        ledger.note("tightened", "minProperties", constraints.where("minProperties"), "so many properties are required")
        others = [name for name in names if name not in required]
        required = required + others[: math.ceil(least) - len(required)]
    elif constraints.stated("minProperties"):
        ledger.note("rewritten", "minProperties", constraints.where("minProperties"), "as many properties are required")
    if len(names) > most:
        ledger.give_up("maxProperties", constraints.where("maxProperties"), f"{len(names)} properties have a name")
    elif constraints.stated("maxProperties"):
        ledger.note("rewritten", "maxProperties", constraints.where("maxProperties"), "no more properties have a name")
    return required


def _openness(constraints: Constraints, context: Context, *, closing: bool) -> Node:
    said = constraints.stated("additionalProperties")
    if closing:
        if constraints.stated("patternProperties"):
            where = constraints.where("patternProperties")
            context.ledger.note("tightened", "patternProperties", where, "only the properties with a name of their own")
        if not said or any(value is not False for value, _ in said):
            note = "no properties but those with a name of their own"
            context.ledger.note("tightened", "additionalProperties", constraints.where("additionalProperties"), note)
        return {"additionalProperties": False}
    if not said:
        return {}
    node = next(node for node in constraints.nodes if "additionalProperties" in node.schema)
    if isinstance(node.schema["additionalProperties"], bool):
        return {"additionalProperties": node.schema["additionalProperties"]}
    if context.subset.typed and not node.schema["additionalProperties"]:
        return {"additionalProperties": copy.deepcopy(True)}
    try:
        return {"additionalProperties": context.place((node.below("additionalProperties"),), node.path)}
    except Contradiction:
        return {"additionalProperties": False}
