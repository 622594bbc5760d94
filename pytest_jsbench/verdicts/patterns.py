r"""
Read patterns of schemas as ECMA-262 does: with the flag `u`, or without it if only that gives them a meaning.

`regress`, an ECMA-262 engine, decides what a pattern is. It backtracks, so some patterns take exponential time; those
that Rust's engine reads the same way once they are rewritten (no look-around, reference, word boundary or property) are
matched by that, in linear time.
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

#: An escaped u before a brace, other escapes, and names of groups, in which braces contain a code point.
_BRACED: Final = re.compile(r"\\(?:(u)(?=\{)|k<[^>]*>|.)|\(\?<(?![=!])[^>]*>", re.DOTALL)
#: Halves of surrogate pairs in a row; classes and other escapes are skipped.
_HALVES: Final = re.compile(r"\[(?:\\.|[^\]\\])*\]|((?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+)|\\.", re.DOTALL)
#: A quantifier after a word boundary, in the one group; classes and other escapes are skipped.
_QUANTIFIED_EDGE: Final = re.compile(r"\[(?:\\.|[^\]\\])*\]|(\\[bB](?:[*+?]|\{\d+(?:,\d*)?\}))|\\.", re.DOTALL)

#: One character, or an escape for one that means the same with and without the flag.
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
#: Characters that mean a set operation when doubled in a class.
_OPERATORS: Final = frozenset("&~")


_KEYWORDS: Final = frozenset({"pattern", "patternProperties"})


class NotAPatternError(ValueError):
    """The text is not an ECMA-262 pattern, whatever other engines make of it."""


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> tuple[regress.Regex, bool]:
    """Compile a pattern; return it and whether it uses the flag `u`; raise NotAPatternError if it is invalid."""
    if any(token[1] for token in _QUANTIFIED_EDGE.finditer(pattern)):
        raise NotAPatternError("Nothing to repeat")  # the engine accepts it
    try:
        return regress.Regex(_HALVES.sub(_half_in_class, pattern), "u"), True
    except regress.RegressError as error:
        fault = str(error)
    try:
        # it reads `\\u{61}` as a code point even without the flag, although it then means 61 times the letter u
        legacy = _BRACED.sub(lambda escape: escape[1] or escape[0], pattern)
        return regress.Regex(_HALVES.sub(_half_in_class, legacy)), False
    except regress.RegressError:
        raise NotAPatternError(fault) from None


def _half_in_class(match: re.Match[str]) -> str:
    # an optional half of a surrogate pair never matches, unless it is in a class
    halves: str | None = match[1]
    return f"[{halves}]" if halves is not None and len(halves) == len(r"\uD800") else match[0]


def pattern_fault(text: str) -> str | None:
    """Return why a text is not an ECMA-262 pattern; None if it is one."""
    try:
        _compiled(text)
    except NotAPatternError as fault:
        return str(fault)
    return None


def is_unicode_pattern(text: str) -> bool:
    """Return whether a text is an ECMA-262 pattern with the flag `u`."""
    return pattern_fault(text) is None and _compiled(text)[1]


def is_regex(text: str) -> bool:
    r"""
    Return whether a text is of the format `regex`: whatever the keyword `pattern` accepts, in any draft.

    An escaped letter without a meaning in ECMA-262, such as `\Z`, is not, as the official test suite requires.
    """
    if pattern_fault(text) is not None:
        return False
    return is_unicode_pattern(text) or not any(construct.startswith("\\") for construct in foreign_syntax(text))


def ecma_matcher(pattern: str) -> Matcher:
    """Return a matcher of an ECMA-262 engine, which backtracks without a limit."""
    find = _compiled(pattern)[0].find
    return lambda text: find(text) is not None


@functools.lru_cache(maxsize=4096)
def matcher(pattern: str) -> Matcher:
    """Return a matcher that searches a string for the pattern; text that is not a pattern matches nothing."""
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
    """Rewrite the pattern for Rust's engine; None if that is impossible, or it needs backtracking."""
    # a look-ahead at the start of the text is tried only once
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
    """Expand the members of a class; None if that is impossible, or it is empty."""
    written = ""
    at = 0
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
    """Escape the character, so that it has no special meaning."""
    kind = character[1:2]
    digits = character[2:]
    plain = chr(int(digits, 16)) if digits else _CONTROLS.get(kind, character[-1])
    if plain in special:
        return f"\\{plain}"
    return plain if plain.isprintable() and plain not in _OPERATORS else f"\\u{{{ord(plain):X}}}"


def pattern_keyword(originals: Mapping[str, str]) -> type[KeywordValidator]:
    """
    Return the keyword `pattern` for jsonschema-rs, for a schema with rewritten patterns, with a map
    to the originals.
    """

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
def rewritten_patterns(schema: Any) -> Iterator[dict[str, str]]:
    """Rewrite the schema's patterns for Rust's engine while jsonschema-rs reads it; yield a map to the originals."""
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
    """Return the pattern for Rust's engine, unique for each; text that is not a pattern becomes one that it rejects."""
    if pattern_fault(pattern) is not None:
        return f"*{pattern}"
    written = linear(pattern)
    if written is None:
        return otherwise
    while originals.setdefault(written, pattern) != pattern:
        written += "(?:)"
    return written
