"""List the changes that an engine made to a schema, by comparing the schema with the one that was sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from pytest_jsbench.adaptation.adapter import Change, ChangeKind, Ledger
from pytest_jsbench.adaptation.bounding import schema_below_defs
from pytest_jsbench.adaptation.document import canonical
from pytest_jsbench.adaptation.merging import are_exclusive, is_number
from pytest_jsbench.core.cases import Schema

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.document import Path

#: Keywords that identify a schema or its draft; an engine removes them if it writes references as pointers.
_NAMES_OF_PLACES = frozenset({"$schema", "$id", "id"})
#: Keywords whose value is a set: a list in any order, or one type.
_SETS = (("required",), ("enum",), ("type",))
#: Direction in which a bound becomes stricter: 1 for larger values, -1 for smaller values.
_SIGNS: Mapping[str, int] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), 1),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), -1),
}
_BOUNDS_OF_A_SIDE = (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1))


def changes_by_engine(before: Schema, after: Schema) -> tuple[Change, ...]:
    """Return the changes that an engine made to a schema before sending it, keyword by keyword."""
    ledger = Ledger("relax")
    # the user's schema may itself have the form that `with_pointers` produces
    was_below = isinstance(before, Mapping) and schema_below_defs(before) is not None
    moved = schema_below_defs(after) if isinstance(after, Mapping) else None
    if not was_below and moved is not None:
        ledger.note(
            "rewritten", "$ref", (), "the engine moved the schema into $defs, so that a pointer can refer to it"
        )
        after = moved
    places: list[tuple[Path, Any, Any]] = [((), before, after)]
    for path, was, now in places:  # the loop appends the subschemas to the list
        if was is now:  # both schemas contain the same object here
            continue
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            for name in {**was, **now}:
                forbids = was.get(name) is False
                # additionalProperties or propertyNames forbids the removed property instead
                if name not in now and forbids and path[-1:] == ("properties",):
                    note = "the engine removed a property that is forbidden"
                    ledger.note("rewritten", "properties", path[:-1], note)
                elif name not in now:
                    replaced = _pairs_of_replaced(name, was, now)
                    implied = bool(replaced) or _is_implied(name, was, now)
                    reworded = implied or (forbids and name == "items") or name in _NAMES_OF_PLACES
                    ledger.note("rewritten" if reworded else "widened", name, path, "removed by the engine")
                    places += [((*path, *below), *pair) for below, *pair in replaced]
                elif name not in was:
                    ledger.note("tightened", name, path, f"set by the engine{_bound_note(now[name])}")
                else:
                    places.append(((*path, name), was[name], now[name]))
        elif path[-1:] not in _SETS and isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
            places += [((*path, str(at)), *pair) for at, pair in enumerate(zip(was, now, strict=True))]
        elif was != now and not (was is True and now == {}):  # an empty schema and `true` accept the same
            keyword = path[-1] if path else ""
            ledger.note(_effect(keyword, was, now), keyword, path[:-1], f"changed by the engine{_bound_note(now)}")
    return ledger.changes()


def _effect(keyword: str, was: object, now: object) -> ChangeKind:
    """Return the effect of changing a keyword's value; `rewritten` if no other effect can be determined."""
    if now is False:
        return "tightened"
    if was is False:
        return "rewritten" if now == {"not": {}} else "widened"
    if is_number(was) and is_number(now) and keyword in _SIGNS:
        before = cast("float", was)
        after = cast("float", now)
        return "tightened" if _SIGNS[keyword] * after > _SIGNS[keyword] * before else "widened"
    if (keyword,) not in _SETS:
        return "rewritten"
    before_members = _members(was)
    after_members = _members(now)
    if before_members == after_members:
        return "rewritten"
    if keyword == "required":  # more names reject more instances; more values or types accept more
        return "tightened" if before_members <= after_members else "widened"
    return "tightened" if after_members <= before_members else "widened"


def _members(value: object) -> frozenset[str]:
    """Return the members of a keyword's list as JSON; the type `number` includes `integer`."""
    members = frozenset(map(canonical, value if isinstance(value, list) else [value]))
    return members | {'"integer"'} if '"number"' in members else members


def _pairs_of_replaced(name: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[Path, Any, Any]]:
    """
    Return the schemas or values to compare for a removed keyword; empty if no other keyword replaces it.

    Each entry is the path below the node, the value before, and the value after.
    """
    value = was[name]
    if name == "allOf" and _are_mappings(value):  # the branches of `allOf` may be merged with the node
        return [((name, str(at)), {**now, **branch}, now) for at, branch in enumerate(value)]
    chosen: Any = now.get("anyOf")
    are_pairs = _are_mappings(value) and _are_mappings(chosen) and len(value) == len(chosen)
    if name == "oneOf" and "anyOf" not in was and are_pairs and are_exclusive(chosen):
        pairs = enumerate(zip(value, chosen, strict=True))
        return [((name, str(at)), {**after, **before}, after) for at, (before, after) in pairs]
    for branches in (now.get("anyOf"), now.get("oneOf")):
        if _are_mappings(branches) and all(name in branch for branch in branches):
            return [((name,), *_comparable(name, value, branch)) for branch in branches]
    return []


def _are_mappings(branches: object) -> TypeGuard[list[Mapping[str, Any]]]:
    return isinstance(branches, list) and all(isinstance(branch, Mapping) for branch in branches)


def _comparable(name: str, value: object, branch: Mapping[str, Any]) -> tuple[object, object]:
    """Return a keyword's value and its value in a branch, without properties that cannot be compared."""
    moved = branch[name]
    if name != "properties" or not isinstance(value, Mapping) or not isinstance(moved, Mapping):
        return value, moved
    # a closed branch forbids the properties that it does not name
    is_closed = branch.get("additionalProperties") is False
    expected = {key: schema for key, schema in value.items() if key in moved or not is_closed}
    return expected, {key: schema for key, schema in moved.items() if key in value}


def _is_implied(name: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether the remaining keywords enforce all restrictions of the removed keyword."""
    if name == "items":
        listed = was.get("prefixItems")
        most = now.get("maxItems")
        return isinstance(listed, list) and isinstance(most, int | float) and most <= len(listed)
    for exclusive, inclusive, sign in _BOUNDS_OF_A_SIDE:
        left = was.get(name)
        kept = now.get(exclusive if name == inclusive else inclusive)
        if name in (exclusive, inclusive) and isinstance(left, int | float) and isinstance(kept, int | float):
            return sign * kept > sign * left or (kept == left and name == inclusive)
    return False


def _bound_note(value: object) -> str:
    """Return a bound as the end of a note; empty for other values, since the recorded schema contains them."""
    return f": {json.dumps(value)}" if isinstance(value, bool | int | float) else ""
