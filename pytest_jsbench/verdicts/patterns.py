r"""
Patterns of schemas, as ECMA-262 reads them: with the flag `u`, or without it where only that gives them a meaning.

`regress`, an engine of ECMA-262, says what a pattern is. It backtracks, so that some patterns take exponential time;
those that Rust's engine reads alike once they are written out (no look-around, reference, word's edge or property)
are matched by that, in linear time.
"""

from __future__ import annotations

import functools
import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs
import regress

from pytest_jsbench.schemas.keywords import walk
from pytest_jsbench.schemas.pattern_syntax import foreign_syntax

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jsonschema_rs import KeywordValidator

    Matcher = Callable[[str], bool]

#: an escaped u before a brace, beside other escapes, and beside names of groups, where braces hold a code point
_BRACED: Final = re.compile(r"\\(?:(u)(?=\{)|k<[^>]*>|.)|\(\?<(?![=!])[^>]*>", re.DOTALL)
#: halves of surrogate pairs in a row; classes and other escapes are passed over
_HALVES: Final = re.compile(r"\[(?:\\.|[^\]\\])*\]|((?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+)|\\.", re.DOTALL)
#: a quantifier after a word's edge, in the one group; classes and other escapes are passed over
_QUANTIFIED_EDGE: Final = re.compile(r"\[(?:\\.|[^\]\\])*\]|(\\[bB](?:[*+?]|\{\d+(?:,\d*)?\}))|\\.", re.DOTALL)

#: one character by itself or by an escape that means the same with the flag and without it
_CHARACTER: Final = r"\\(?:[fnrtv]|x[0-9A-Fa-f]{2}|u(?![dD][89a-fA-F])[0-9A-Fa-f]{4}|[^\w\s]|[ _])|[^\\\[\](){}|^$*+?.]"
_PLAIN: Final = re.compile(
    rf"(?P<syntax>\(\?:|\((?!\?)|[)|^$*+?]|\{{[0-9]+(?:,[0-9]*)?\}})"
    rf"|\[(?P<negated>\^?)(?P<members>(?:\\.|[^\\\]])*)\]|(?P<set>\\[dDwWsS]|\.)|(?P<character>{_CHARACTER}|[\]}}])",
    re.DOTALL,
)
_IN_CLASS: Final = rf"{_CHARACTER}|[(){{}}|^$*+?.\[]"
_MEMBER: Final = re.compile(
    rf"(?P<set>\\[dws])(?!-.)|(?P<low>{_IN_CLASS})-(?P<high>{_IN_CLASS})|(?P<character>{_IN_CLASS})", re.DOTALL
)
_SETS: Final = {
    "d": "0-9",
    "w": "0-9A-Z_a-z",
    # 12.2 and 12.3, WhiteSpace and LineTerminator
    "s": r"\u{9}-\u{D}\u{20}\u{A0}\u{1680}\u{2000}-\u{200A}\u{2028}\u{2029}\u{202F}\u{205F}\u{3000}\u{FEFF}",
    # 12.3, LineTerminator
    ".": r"\u{A}\u{D}\u{2028}\u{2029}",
}
_CONTROLS: Final = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SPECIAL: Final = frozenset("^$\\.*+?()[]{}|")
_SPECIAL_IN_CLASS: Final = frozenset("^\\[]-")
#: two of them in a class would mean an operation on sets
_OPERATORS: Final = frozenset("&~")


_KEYWORDS: Final = frozenset({"pattern", "patternProperties"})


class NotAPatternError(ValueError):
    """The text is no pattern of ECMA-262, whatever other engines take it for."""


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> tuple[regress.Regex, bool]:
    """The pattern, and whether it is one with the flag `u`; or NotAPatternError."""
    if any(token[1] for token in _QUANTIFIED_EDGE.finditer(pattern)):
        raise NotAPatternError("Nothing to repeat")  # which the engine overlooks
    try:
        return regress.Regex(_HALVES.sub(_half_in_class, pattern), "u"), True
    except regress.RegressError as error:
        fault = str(error)
    try:
        # it takes `\\u{61}` for a code point even without the flag, where that is the letter u 61 times
        legacy = _BRACED.sub(lambda escape: escape[1] or escape[0], pattern)
        return regress.Regex(_HALVES.sub(_half_in_class, legacy)), False
    except regress.RegressError:
        raise NotAPatternError(fault) from None


def _half_in_class(match: re.Match[str]) -> str:
    # it does not step over an optional half of a surrogate pair, unless that stands in a class
    halves: str | None = match[1]
    return f"[{halves}]" if halves is not None and len(halves) == len(r"\uD800") else match[0]


def pattern_fault(text: str) -> str | None:
    """Say why a text is no pattern of ECMA-262; None where it is one."""
    try:
        _compiled(text)
    except NotAPatternError as fault:
        return str(fault)
    return None


def is_unicode_pattern(text: str) -> bool:
    """Tell whether a text is a pattern of ECMA-262 with the flag `u`."""
    return pattern_fault(text) is None and _compiled(text)[1]


