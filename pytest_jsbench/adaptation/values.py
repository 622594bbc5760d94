"""`enum` and `const` in the subset's words."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pytest_jsbench.adaptation.changes import Contradiction
from pytest_jsbench.adaptation.outlines import kind_of
from pytest_jsbench.adaptation.scalars import say_string
from pytest_jsbench.schemas.keywords import BY_KIND

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.constraints import Constraints, Context, Node


def say_values(facts: Constraints, values: list[Any], kinds: tuple[str, ...] | None, context: Context) -> list[Node]:
    """Alternatives that together list the values which all of the nodes admit."""
    keyword = "enum" if facts.said("enum") else "const"
    where = facts.where(keyword)
    kept = [value for value in values if _is_one(value, kinds) and _conforms(value, facts, context)]
    if not kept:
        raise Contradiction
    if len(kept) < len(values):
        context.ledger.note("rewritten", keyword, where, "without the values that the other keywords refuse")
    if any(isinstance(value, dict | list) for value in kept):
        kept = _simple(kept, facts, context, keyword)
    _note_looked_at(facts, context)
    if kinds is None and not context.subset.typed:
        return [{**_list(facts, kept, context), **_strings(facts, kept, context)}]
    if kinds is None:
        kinds = _kinds(kept)
        context.ledger.note("rewritten", "type", facts.path, "the types of the values")
    if context.subset.type_lists == "nullable" and len(set(kinds) - {"null"}) > 1:
        context.ledger.note("rewritten", "type", facts.where("type"), "one alternative for each type")
        groups = [(kind, [value for value in kept if _is_one(value, (kind,))]) for kind in kinds]
        return [
            {"type": kind, **_list(facts, group, context), **_strings(facts, group, context)}
            for kind, group in groups
            if group
        ]
    declared = [value for value, _ in facts.said("type")]
    single = len(kinds) == 1 and not (declared and isinstance(declared[0], list))
    listed = _list(facts, kept, context)
    return [{"type": kinds[0] if single else list(kinds), **listed, **_strings(facts, kept, context)}]


def _strings(facts: Constraints, values: list[Any], context: Context) -> Node:
    return say_string(facts, context, lengths=False) if any(isinstance(value, str) for value in values) else {}


def _simple(values: list[Any], facts: Constraints, context: Context, keyword: str) -> list[Any]:
    """The values without arrays and objects, where these are not taken or more is asked of them."""
    asked = BY_KIND["object"] | BY_KIND["array"]
    if not context.subset.scalar_values and not any(asked & node.schema.keys() for node in facts.nodes):
        return values
    scalars = [value for value in values if not isinstance(value, dict | list)]
    if not scalars:
        context.ledger.refuse(keyword, facts.where(keyword), "arrays and objects as values are not taken")
    context.ledger.note("tightened", keyword, facts.where(keyword), "without the arrays and objects")
    return scalars


def _list(facts: Constraints, values: list[Any], context: Context) -> Node:
    as_const = facts.said("const") and "const" in context.subset.keywords and context.document.draft > 4
    if as_const and not facts.said("enum"):
        return {"const": copy.deepcopy(values[0])}
    if facts.said("const"):
        context.ledger.note("rewritten", "const", facts.where("const"), "an enum of one value")
    return {"enum": copy.deepcopy(values)}


def _kinds(values: list[Any]) -> tuple[str, ...]:
    kinds = dict.fromkeys(map(kind_of, values))
    return tuple(kind for kind in kinds if kind != "integer" or "number" not in kinds)


def _is_one(value: Any, kinds: tuple[str, ...] | None) -> bool:
    kind = kind_of(value)
    return kinds is None or kind in kinds or (kind == "integer" and "number" in kinds)


def _conforms(value: Any, facts: Constraints, context: Context) -> bool:
    """Whether the value keeps to the bounds; patterns and formats are not looked at."""
    ledger = context.ledger
    if isinstance(value, str):
        longest, shortest = facts.numbers("maxLength", ledger), facts.numbers("minLength", ledger)
        return all(len(value) <= most for most in longest) and all(len(value) >= least for least in shortest)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    return (
        all(value >= least for least in facts.numbers("minimum", ledger))
        and all(value <= most for most in facts.numbers("maximum", ledger))
        and all(_outside(value, facts, keyword) for keyword in ("exclusiveMinimum", "exclusiveMaximum"))
        and all(Fraction(str(value)) % Fraction(str(step)) == 0 for step in facts.numbers("multipleOf", ledger) if step)
    )


def _outside(value: float, facts: Constraints, keyword: str) -> bool:
    """Whether the value keeps to that exclusive bound, whichever draft it is of."""
    sign = 1 if keyword == "exclusiveMinimum" else -1
    inclusive = keyword.removeprefix("exclusive").lower()
    for node in facts.nodes:
        bound = node.schema.get(keyword)
        bound = node.schema.get(inclusive) if bound is True else bound
        if isinstance(bound, int | float) and not isinstance(bound, bool) and sign * value <= sign * bound:
            return False
    return True


def _note_looked_at(facts: Constraints, context: Context) -> None:
    for keyword in ("minLength", "maxLength", *sorted(BY_KIND["number"])):
        if facts.said(keyword):
            context.ledger.note("rewritten", keyword, facts.where(keyword), "the listed values keep to it")
