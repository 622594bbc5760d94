"""The keywords of strings and numbers, and listed values, written with the keywords that the subset takes."""

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

#: the most whole numbers that replace bounds which the subset lacks
_MOST_LISTED = 64

_ATOM = (
    r"(?:\[\^?(?:[^\]\\\[]|\\[dwsDWS.\-/\\+*_\]\[])+\]"
    r"|\\[dwsDWS.\-/+*?()\[\]{}|$^]"
    r"|[A-Za-z0-9_ @:/,;=!#%&~<>\"'-]|\.)"
)
_QUANTIFIER = r"(?:[*+?]|\{\d{1,6}(?:,\d{0,6})?\})?"
_PIECE = re.compile(rf"{_ATOM}(?P<times>{_QUANTIFIER})")
_SIMPLE = re.compile(rf"\^(?P<body>(?:{_ATOM}{_QUANTIFIER})*)\$")


def string_keywords(constraints: Constraints, context: Context, *, lengths: bool = True) -> Node:
    """The keywords of a string that satisfies all constraints, with its lengths or without."""
    body = {**_pattern(constraints, context), **_format(constraints, context)}
    return {**body, **_lengths(constraints, context, body.get("pattern"))} if lengths else body


def _pattern(constraints: Constraints, context: Context) -> Node:
    found: str | None = None
    for pattern, path in constraints.stated("pattern"):
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


def _format(constraints: Constraints, context: Context) -> Node:
    found: str | None = None
    for name, path in constraints.stated("format"):
        if name not in FORMATS:
            context.ledger.note("dropped_annotation", "format", path, f"{name!r} is no format of JSON Schema")
        elif name not in context.subset.formats:
            context.ledger.give_up("format", path, f"format {name!r} is not taken")
        elif found not in (None, name):
            context.ledger.give_up("format", path, "two formats for one string")
        else:
            found = name
    return {} if found is None else {"format": found}


def _lengths(constraints: Constraints, context: Context, pattern: str | None) -> Node:
    shortest = max(constraints.numbers("minLength", context.ledger), default=0)
    longest = min(constraints.numbers("maxLength", context.ledger), default=None)
    if longest is not None and longest < shortest:
        raise Contradiction
    keyword = "minLength" if shortest > 0 else "maxLength"
    if shortest <= 0 and longest is None:
        if constraints.stated("minLength"):
            context.ledger.note("rewritten", "minLength", constraints.where("minLength"), "every string is as long")
        return {}
    where = constraints.where(keyword)
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
    """The shortest and longest string that a simple pattern matches; 0 and infinity for another pattern."""
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


def number_keywords(constraints: Constraints, context: Context, *, whole: bool) -> tuple[str, Node]:
    """The type, `integer` where only integers conform, and the keywords of a number."""
    step = _step(constraints, context, whole=whole)
    if step == {"multipleOf": 1}:
        whole, step = True, {}
    lower = _bound(constraints, context, "minimum", whole=whole)
    upper = _bound(constraints, context, "maximum", whole=whole)
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
            context.ledger.note("rewritten", unsaid[0], constraints.where(unsaid[0]), "the numbers between the bounds")
            return kind, {"enum": list(range(least, most + 1))}
    for keyword in unsaid:
        context.ledger.give_up(keyword, constraints.where(keyword), f"{keyword} is not taken")
        del bounds[keyword]
    return kind, {**bounds, **step}


def _step(constraints: Constraints, context: Context, *, whole: bool) -> Node:
    steps = list(dict.fromkeys(constraints.numbers("multipleOf", context.ledger)))
    if not steps:
        return {}
    where = constraints.where("multipleOf")
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


def _bound(constraints: Constraints, context: Context, keyword: str, *, whole: bool) -> Node:
    """The strictest bound on that side, as one keyword."""
    exclusive, sign = "exclusive" + keyword.capitalize(), -1 if keyword == "minimum" else 1
    bounds = [(sign * value, 1) for value in constraints.numbers(keyword, context.ledger)]
    if context.document.draft > 4:
        bounds += [(sign * value, 0) for value in constraints.numbers(exclusive, context.ledger)]
    else:
        bounds += _old_bounds(constraints, context, keyword, exclusive, sign)
    if not bounds:
        return {}
    value, inclusive = min(bounds)
    value *= sign
    name = keyword if inclusive else exclusive
    if inclusive or (name in context.subset.keywords and context.document.draft > 4):
        if len(bounds) > 1:
            context.ledger.note("rewritten", name, constraints.where(name), "the stricter bound")
        return {name: value}
    if whole:
        value = math.floor(value) + 1 if sign < 0 else math.ceil(value) - 1
        context.ledger.note("rewritten", exclusive, constraints.where(exclusive), f"{keyword} {value}")
    else:
        context.ledger.give_up(exclusive, constraints.where(exclusive), f"{exclusive} is not taken")
    return {keyword: value}


def _old_bounds(
    constraints: Constraints, context: Context, keyword: str, exclusive: str, sign: int
) -> list[tuple[Any, int]]:
    """The bounds of draft 4, where exclusive is a flag of the node."""
    bounds = []
    for node in constraints.nodes:
        flag = node.schema.get(exclusive, False)
        if not isinstance(flag, bool):
            context.ledger.refuse(exclusive, node.path, "not a flag, as in draft 4")
        if exclusive in node.schema and not (flag and keyword in node.schema):
            context.ledger.note("rewritten", exclusive, node.path, "says nothing here")
        if flag and keyword in node.schema:
            bounds.append((sign * node.schema[keyword], 0))
    return bounds


