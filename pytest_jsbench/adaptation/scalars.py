"""Adapt the keywords of strings, numbers and enumerated values to the provider's subset."""

from __future__ import annotations

import copy
import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pytest_jsbench.adaptation.adapter import Contradiction
from pytest_jsbench.adaptation.document import FORMATS, kind_of
from pytest_jsbench.schemas.dialects import DRAFT_4
from pytest_jsbench.schemas.keywords import BY_KIND

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.rules import Node, Rules

#: Maximum number of integers in an enum that replaces unsupported bounds.
_MOST_LISTED = 64

_ATOM = (
    r"(?:\[\^?(?:[^\]\\\[]|\\[dwsDWS.\-/\\+*_\]\[])+\]"
    r"|\\[dwsDWS.\-/+*?()\[\]{}|$^]"
    r"|[A-Za-z0-9_ @:/,;=!#%&~<>\"'-]|\.)"
)
_QUANTIFIER = r"(?:[*+?]|\{\d{1,6}(?:,\d{0,6})?\})?"
_PIECE = re.compile(rf"{_ATOM}(?P<times>{_QUANTIFIER})")
_SIMPLE = re.compile(rf"\^(?P<body>(?:{_ATOM}{_QUANTIFIER})*)\$")


def string_keywords(rules: Rules) -> Node:
    """Return supported keywords for strings that together enforce all rules."""
    body = _text_keywords(rules)
    return body | _lengths(rules, body.get("pattern"))


def _text_keywords(rules: Rules) -> Node:
    """Return the supported keywords for strings, except `minLength` and `maxLength`."""
    keywords: Node = {}
    for pattern, path in rules.values_of("pattern"):
        if not isinstance(pattern, str):
            rules.ledger.refuse("pattern", path, "not a regular expression")
        if not rules.has_keyword("pattern"):
            rules.ledger.give_up("pattern", path, "patterns are not supported")
        elif forbidden := rules.subset.forbidden_pattern.search(pattern):
            rules.ledger.give_up("pattern", path, f"{forbidden[0]!r} in a pattern is not supported")
        elif keywords.setdefault("pattern", pattern) != pattern:
            rules.ledger.give_up("pattern", path, "two patterns for the same string are not supported")
    for name, path in rules.values_of("format"):
        if name not in FORMATS:
            rules.ledger.note("dropped_annotation", "format", path, f"{name!r} is not a format of JSON Schema")
        elif name not in rules.subset.formats:
            rules.ledger.give_up("format", path, f"format {name!r} is not supported")
        elif keywords.setdefault("format", name) != name:
            rules.ledger.give_up("format", path, "two formats for the same string are not supported")
    return keywords


def _lengths(rules: Rules, pattern: str | None) -> Node:
    shortest = max(rules.numbers("minLength"), default=0)
    longest = min(rules.numbers("maxLength"), default=None)
    if longest is not None and longest < shortest:
        raise Contradiction
    keyword = "minLength" if shortest > 0 else "maxLength"
    if shortest <= 0 and longest is None:
        if rules.values_of("minLength"):
            rules.note("rewritten", "minLength", "removed, as every string satisfies it")
        return {}
    if pattern is not None:
        least, most = _width(pattern)
        if least < shortest or (longest is not None and most > longest):
            rules.give_up(keyword, f"{keyword} is not supported, and the pattern does not imply it")
        else:
            rules.note("rewritten", keyword, "removed, as the pattern implies it")
        return {}
    longest_repeat = rules.subset.longest_repeat
    if not rules.has_keyword("pattern") or shortest > longest_repeat:
        rules.give_up(keyword, f"{keyword} is not supported")
        return {}
    upper = "" if longest is None else str(int(min(longest, longest_repeat)))
    implied = f"^.{{{math.ceil(shortest)},{upper}}}$"
    rules.note("tightened", keyword, f"replaced by the pattern {implied!r}, which matches no line breaks")
    return {"pattern": implied}


def _width(pattern: str) -> tuple[int, float]:
    """Return the minimum and maximum length of a simple pattern's matches; 0 and infinity for other patterns."""
    simple = _SIMPLE.fullmatch(pattern)
    if simple is None:
        return 0, math.inf
    least = 0
    most = 0.0
    for piece in _PIECE.finditer(simple["body"]):
        lower, upper = _repetitions(piece["times"])
        least += lower
        most += upper
    return least, most


