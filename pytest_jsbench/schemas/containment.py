"""
Compare what two schemas accept: with values, a proof by keywords, and the algebra of jsonschema-rs.

Both schemas are untrusted, so `schema_comparison` calls this module in a child process. A value that only one of the
schemas accepts decides first, because it does not depend on any proof.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import jsonschema_rs

from pytest_jsbench.core.json_values import digest
from pytest_jsbench.schemas.algebra import covers
from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_2020_12, Dialect, dialect_of
from pytest_jsbench.schemas.keyword_differences import find_differences
from pytest_jsbench.schemas.keywords import KEYWORDS, rebuild, walk
from pytest_jsbench.schemas.sample_values import sample_values
from pytest_jsbench.schemas.structural_proof import StructuralProof

#: Maximum number of values that are tried for each schema.
_MOST_VALUES = 600
#: Maximum length of an example as JSON text.
_LONGEST_EXAMPLE = 200
#: Keywords of older drafts that are not rewritten for draft 2020-12.
_NOT_EXPRESSED = frozenset({"dependencies", "$recursiveRef"})


class _Checked(NamedTuple):
    """A valid schema."""

    schema: Any
    dialect: Dialect
    validator: jsonschema_rs.Validator
    #: The schema in draft 2020-12; None if it cannot be expressed in that draft.
    modern: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Coverage:
    """What is known about whether one schema accepts every value that another accepts."""

    #: Whether it does; None if unknown.
    holds: bool | None
    #: JSON text of a value that shows that it does not; empty without such a value, or if the value is long.
    example: str = ""


def differences_to_json(declared: Any, arrived: Any) -> list[dict[str, str]]:
    """Return the differences between two schemas as JSON values."""
    found = find_differences(declared, arrived)
    return [{"kind": each.kind, "keyword": each.keyword, "place": each.place} for each in found]


def relation_to_json(declared: Any, arrived: Any) -> dict[str, str]:
    """Compare what two schemas accept, and return the fields of a SchemaComparison except the differences."""
    if digest(declared) == digest(arrived):
        return {"relation": "equal"}
    try:
        first = _check(declared, "the declared schema")
        second = _check(arrived, "the schema that arrived")
    except ValueError as error:
        return {"relation": "unknown", "reason": str(error)}
    within = _coverage(first, second)
    over = _coverage(second, first)
    found = {"accepted": within.example, "rejected": over.example}
    match within.holds, over.holds:
        case True, True:
            return {**found, "relation": "equal"}
        case True, False:
            return {**found, "relation": "narrower"}
        case False, True:
            return {**found, "relation": "wider"}
        case False, False:
            return {**found, "relation": "different"}
        case _:
            return {**found, "relation": "unknown", "reason": _describe(within.holds, over.holds)}


def _describe(within: bool | None, over: bool | None) -> str:
    """Return what is known if the relation of two schemas is unknown."""
    known = {True: "accepts no other values", False: "accepts other values"}
    known_over = {True: "accepts all values of the declared schema", False: "rejects some of its values"}
    if within is not None:
        return f"it {known[within]}, but it is not known if it accepts all values of the declared schema"
    if over is not None:
        return f"it {known_over[over]}, but it is not known if it accepts others"
    return "neither a proof nor a value shows how the schemas are related"


def _check(schema: Any, name: str) -> _Checked:
    """Compile a schema, offline; raise ValueError with the reason if it is invalid."""
    dialect = dialect_of(schema, DRAFT_2020_12) if isinstance(schema, bool | dict) else None
    if dialect is None:
        raise ValueError(f"{name} has an unknown dialect")
    validator: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, dialect.validator)
    try:
        compiled = validator(schema, validate_formats=True, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        message = str(error).partition("\n")[0]
        raise ValueError(f"{name} cannot be used: {message}") from None
    return _Checked(schema, dialect, compiled, _modernize(schema, dialect))


def _coverage(outer: _Checked, inner: _Checked) -> _Coverage:
    """Return whether the outer schema accepts every value that the inner one accepts."""
    for value in _values(inner, outer):
        if _accepts(inner, value) is True and _accepts(outer, value) is False:
            text = json.dumps(value, ensure_ascii=False)
            return _Coverage(holds=False, example=text if len(text) <= _LONGEST_EXAMPLE else "")
    if outer.modern is not None and inner.modern is not None and StructuralProof(outer.modern, inner.modern).covers():
        return _Coverage(holds=True)
    return _Coverage(holds=_covers_by_algebra(outer, inner))


def _values(first: _Checked, second: _Checked) -> Iterator[Any]:
    samples = (sample_values(checked.schema, most=_MOST_VALUES) for checked in (first, second))
    return chain.from_iterable(samples)


def _accepts(checked: _Checked, value: Any) -> bool | None:
    """Return whether a schema accepts a value; None if a pattern needs too many steps."""
    try:
        return checked.validator.is_valid(value)
    except ValueError:
        return None


def _modernize(schema: Any, dialect: Dialect) -> Any:
    """Return the schema in draft 2020-12, which the proof reads; None if it uses what that draft does not express."""
    if isinstance(schema, bool) or dialect is DRAFT_2020_12:
        return schema
    if dialect is DRAFT_4 or not all(_can_be_modernized(each, dialect) for each in walk(schema)):
        return None
    return {name: value for name, value in rebuild(schema, _with_prefix_items).items() if name != "$schema"}


def _can_be_modernized(schema: dict[str, Any], dialect: Dialect) -> bool:
    used = KEYWORDS & schema.keys()
    if not used <= dialect.keywords - _NOT_EXPRESSED:
        return False
    return len(used) == 1 or "$ref" not in used or not dialect.lone_references


def _with_prefix_items(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the keywords of draft 2020-12 for the items of an array."""
    others = {name: value for name, value in schema.items() if name not in ("items", "additionalItems")}
    if not isinstance(schema.get("items"), list):
        return others | ({"items": schema["items"]} if "items" in schema else {})
    following = {"items": schema["additionalItems"]} if "additionalItems" in schema else {}
    return {**others, "prefixItems": schema["items"], **following}


def _covers_by_algebra(outer: _Checked, inner: _Checked) -> bool | None:
    """Return what the algebra of jsonschema-rs finds, which only compares schemas of the same draft."""
    if outer.modern is not None and inner.modern is not None:
        return covers(outer.modern, inner.modern, DRAFT_2020_12)
    return covers(outer.schema, inner.schema, outer.dialect) if outer.dialect is inner.dialect else None
