"""Find syntax of other regular expression engines (Python, PCRE, Java, .NET) that ECMA-262 does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: Escaped letters that have a meaning in ECMA-262.
_ESCAPES = frozenset("bBcdDfknpPrsStuvwWx")
#: Other escaped letters, which in ECMA-262 match the letter itself, with the ECMA-262 syntax for the intended meaning.
_LETTERS = {
    "A": "^",
    "Z": "$",
    "z": "$",
    "h": "[ \\t]",
    "H": "[^ \\t]",
    "R": "\\r?\\n",
    "a": "\\x07",
    "e": "\\x1b",
    "N": "[^\\n]",
}
_TOKEN = re.compile(
    r"\\(?P<letter>[A-Za-z])|\\."
    r"|(?P<named>\(\?P<)|(?P<back>\(\?P=\w*\)?)|(?P<call>\(\?(?:P>|R|&|\d))"
    r"|(?P<flags>\(\?[a-zA-Z^-]+\))|(?P<atomic>\(\?>)|(?P<comment>\(\?\#[^)]*\)?)|(?P<branch>\(\?[|(])"
    r"|(?P<possessive>(?:[*+?]|\{\d+(?:,\d*)?\})\+)",
    re.DOTALL,
)
#: Number of characters that are checked, from the start of a pattern.
_LONGEST = 2_000
_POSIX = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*?(?P<posix>\[:\^?\w+:\])", re.DOTALL)
_CLASS = re.compile(r"\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_ADVICE = {
    "named": "write (?<name>…)",
    "back": "write \\k<name>",
    "call": "repeat the group",
    "flags": "write the pattern without flags, for example [Aa] instead of (?i)a",
    "atomic": "write (?:…)",
    "comment": "remove the comment",
    "branch": "write the branches as alternatives",
    "possessive": "remove the second +",
    "posix": "list the characters, such as [A-Za-z]",
}


def foreign_syntax(pattern: str) -> dict[str, str]:
    """Return the constructs that ECMA-262 rejects or reads differently from other engines, with advice for each."""
    advice_by_construct: dict[str, str] = {}
    for construct, advice in _find_foreign_syntax(pattern[:_LONGEST]):
        advice_by_construct.setdefault(construct, advice)
    return advice_by_construct


def describe_foreign_syntax(pattern: str) -> str:
    """Describe the first construct in a pattern that is not ECMA-262, and its replacement; empty if there is none."""
    constructs = foreign_syntax(pattern).items()
    return next((f"{construct}, which is not ECMA-262: {advice}" for construct, advice in constructs), "")


def _find_foreign_syntax(pattern: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(pattern):
        if (posix := _POSIX.match(pattern, at)) is not None:
            yield posix["posix"], _ADVICE["posix"]
        if (characters := _CLASS.match(pattern, at)) is not None:
            at = characters.end()
            continue
        token = _TOKEN.match(pattern, at)
        if token is None:
            at += 1
            continue
        at = token.end()
        letter = token["letter"]
        if letter is not None and letter not in _ESCAPES:
            meaning = f"write {_LETTERS[letter]}" if letter in _LETTERS else f"it matches the letter {letter}"
            yield f"\\{letter}", meaning
        elif letter is None and token.lastgroup is not None:
            yield token[0][:20], _ADVICE[token.lastgroup]
