"""Strings, numbers and listed values in the words of a subset."""

from __future__ import annotations

import copy
import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pytest_jsbench.adaptation.changes import Contradiction
from pytest_jsbench.adaptation.document import FORMATS, kind_of
from pytest_jsbench.schemas.keywords import BY_KIND

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.constraints import Constraints, Context, Node

#: whole numbers that are listed where a bound has no words
_MOST_LISTED = 64

_ATOM = (
    r"(?:\[\^?(?:[^\]\\\[]|\\[dwsDWS.\-/\\+*_\]\[])+\]"
    r"|\\[dwsDWS.\-/+*?()\[\]{}|$^]"
    r"|[A-Za-z0-9_ @:/,;=!#%&~<>\"'-]|\.)"
)
_QUANTIFIER = r"(?:[*+?]|\{\d{1,6}(?:,\d{0,6})?\})?"
_PIECE = re.compile(rf"{_ATOM}(?P<times>{_QUANTIFIER})")
_SIMPLE = re.compile(rf"\^(?P<body>(?:{_ATOM}{_QUANTIFIER})*)\$")


def say_string(facts: Constraints, context: Context, *, lengths: bool = True) -> Node:
    """The keywords of strings; without their lengths where these were looked at already."""
    body = {**_pattern(facts, context), **_format(facts, context)}
    return {**body, **_lengths(facts, context, body.get("pattern"))} if lengths else body


def _pattern(facts: Constraints, context: Context) -> Node:
    found: str | None = None
    for pattern, path in facts.said("pattern"):
        if not isinstance(pattern, str):
            context.ledger.refuse("pattern", path, "not a regular expression")
        if "pattern" not in context.subset.keywords:
            context.ledger.give_up("pattern", path, "patterns are not taken")
        elif problem := context.subset.forbidden_pattern.search(pattern):
            context.ledger.give_up("pattern", path, f"{problem[0]!r} in a pattern is not taken")
        elif found not in (None, pattern):
            context.ledger.give_up("pattern", path, "two patterns for one string")
        else:
            found = pattern
    return {} if found is None else {"pattern": found}


def _format(facts: Constraints, context: Context) -> Node:
    found: str | None = None
    for name, path in facts.said("format"):
        if name not in FORMATS:
            context.ledger.note("dropped_annotation", "format", path, f"{name!r} is no format of JSON Schema")
        elif name not in context.subset.formats:
            context.ledger.give_up("format", path, f"format {name!r} is not taken")
        elif found not in (None, name):
            context.ledger.give_up("format", path, "two formats for one string")
        else:
            found = name
    return {} if found is None else {"format": found}


def _lengths(facts: Constraints, context: Context, pattern: str | None) -> Node:
    shortest = max(facts.numbers("minLength", context.ledger), default=0)
    longest = min(facts.numbers("maxLength", context.ledger), default=None)
    if longest is not None and longest < shortest:
        raise Contradiction
    keyword = "minLength" if shortest > 0 else "maxLength"
    if shortest <= 0 and longest is None:
        if facts.said("minLength"):
            context.ledger.note("rewritten", "minLength", facts.where("minLength"), "every string is as long")
        return {}
    where = facts.where(keyword)
    if pattern is not None:
        least, most = _width(pattern)
        if least < shortest or (longest is not None and most > longest):
            context.ledger.give_up(keyword, where, f"{keyword} is not taken, and the pattern does not imply it")
        else:
            context.ledger.note("rewritten", keyword, where, "the pattern implies it")
        return {}
    most_said = context.subset.longest_repeat
    if "pattern" not in context.subset.keywords or shortest > most_said:
        context.ledger.give_up(keyword, where, f"{keyword} is not taken")
        return {}
    upper = "" if longest is None else str(int(min(longest, most_said)))
    said = f"^.{{{math.ceil(shortest)},{upper}}}$"
    context.ledger.note("tightened", keyword, where, f"pattern {said!r}, which admits no line breaks")
    return {"pattern": said}


def _width(pattern: str) -> tuple[int, float]:
    """The lengths of the strings that a simple pattern matches; anything for another pattern."""
    simple = _SIMPLE.fullmatch(pattern)
    if simple is None:
        return 0, math.inf
    least, most = 0, 0.0
    for piece in _PIECE.finditer(simple["body"]):
        lower, upper = _times(piece["times"])
        least, most = least + lower, most + upper
    return least, most


