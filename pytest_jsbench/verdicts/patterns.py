r"""
Match the patterns of schemas as ECMA-262 does, with the flag `u`. Patterns that are only valid without the flag are
matched without it.

`regress`, an ECMA-262 engine, decides whether a pattern is valid. It backtracks, so some patterns take exponential
time. Patterns without look-around, references, word boundaries and properties are therefore rewritten for Rust's
engine, which matches them in linear time.
"""

from __future__ import annotations

import functools
import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs
import regress

from pytest_jsbench.schemas.pattern_syntax import foreign_syntax

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from jsonschema_rs import KeywordValidator

    Matcher = Callable[[str], bool]

#: An escaped letter u before a brace. The other alternatives skip other escapes, and `\u{…}` in the names of groups.
_BRACED: Final = re.compile(r"\\(?:(u)(?=\{)|k<[^>]*>|.)|\(\?<(?![=!])[^>]*>", re.DOTALL)
#: One or more escaped halves of surrogate pairs in a row; the other alternatives skip classes and other escapes.
_HALVES: Final = re.compile(r"\[(?:\\.|[^\]\\])*\]|((?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+)|\\.", re.DOTALL)
#: A word boundary with a quantifier; the other alternatives skip classes and other escapes.
_QUANTIFIED_EDGE: Final = re.compile(r"\[(?:\\.|[^\]\\])*\]|(\\[bB](?:[*+?]|\{\d+(?:,\d*)?\}))|\\.", re.DOTALL)

#: A character, or an escape for one character that has the same meaning with and without the flag `u`.
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
    # ECMA-262, 12.2 and 12.3: WhiteSpace and LineTerminator
    "s": r"\u{9}-\u{D}\u{20}\u{A0}\u{1680}\u{2000}-\u{200A}\u{2028}\u{2029}\u{202F}\u{205F}\u{3000}\u{FEFF}",
    # ECMA-262, 12.3: LineTerminator
    ".": r"\u{A}\u{D}\u{2028}\u{2029}",
}
_CONTROLS: Final = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SPECIAL: Final = frozenset("^$\\.*+?()[]{}|")
_SPECIAL_IN_CLASS: Final = frozenset("^\\[]-")
#: Characters that, when doubled in a class, are a set operator of Rust's engine.
_OPERATORS: Final = frozenset("&~")


_KEYWORDS: Final = frozenset({"pattern", "patternProperties"})


class NotAPatternError(ValueError):
    """Raised for a text that is not an ECMA-262 pattern, even if other engines accept it."""


@functools.lru_cache(maxsize=4096)
def _compile_pattern(pattern: str) -> tuple[regress.Regex, bool]:
    """
    Return the compiled pattern and whether it uses the flag `u`; raise NotAPatternError if the
    pattern is invalid.
    """
    if any(token[1] for token in _QUANTIFIED_EDGE.finditer(pattern)):
        raise NotAPatternError("Nothing to repeat")  # regress accepts such a pattern
    try:
        return regress.Regex(_HALVES.sub(_half_in_class, pattern), "u"), True
    except regress.RegressError as error:
        fault = str(error)
    try:
        # without the flag, `\u{61}` means 61 times the letter u, but regress reads it as a code point
        legacy = _BRACED.sub(lambda escape: escape[1] or escape[0], pattern)
        return regress.Regex(_HALVES.sub(_half_in_class, legacy)), False
    except regress.RegressError:
        raise NotAPatternError(fault) from None


def _half_in_class(match: re.Match[str]) -> str:
    # regress never matches an optional half of a surrogate pair outside of a class
    halves: str | None = match[1]
    return f"[{halves}]" if halves is not None and len(halves) == len(r"\uD800") else match[0]


def pattern_fault(text: str) -> str | None:
    """Return the reason why a text is not an ECMA-262 pattern; None if it is a pattern."""
    try:
        _compile_pattern(text)
    except NotAPatternError as fault:
        return str(fault)
    return None


def is_unicode_pattern(text: str) -> bool:
    """Return whether a text is a valid ECMA-262 pattern with the flag `u`."""
    return pattern_fault(text) is None and _compile_pattern(text)[1]


def is_regex(text: str) -> bool:
    r"""
    Return whether a text has the format `regex` in any draft: whether the keyword `pattern` accepts it.

    There is one exception, which the official test suite requires: a text with an escaped letter that has no meaning in
    ECMA-262, such as `\Z`, does not have the format, although `pattern` accepts it.
    """
    if pattern_fault(text) is not None:
        return False
    return is_unicode_pattern(text) or not any(construct.startswith("\\") for construct in foreign_syntax(text))