def is_regex(text: str) -> bool:
    r"""
    Tell whether a text is of the format `regex`: what the keyword `pattern` accepts, in any draft.

    An escaped letter that has no meaning in ECMA-262, such as `\Z`, is not, as the official test suite asks.
    """
    if pattern_fault(text) is not None:
        return False
    return is_unicode_pattern(text) or not any(construct.startswith("\\") for construct in foreign_syntax(text))


def ecma_matcher(pattern: str) -> Matcher:
    """Make a matcher of an engine of ECMA-262, which backtracks without a limit."""
    find = _compiled(pattern)[0].find
    return lambda text: find(text) is not None


@functools.lru_cache(maxsize=4096)
def matcher(pattern: str) -> Matcher:
    """Make a matcher of the pattern, anywhere in a string; nothing matches what is no pattern."""
    if pattern_fault(pattern) is not None:
        return lambda _text: False
    if (written := linear(pattern)) is not None:
        try:
            return jsonschema_rs.Draft202012Validator({"pattern": written}, offline=True).is_valid
        except ValueError:
            pass  # too large for it
    return ecma_matcher(pattern)


@functools.lru_cache(maxsize=4096)
def linear(pattern: str) -> str | None:
    """The pattern as Rust's engine reads it alike; None where it cannot be said to that, or takes backtracking."""
    # what has to be ahead of the first character, or must not, is looked at once
    ahead = pattern[:4] in {"^(?!", "^(?="} and is_unicode_pattern(pattern)
    written = pattern[:4] if ahead else ""
    at = len(written)
    while at < len(pattern):
        token = _PLAIN.match(pattern, at)
        if token is None:
            return None
        at = token.end()
        if token["members"] is not None:
            members = _members(token["members"])
            if members is None:
                return None
            written += f"[{token['negated']}{members}]"
        elif name := token["set"]:
            negated = "^" if name == "." or name[-1].isupper() else ""
            written += f"[{negated}{_SETS[name[-1].lower()]}]"
        else:
            written += token["syntax"] or _code(token["character"], _SPECIAL)
    return written


def _members(text: str) -> str | None:
    """Write out the members of a class; None where that cannot be done, or there are none."""
    written, at = "", 0
    while at < len(text):
        member = _MEMBER.match(text, at)
        if member is None:
            return None
        at = member.end()
        if member["set"]:
            written += _SETS[member["set"][1]]
        else:
            ends = filter(None, member.group("low", "high", "character"))
            written += "-".join(_code(end, _SPECIAL_IN_CLASS) for end in ends)
    return written or None


def _code(character: str, special: frozenset[str]) -> str:
    """The character, so that it means nothing but itself."""
    kind, digits = character[1:2], character[2:]
    plain = chr(int(digits, 16)) if digits else _CONTROLS.get(kind, character[-1])
    if plain in special:
        return f"\\{plain}"
    return plain if plain.isprintable() and plain not in _OPERATORS else f"\\u{{{ord(plain):X}}}"


def pattern_keyword(originals: Mapping[str, str]) -> type[KeywordValidator]:
    """The keyword `pattern` for jsonschema-rs, of a schema whose patterns are written out; how each was before."""

    class Pattern:
        def __init__(self, _parent: object, value: str, _path: object) -> None:
            if (fault := pattern_fault(value)) is not None:
                raise NotAPatternError(fault)
            self._written = value

        def validate(self, instance: object) -> None:
            if isinstance(instance, str) and not matcher(self._written)(instance):
                pattern = originals.get(self._written, self._written)
                message = f'{json.dumps(instance, ensure_ascii=False)} does not match "{pattern}"'
                raise ValueError(message)

    return Pattern


@contextmanager
def written_out(schema: Any) -> Iterator[dict[str, str]]:
    """While jsonschema-rs reads the schema, its patterns as Rust's engine takes them; how each was before."""
    originals: dict[str, str] = {}
    own: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for subschema in walk(schema):
        if not _KEYWORDS.isdisjoint(subschema):
            own.append((subschema, {name: subschema[name] for name in _KEYWORDS & subschema.keys()}))
            if isinstance(pattern := subschema.get("pattern"), str):
                subschema["pattern"] = _written(pattern, originals, otherwise=pattern)
            if isinstance(named := subschema.get("patternProperties"), dict):
                subschema["patternProperties"] = {
                    _written(pattern, originals, otherwise=f"*{pattern}"): held for pattern, held in named.items()
                }
    try:
        yield originals
    finally:
        for subschema, before in own:
            subschema.update(before)


def _written(pattern: str, originals: dict[str, str], *, otherwise: str) -> str:
    """The pattern for Rust's engine, another one for each; what is none as one that it refuses."""
    if pattern_fault(pattern) is not None:
        return f"*{pattern}"
    written = linear(pattern)
    if written is None:
        return otherwise
    while originals.setdefault(written, pattern) != pattern:
        written += "(?:)"
    return written