def _repetitions(quantifier: str) -> tuple[int, float]:
    if not quantifier.startswith("{"):
        return {"": (1, 1), "*": (0, math.inf), "+": (1, math.inf), "?": (0, 1)}[quantifier]
    lower, comma, upper = quantifier[1:-1].partition(",")
    if not comma:
        return int(lower), int(lower)
    return int(lower), int(upper) if upper else math.inf


def number_keywords(rules: Rules, *, whole: bool) -> tuple[str, Node]:
    """Return the type (`integer` if only integers are valid) and the keywords of a number."""
    step = _step(rules, whole=whole)
    if step == {"multipleOf": 1}:
        whole = True
        step = {}
    lower = _keep_strictest_bound(rules, "minimum", whole=whole)
    upper = _keep_strictest_bound(rules, "maximum", whole=whole)
    bounds = {**lower, **upper}
    unsupported = [keyword for keyword in bounds if not rules.has_keyword(keyword)]
    kind = "integer" if whole else "number"
    if unsupported and whole and lower and upper and not step:
        # `_keep_strictest_bound` has replaced unsupported exclusive bounds by inclusive bounds
        least = math.ceil(bounds["minimum"])
        most = math.floor(bounds["maximum"])
        if most < least:
            raise Contradiction
        if most - least < _MOST_LISTED:
            rules.note("rewritten", unsupported[0], "replaced by an enum of the numbers between the bounds")
            return kind, {"enum": list(range(least, most + 1))}
    for keyword in unsupported:
        rules.give_up(keyword, f"{keyword} is not supported")
        del bounds[keyword]
    return kind, {**bounds, **step}


def _step(rules: Rules, *, whole: bool) -> Node:
    steps = list(dict.fromkeys(rules.numbers("multipleOf")))
    if not steps:
        return {}
    if steps == [1] and not rules.has_keyword("multipleOf"):
        note = "removed, as every integer is a multiple of 1" if whole else "replaced by the type integer"
        rules.note("rewritten" if whole else "tightened", "multipleOf", note)
        return {"multipleOf": 1}
    if not rules.has_keyword("multipleOf"):
        rules.give_up("multipleOf", "multipleOf is not supported")
        return {}
    if len(steps) > 1:
        rules.give_up("multipleOf", "two values of multipleOf for the same number are not supported")
    return {"multipleOf": steps[0]}


def _keep_strictest_bound(rules: Rules, keyword: str, *, whole: bool) -> Node:
    """Return the strictest lower bound, or the strictest upper bound, as one keyword."""
    exclusive = "exclusive" + keyword.capitalize()
    sign = -1 if keyword == "minimum" else 1
    bounds = [(sign * value, 1) for value in rules.numbers(keyword)]
    if rules.document.dialect is not DRAFT_4:
        bounds += [(sign * value, 0) for value in rules.numbers(exclusive)]
    else:
        bounds += [(sign * value, 0) for value in _draft_4_bounds(rules, keyword, exclusive)]
    if not bounds:
        return {}
    value, inclusive = min(bounds)
    value *= sign
    name = keyword if inclusive else exclusive
    if inclusive or (rules.has_keyword(name) and rules.document.dialect is not DRAFT_4):
        if len(bounds) > 1:
            rules.note("rewritten", name, "kept only the strictest bound")
        return {name: value}
    if whole:
        value = math.floor(value) + 1 if sign < 0 else math.ceil(value) - 1
        rules.note("rewritten", exclusive, f"replaced by {keyword} {value}")
    else:
        rules.give_up(exclusive, f"{exclusive} is not supported")
    return {keyword: value}


def _draft_4_bounds(rules: Rules, keyword: str, exclusive: str) -> list[Any]:
    """Return the exclusive bounds of a draft 4 schema, where a boolean makes `minimum` or `maximum` exclusive."""
    bounds = []
    for node in rules.nodes:
        flag = node.schema.get(exclusive, False)
        if not isinstance(flag, bool):
            rules.ledger.refuse(exclusive, node.path, "not a boolean, which draft 4 requires")
        if flag and keyword in node.schema:
            bounds.append(node.schema[keyword])
        elif exclusive in node.schema:
            rules.ledger.note("rewritten", exclusive, node.path, "removed, as it has no effect here")
    return bounds