def listed_values(
    constraints: Constraints, values: list[Any], kinds: tuple[str, ...] | None, context: Context
) -> list[Node]:
    """Alternatives that together list the values that all nodes admit."""
    keyword = "enum" if constraints.stated("enum") else "const"
    where = constraints.where(keyword)
    kept = [value for value in values if _is_one(value, kinds) and _conforms(value, constraints, context)]
    if not kept:
        raise Contradiction
    if len(kept) < len(values):
        context.ledger.note("rewritten", keyword, where, "without the values that the other keywords refuse")
    if any(isinstance(value, dict | list) for value in kept):
        kept = _simple(kept, constraints, context, keyword)
    _note_looked_at(constraints, context)
    if kinds is None and not context.subset.typed:
        return [{**_list(constraints, kept, context), **_strings(constraints, kept, context)}]
    if kinds is None:
        kinds = _kinds(kept)
        context.ledger.note("rewritten", "type", constraints.path, "the types of the values")
    if context.subset.type_lists == "nullable" and len(set(kinds) - {"null"}) > 1:
        context.ledger.note("rewritten", "type", constraints.where("type"), "one alternative for each type")
        groups = [(kind, [value for value in kept if _is_one(value, (kind,))]) for kind in kinds]
        return [
            {"type": kind, **_list(constraints, group, context), **_strings(constraints, group, context)}
            for kind, group in groups
            if group
        ]
    declared = [value for value, _ in constraints.stated("type")]
    single = len(kinds) == 1 and not (declared and isinstance(declared[0], list))
    listed = _list(constraints, kept, context)
    return [{"type": kinds[0] if single else list(kinds), **listed, **_strings(constraints, kept, context)}]


def _strings(constraints: Constraints, values: list[Any], context: Context) -> Node:
    return (
        string_keywords(constraints, context, lengths=False) if any(isinstance(value, str) for value in values) else {}
    )


def _simple(values: list[Any], constraints: Constraints, context: Context, keyword: str) -> list[Any]:
    """The values without arrays and objects, where these are not taken or more is asked of them."""
    asked = BY_KIND["object"] | BY_KIND["array"]
    if not context.subset.scalar_values and not any(asked & node.schema.keys() for node in constraints.nodes):
        return values
    scalars = [value for value in values if not isinstance(value, dict | list)]
    if not scalars:
        context.ledger.refuse(keyword, constraints.where(keyword), "arrays and objects as values are not taken")
    context.ledger.note("tightened", keyword, constraints.where(keyword), "without the arrays and objects")
    return scalars


def _list(constraints: Constraints, values: list[Any], context: Context) -> Node:
    as_const = constraints.stated("const") and "const" in context.subset.keywords and context.document.draft > 4
    if as_const and not constraints.stated("enum"):
        return {"const": copy.deepcopy(values[0])}
    if constraints.stated("const"):
        context.ledger.note("rewritten", "const", constraints.where("const"), "an enum of one value")
    return {"enum": copy.deepcopy(values)}


def _kinds(values: list[Any]) -> tuple[str, ...]:
    kinds = dict.fromkeys(map(kind_of, values))
    return tuple(kind for kind in kinds if kind != "integer" or "number" not in kinds)


def _is_one(value: Any, kinds: tuple[str, ...] | None) -> bool:
    kind = kind_of(value)
    return kinds is None or kind in kinds or (kind == "integer" and "number" in kinds)


def _conforms(value: Any, constraints: Constraints, context: Context) -> bool:
    """Whether the value keeps to the bounds; patterns and formats are not looked at."""
    ledger = context.ledger
    if isinstance(value, str):
        longest, shortest = constraints.numbers("maxLength", ledger), constraints.numbers("minLength", ledger)
        return all(len(value) <= most for most in longest) and all(len(value) >= least for least in shortest)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    return (
        all(value >= least for least in constraints.numbers("minimum", ledger))
        and all(value <= most for most in constraints.numbers("maximum", ledger))
        and all(_outside(value, constraints, keyword) for keyword in ("exclusiveMinimum", "exclusiveMaximum"))
        and all(
            Fraction(str(value)) % Fraction(str(step)) == 0
            for step in constraints.numbers("multipleOf", ledger)
            if step
        )
    )


def _outside(value: float, constraints: Constraints, keyword: str) -> bool:
    """Whether the value keeps to that exclusive bound, whichever draft it is of."""
    sign = 1 if keyword == "exclusiveMinimum" else -1
    inclusive = keyword.removeprefix("exclusive").lower()
    for node in constraints.nodes:
        bound = node.schema.get(keyword)
        bound = node.schema.get(inclusive) if bound is True else bound
        if isinstance(bound, int | float) and not isinstance(bound, bool) and sign * value <= sign * bound:
            return False
    return True


def _note_looked_at(constraints: Constraints, context: Context) -> None:
    for keyword in ("minLength", "maxLength", *sorted(BY_KIND["number"])):
        if constraints.stated(keyword):
            context.ledger.note("rewritten", keyword, constraints.where(keyword), "the listed values keep to it")
