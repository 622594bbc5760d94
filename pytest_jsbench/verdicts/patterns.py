"""Regular expressions of schemas, as ECMA-262 reads them, on an engine that does not blow up."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from pytest_jsbench.verdicts.subschemas import rebuild

if TYPE_CHECKING:
    from collections.abc import Callable

_ESCAPE = re.compile(
    r"\\(?:c[A-Za-z]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]+\}|[pP]\{[^}]*\}|k<[^>]*>|\d+"
    r"|[dDwWsSbBfnrtv]|[\^$\\.*+?()\[\]{}|/])"
)
_QUANTIFIER = re.compile(r"\{\d+(?:,\d*)?\}")
_LONE = frozenset("]{}")


def rewrite(pattern: str) -> str:
    r"""
    The same pattern without what only ECMA-262's mode without the `u` flag allows.

    That mode reads an escaped ordinary character (`\_`) as the character, and a lone `]`, `{` or `}` as
    itself.
    """
    parts: list[str] = []
    position, in_class = 0, False
    while position < len(pattern):
        character = pattern[position]
        if character == "\\" and position + 1 < len(pattern):
            part, width = _escape(pattern, position, in_class)
        elif in_class:
            part, width = ("\\[" if character == "[" else character), 1
            in_class = character != "]"
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
    if legal := _ESCAPE.match(pattern, position):
        return legal[0], len(legal[0])
    character = pattern[position + 1]
    kept = in_class and character == "-"
    return ("\\-" if kept else character), 2


def rewrite_schema(schema: Any) -> Any:
    """A copy of the schema with its patterns rewritten."""
    return rebuild(schema, _rewrite_keywords)


def _rewrite_keywords(schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema.get("pattern"), str):
        schema["pattern"] = rewrite(schema["pattern"])
    named = schema.get("patternProperties")
    if isinstance(named, dict):
        schema["patternProperties"] = {rewrite(pattern): value for pattern, value in named.items()}
    return schema


@functools.lru_cache(maxsize=1024)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a string matches the pattern somewhere; nothing matches one that no engine compiles."""
    for candidate in (pattern, rewrite(pattern)):
        try:
            return jsonschema_rs.Draft202012Validator({"pattern": candidate}, offline=True).is_valid
        except ValueError:
            continue
    return _matches_nothing


def _matches_nothing(_text: str) -> bool:
    return False