def list_values_by_type(rules: Rules, values: list[Any], kinds: tuple[str, ...] | None) -> list[Node]:
    """Return one or more alternatives that together list the values that all nodes allow."""
    keyword = "enum" if rules.values_of("enum") else "const"
    kept = [value for value in values if _has_type(value, kinds) and _is_within_bounds(value, rules)]
    if not kept:
        raise Contradiction
    if len(kept) < len(values):
        rules.note("rewritten", keyword, "removed the values that the other keywords reject")
    if any(isinstance(value, dict | list) for value in kept):
        kept = _without_containers(kept, rules, keyword)
    for keyword_of_type in ("minLength", "maxLength", *sorted(BY_KIND["number"])):
        if rules.values_of(keyword_of_type):
            rules.note("rewritten", keyword_of_type, "removed, as the listed values satisfy it")
    if kinds is None and not rules.subset.typed:
        return [_list_values(rules, kept)]
    if kinds is None:
        present = dict.fromkeys(map(kind_of, kept))
        kinds = tuple(kind for kind in present if kind != "integer" or "number" not in present)
        rules.note("rewritten", "type", "added the types of the listed values", path=rules.path)
    if rules.subset.type_lists == "nullable" and len(set(kinds) - {"null"}) > 1:
        rules.note("rewritten", "type", "replaced by one alternative for each type")
        groups = [(kind, [value for value in kept if _has_type(value, (kind,))]) for kind in kinds]
        return [{"type": kind, **_list_values(rules, group)} for kind, group in groups if group]
    declared = [value for value, _ in rules.values_of("type")]
    single = len(kinds) == 1 and not (declared and isinstance(declared[0], list))
    return [{"type": kinds[0] if single else list(kinds), **_list_values(rules, kept)}]


def _without_containers(values: list[Any], rules: Rules, keyword: str) -> list[Any]:
    """Return the values without arrays and objects, if the subset lacks these or other keywords restrict them."""
    asserting = BY_KIND["object"] | BY_KIND["array"]
    if not rules.subset.scalar_values and not any(asserting & node.schema.keys() for node in rules.nodes):
        return values
    scalars = [value for value in values if not isinstance(value, dict | list)]
    if not scalars:
        rules.refuse(keyword, "arrays and objects as values are not supported")
    rules.note("tightened", keyword, "removed the arrays and objects")
    return scalars


def _list_values(rules: Rules, values: list[Any]) -> Node:
    """Return the `enum` or `const` with the values; if some are strings, also the keywords for strings."""
    as_const = rules.values_of("const") and rules.has_keyword("const") and "const" in rules.document.dialect.keywords
    if as_const and not rules.values_of("enum"):
        listed = {"const": copy.deepcopy(values[0])}
    else:
        if rules.values_of("const"):
            rules.note("rewritten", "const", "replaced by an enum of one value")
        listed = {"enum": copy.deepcopy(values)}
    return {**listed, **(_text_keywords(rules) if any(isinstance(value, str) for value in values) else {})}


def _has_type(value: Any, kinds: tuple[str, ...] | None) -> bool:
    kind = kind_of(value)
    return kinds is None or kind in kinds or (kind == "integer" and "number" in kinds)


def _is_within_bounds(value: Any, rules: Rules) -> bool:
    """Return whether the value is within the bounds; patterns and formats are not checked."""
    if isinstance(value, str):
        longest = rules.numbers("maxLength")
        shortest = rules.numbers("minLength")
        return all(len(value) <= most for most in longest) and all(len(value) >= least for least in shortest)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    return (
        all(value >= least for least in rules.numbers("minimum"))
        and all(value <= most for most in rules.numbers("maximum"))
        and all(_meets_exclusive_bound(value, rules, keyword) for keyword in ("exclusiveMinimum", "exclusiveMaximum"))
        and all(Fraction(str(value)) % Fraction(str(step)) == 0 for step in rules.numbers("multipleOf") if step)
    )


def _meets_exclusive_bound(value: float, rules: Rules, keyword: str) -> bool:
    """Return whether the value is within the exclusive bound of this keyword, in any draft."""
    sign = 1 if keyword == "exclusiveMinimum" else -1
    inclusive = keyword.removeprefix("exclusive").lower()
    for node in rules.nodes:
        bound = node.schema.get(keyword)
        bound = node.schema.get(inclusive) if bound is True else bound
        if isinstance(bound, int | float) and not isinstance(bound, bool) and sign * value <= sign * bound:
            return False
    return True
