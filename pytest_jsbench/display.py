"""Untrusted text made fit to be shown: no escape codes, commands or bidirectional tricks; all of it can be encoded."""

from __future__ import annotations

import unicodedata

#: what begins a command to a GitHub workflow wherever it stands in a line, and what is shown instead
_COMMAND = ("##[", "#\\x23[")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str, limit: int = 300) -> str:
    """The text on one line, everything invisible as an escape, cut after `limit` characters with `…`."""
    cut = text[: limit + 1]
    shown = "".join(_escaped(character) for character in cut[:limit]).replace(*_COMMAND)
    return shown + "…" if len(cut) > limit else shown


def described(error: BaseException, limit: int = 300) -> str:
    """What was raised, on one line; its name alone where the error cannot even be written."""
    name = type(error).__name__
    try:
        text = f"{name}: {error}"
    except Exception:  # noqa: BLE001  foreign code, and no reason to lose what was under way
        text = name
    return printable(" ".join(text.split()), limit)


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character) or _code(ord(character))


def _code(point: int) -> str:
    if point <= 0xFF:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
