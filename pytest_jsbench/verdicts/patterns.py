"""Regular expressions of schemas, as ECMA-262 reads them, on an engine that does not blow up."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from pytest_jsbench.schemas.walking import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable

_ESCAPE = re.compile(
    r"\\(?:c[A-Za-z]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]+\}|[pP]\{[^}]*\}|k<[^>]*>|\d+"
    r"|[dDwWsSbBfnrtv]|[\^$\\.*+?()\[\]{}|/])"
)
_QUANTIFIER = re.compile(r"\{\d+(?:,\d*)?\}")
_LONE = frozenset("]{}")
#: what the engine would take for the beginning or the end of a word
_MISREAD = ("\\<", "\\>")
_SURROGATES = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
#: a class of nothing, and its opposite
_CLASSES = {"[]": "(?!)", "[^]": r"[\s\S]"}
_CLASS = re.compile(r"\[\^?\]")
_NUL = re.compile(r"\\0(?!\d)")
#: beside one of these a hyphen makes no range
_SET = re.compile(r"\\(?:[dDwWsS]|[pP]\{[^}]*\})")


def rewrite(pattern: str) -> str:
    r"""
    The same pattern without what only ECMA-262 allows, or its mode without the `u` flag.

    That mode reads an escaped ordinary character (`\_`) as the character, a lone `]`, `{` or `}` as itself,
    and so a hyphen between a set and another member of a class (`[\w-.]`). ECMA-262 has empty classes, `\0`, and a
    backspace in a class (`[\b]`).
    """
    parts: list[str] = []
    position, in_class = 0, False
    while position < len(pattern):
        character = pattern[position]
        if character == "\\" and position + 1 < len(pattern):
            part, width = _escape(pattern, position, in_class)
        elif in_class:
            part, width = _member(pattern, position, parts[-1]), 1
            in_class = character != "]"
        elif empty := _CLASS.match(pattern, position):
            part, width = _CLASSES[empty[0]], len(empty[0])
        elif quantifier := _QUANTIFIER.match(pattern, position):
            part, width = quantifier[0], len(quantifier[0])
        else:
            part, width = ("\\" + character if character in _LONE else character), 1
            in_class = character == "["
        parts.append(part)
        position += width
    return "".join(parts)


def _escape(pattern: str, position: int, in_class: bool) -> tuple[str, int]:
    """One escape as it should stand, and how many characters it took."""
    if pair := _SURROGATES.match(pattern, position):
        high, low = int(pair[1], 16), int(pair[2], 16)
        return f"\\u{{{0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF):X}}}", len(pair[0])
    if _NUL.match(pattern, position):
        return r"\x00", 2
    if in_class and pattern.startswith(r"\b", position):
        return r"\x08", 2
    if legal := _ESCAPE.match(pattern, position):
        return legal[0], len(legal[0])
    character = pattern[position + 1]
    kept = in_class and character == "-"
    return ("\\-" if kept else character), 2


def _member(pattern: str, position: int, before: str) -> str:
    """One character of a class as it should stand."""
    character, after = pattern[position], pattern[position + 1 : position + 2]
    if character == "-" and before not in {"[", "^"} and after != "]":
        beside_a_set = _SET.fullmatch(before) or _SET.match(pattern, position + 1)
        return "\\-" if beside_a_set else character
    return "\\[" if character == "[" else character


def misread(text: str) -> bool:
    """Whether a pattern in the text may mean something else to the engine, without being refused."""
    return any(escape in text for escape in _MISREAD)


def rewrite_misread(pattern: str) -> str:
    """The pattern rewritten where it has to be although no engine refuses it."""
    return rewrite(pattern) if misread(pattern) else pattern


def rewrite_schema(schema: Any, change: Callable[[str], str] = rewrite) -> Any:
    """A copy of the schema with its patterns rewritten."""
    return rebuild(schema, functools.partial(_rewrite_keywords, change))


def _rewrite_keywords(change: Callable[[str], str], schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema.get("pattern"), str):
        schema["pattern"] = change(schema["pattern"])
    named = schema.get("patternProperties")
    if isinstance(named, dict):
        schema["patternProperties"] = {change(pattern): value for pattern, value in named.items()}
    return schema


@functools.lru_cache(maxsize=1024)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a string matches the pattern somewhere; nothing matches one that no engine compiles."""
    for candidate in (rewrite_misread(pattern), rewrite(pattern)):
        try:
            return jsonschema_rs.Draft202012Validator({"pattern": candidate}, offline=True).is_valid
        except ValueError:
            continue
    return _matches_nothing


def _matches_nothing(_text: str) -> bool:
    return False