def ecma_matcher(pattern: str) -> Matcher:
    """
    Return a function that searches a text for the pattern with the ECMA-262 engine, which
    backtracks without a limit.
    """
    find = _compile_pattern(pattern)[0].find
    return lambda text: find(text) is not None


@functools.lru_cache(maxsize=4096)
def matcher(pattern: str) -> Matcher:
    """Return a function that searches a text for the pattern; an invalid pattern matches nothing."""
    if pattern_fault(pattern) is not None:
        return lambda _text: False
    if (written := linear(pattern)) is not None:
        try:
            return jsonschema_rs.Draft202012Validator({"pattern": written}, offline=True).is_valid
        except ValueError:
            pass  # the pattern is too large for Rust's engine
    return ecma_matcher(pattern)


@functools.lru_cache(maxsize=4096)
def linear(pattern: str) -> str | None:
    """Rewrite the pattern for Rust's engine; None if this is impossible or the pattern needs backtracking."""
    # Rust's engine supports a look-ahead, which takes linear time at the start of the text, where it is tried once
    ahead = pattern[:4] in {"^(?!", "^(?="} and is_unicode_pattern(pattern)
    written = pattern[:4] if ahead else ""
    at = len(written)
    while at < len(pattern):
        token = _PLAIN.match(pattern, at)
        if token is None:
            return None
        at = token.end()
        if token["members"] is not None:
            members = _rewrite_members(token["members"])
            if members is None:
                return None
            written += f"[{token['negated']}{members}]"
        elif name := token["set"]:
            negated = "^" if name == "." or name[-1].isupper() else ""
            written += f"[{negated}{_SETS[name[-1].lower()]}]"
        else:
            written += token["syntax"] or _escape(token["character"], _SPECIAL)
    return written


def _rewrite_members(text: str) -> str | None:
    """Return the members of a class for Rust's engine; None if this is impossible or the class is empty."""
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
            written += "-".join(_escape(end, _SPECIAL_IN_CLASS) for end in ends)
    return written or None


def _escape(character: str, special: frozenset[str]) -> str:
    """Return the character for Rust's engine, escaped if it would have a special meaning."""
    kind = character[1:2]
    digits = character[2:]
    plain = chr(int(digits, 16)) if digits else _CONTROLS.get(kind, character[-1])
    if plain in special:
        return f"\\{plain}"
    return plain if plain.isprintable() and plain not in _OPERATORS else f"\\u{{{ord(plain):X}}}"


def pattern_keyword(originals: Mapping[str, str]) -> type[KeywordValidator]:
    """
    Return a class for jsonschema-rs that checks the keyword `pattern`; `originals` maps rewritten patterns to the
    originals.
    """

    class Pattern:
        def __init__(self, _parent: object, value: str, _path: object) -> None:
            if (fault := pattern_fault(value)) is not None:
                raise NotAPatternError(fault)
            self._pattern = value

        def validate(self, instance: object) -> None:
            if isinstance(instance, str) and not matcher(self._pattern)(instance):
                pattern = originals.get(self._pattern, self._pattern)
                message = f'{json.dumps(instance, ensure_ascii=False)} does not match "{pattern}"'
                raise ValueError(message)

    return Pattern


@contextmanager
def rewritten_patterns(subschemas: Iterable[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """
    Replace the patterns in the subschemas by patterns for Rust's engine until the context exits; yield the original of
    each new pattern.
    """
    originals: dict[str, str] = {}
    changed: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for subschema in subschemas:
        if not _KEYWORDS.isdisjoint(subschema):
            changed.append((subschema, {name: subschema[name] for name in _KEYWORDS & subschema.keys()}))
            if isinstance(pattern := subschema.get("pattern"), str):
                subschema["pattern"] = _rewrite_pattern(pattern, originals, otherwise=pattern)
            if isinstance(named := subschema.get("patternProperties"), dict):
                subschema["patternProperties"] = {
                    _rewrite_pattern(pattern, originals, otherwise=f"*{pattern}"): part
                    for pattern, part in named.items()
                }
    try:
        yield originals
    finally:
        for subschema, before in changed:
            subschema.update(before)


def _rewrite_pattern(pattern: str, originals: dict[str, str], *, otherwise: str) -> str:
    """Return a pattern for Rust's engine that is different for each original; an invalid pattern stays invalid."""
    if pattern_fault(pattern) is not None:
        return f"*{pattern}"
    written = linear(pattern)
    if written is None:
        return otherwise
    while originals.setdefault(written, pattern) != pattern:
        written += "(?:)"
    return written