def _times(quantifier: str) -> tuple[int, float]:
    if not quantifier.startswith("{"):
        return {"": (1, 1), "*": (0, math.inf), "+": (1, math.inf), "?": (0, 1)}[quantifier]
    lower, comma, upper = quantifier[1:-1].partition(",")
    if not comma:
        return int(lower), int(lower)
    return int(lower), int(upper) if upper else math.inf


def say_number(facts: Constraints, context: Context, *, whole: bool) -> tuple[str, Node]:
    """The type, which may have become narrower, and the keywords of numbers."""
    step = _step(facts, context, whole=whole)
    if step == {"multipleOf": 1}:
        whole, step = True, {}
    lower = _bound(facts, context, "minimum", whole=whole)
    upper = _bound(facts, context, "maximum", whole=whole)
    bounds = {**lower, **upper}
    unsaid = [keyword for keyword in bounds if keyword not in context.subset.keywords]
    kind = "integer" if whole else "number"
    if not unsaid:
        return kind, {**bounds, **step}
    if whole and lower and upper and not step:
        # a bound in words that the subset does not have is inclusive by now
        least, most = math.ceil(bounds["minimum"]), math.floor(bounds["maximum"])
        if most < least:
            raise Contradiction
        if most - least < _MOST_LISTED:
            context.ledger.note("rewritten", unsaid[0], facts.where(unsaid[0]), "the numbers between the bounds")
            return kind, {"enum": list(range(least, most + 1))}
    for keyword in unsaid:
        context.ledger.give_up(keyword, facts.where(keyword), f"{keyword} is not taken")
        del bounds[keyword]
    return kind, {**bounds, **step}


def _step(facts: Constraints, context: Context, *, whole: bool) -> Node:
    steps = list(dict.fromkeys(facts.numbers("multipleOf", context.ledger)))
    if not steps:
        return {}
    where = facts.where("multipleOf")
    if steps == [1] and "multipleOf" not in context.subset.keywords:
        note = "every integer is one" if whole else "type integer"
        context.ledger.note("rewritten" if whole else "tightened", "multipleOf", where, note)
        return {"multipleOf": 1}
    if "multipleOf" not in context.subset.keywords:
        context.ledger.give_up("multipleOf", where, "multipleOf is not taken")
        return {}
    if len(steps) > 1:
        context.ledger.give_up("multipleOf", where, "multipleOf twice for one number")
    return {"multipleOf": steps[0]}


def _bound(facts: Constraints, context: Context, keyword: str, *, whole: bool) -> Node:
    """The strictest bound on that side, as one keyword."""
    exclusive, sign = "exclusive" + keyword.capitalize(), -1 if keyword == "minimum" else 1
    bounds = [(sign * value, 1) for value in facts.numbers(keyword, context.ledger)]
    if context.document.draft > 4:
        bounds += [(sign * value, 0) for value in facts.numbers(exclusive, context.ledger)]
    else:
        bounds += _old_bounds(facts, context, keyword, exclusive, sign)
    if not bounds:
        return {}
    value, inclusive = min(bounds)
    value *= sign
    name = keyword if inclusive else exclusive
    if inclusive or (name in context.subset.keywords and context.document.draft > 4):
        if len(bounds) > 1:
            context.ledger.note("rewritten", name, facts.where(name), "the stricter bound")
        return {name: value}
    if whole:
        value = math.floor(value) + 1 if sign < 0 else math.ceil(value) - 1
        context.ledger.note("rewritten", exclusive, facts.where(exclusive), f"{keyword} {value}")
    else:
        context.ledger.give_up(exclusive, facts.where(exclusive), f"{exclusive} is not taken")
    return {keyword: value}


def _old_bounds(facts: Constraints, context: Context, keyword: str, exclusive: str, sign: int) -> list[tuple[Any, int]]:
    """The bounds of draft 4, where exclusive is a flag of the node."""
    bounds = []
    for node in facts.nodes:
        flag = node.schema.get(exclusive, False)
        if not isinstance(flag, bool):
            context.ledger.refuse(exclusive, node.path, "not a flag, as in draft 4")
        if exclusive in node.schema and not (flag and keyword in node.schema):
            context.ledger.note("rewritten", exclusive, node.path, "says nothing here")
        if flag and keyword in node.schema:
            bounds.append((sign * node.schema[keyword], 0))
    return bounds


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
