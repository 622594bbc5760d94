"""
Make untrusted text safe to display: escape invisible characters, disable CI commands, and make all text encodable.

All text that the package prints or writes for people goes through `printable`, `sentence` or `json_text`.
"""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Default maximum length of a displayed text in characters.
LONGEST = 300
#: Maximum depth of a JSON value that is written with indentation.
_DEEPEST_INDENTED = 50

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
#: Letters, marks and symbols that render as blank.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_SEEN = bytes(range(0x20, 0x7F))
_NOT_ASCII, _NOT_ASCII_LINES = re.compile(r"[^ -~]+"), re.compile(r"[^ -~\n]+")
#: Commands that CI services execute: `##[…]` and `##vso[…]` anywhere in a line, `::…::` at the start of a line.
_COMMAND = re.compile(r"##(?=\w*\[)|^([^\S\n]*)::", re.MULTILINE)


def printable(
    text: str, limit: int | None = LONGEST, *, cut: Literal["end", "middle"] = "end", lines: bool = False
) -> str:
    """
    Return the text with invisible characters as escapes; if it exceeds `limit` characters, cut it and add `…`.

    The result is one line; if `lines` is set, line ends and tabs are kept.
    """
    if limit is not None and len(text) > 2 * limit:
        text = text[:limit] + text[-limit:]
    shown = _visible(text, _code, "\n\t" if lines else "")
    return shorten(_without_commands(shown, _disarm), limit, cut=cut)


def shorten(text: str, limit: int | None = LONGEST, *, cut: Literal["end", "middle"] = "middle") -> str:
    """Return the text, with its end or its middle replaced by `…` if it is too long; other characters are unchanged."""
    if limit is None or len(text) <= limit:
        return text
    tail = limit // 2 if cut == "middle" else 0
    return f"{text[: max(limit - tail - 1, 0)]}…{text[len(text) - tail :]}"


def distinct(names: Sequence[str], limit: int) -> list[str]:
    """
    Return a distinct printable text for each distinct name; a long name is cut at its end, in its middle, or at the
    start that it shares with other names.
    """
    shown = [printable(name, limit) for name in names]
    for cut in ("middle", "start", "number"):
        places: dict[str, list[int]] = {}
        for at, name in enumerate(shown):
            places.setdefault(name, []).append(at)
        for indices in places.values():
            if len(indices) == 1:
                continue
            start = _common_start([names[at] for at in indices]) if cut == "start" else 0
            for at in indices:
                # Cut no more of the common start than necessary.
                kept = min(start, max(len(names[at]) - limit + 1, 0))
                rest = f"…{names[at][kept:]}" if kept else names[at]
                shown[at] = (
                    _append_number(shown, at, limit) if cut == "number" else printable(rest, limit, cut="middle")
                )
    return shown


def _common_start(names: Sequence[str]) -> int:
    """Return the length of the start that all names have in common, in whole words."""
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(min(names), max(names), strict=False))
    return len(re.sub(r"[^\W_]*\Z", "", "".join(letter for letter, _ in same)))


def _append_number(shown: Sequence[str], at: int, limit: int) -> str:
    """Return the text at index `at` with a number appended, which makes the text unique."""
    ends = (f"~{number}" for number in itertools.count(1))
    return next(new for end in ends if (new := shown[at][: max(limit - len(end), 0)] + end) not in shown)


def sentence(text: str, limit: int = LONGEST) -> str:
    """Return a third-party message as one printable line, with single spaces."""
    return printable(" ".join(text[: 100 * limit].split()), limit)


def dollars(amount: float) -> str:
    """
    Format an amount in US dollars, rounded to cents, or below a dollar to hundredths of a cent; tiny amounts are
    `<$0.0001`.
    """
    return "<$0.0001" if 0 < amount < 0.00005 else f"${amount:,.{2 if amount >= 1 else 4}f}"


def format_clock(seconds: float) -> str:
    """Format seconds as minutes and seconds, with hours if necessary."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_count(number: int, noun: str) -> str:
    """Format a number with its noun: `1 case`, `2 cases`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def list_names(names: Sequence[str], most: int) -> str:
    """Return at most `most` names in a sentence, and the number of the others: `a, b, and 3 more`."""
    more = f", and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def kind_of(value: object) -> str:
    """Return the type of a value with its article: `an int`, `a tuple`."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def plain_value(value: object, limit: int = 80) -> str:
    """
    Return the value's repr if all its parts have built-in types; otherwise its type, so that no
    third-party code runs.
    """
    plain = (str, int, float, bool, type(None))
    parts = value if isinstance(value, tuple | list) and type(value) in (tuple, list) else [value]
    try:
        return printable(repr(value), limit) if all(type(part) in plain for part in parts) else kind_of(value)
    except ValueError:  # an integer with thousands of digits
        return kind_of(value)


def describe_error(error: BaseException, limit: int = LONGEST) -> str:
    """Return an exception as one line, or only the exception's type if its message cannot be formatted."""
    name = type(error).__name__
    try:
        text = f"{name}: {error}"
    except Exception:  # noqa: BLE001  third-party code must not interrupt the work in progress
        text = name
    return sentence(text, limit)


def json_text(value: object, *, indent: int | None = None) -> str:
    """
    Return the value as displayable JSON, with invisible characters and CI commands as JSON escapes.

    A deeply nested value is written on one line, since indentation would make it far longer.
    """
    if indent is not None and _nests_deeper(value, _DEEPEST_INDENTED):
        indent = None
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _without_commands(_visible(text, _json_code, "\n"), "#\\\\u0023")


def _nests_deeper(value: object, levels: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        parts = (whole.values() if isinstance(whole, dict) else whole for whole in level)
        level = [part for inner in parts for part in inner if isinstance(part, dict | list)]
    return bool(level)


def _without_commands(text: str, instead: str | Callable[[re.Match[str]], str]) -> str:
    # This check saves time: most texts contain no command, and each verdict displays dozens of texts.
    return _COMMAND.sub(instead, text) if "##" in text or "::" in text else text


def _visible(text: str, code: Callable[[int], str], kept: str) -> str:
    # This is three times as fast as str.isprintable, and nearly all displayed text takes this path.
    if text.isascii() and not text.encode("ascii").translate(None, _SEEN).strip(b"\n" if "\n" in kept else b""):
        return text

    def escape(run: re.Match[str]) -> str:
        characters = run.group()
        if characters.isprintable() and not _BLANK.search(characters):
            return characters
        return "".join(
            code(ord(letter))
            if letter not in kept and (unicodedata.category(letter) in _HIDDEN or _BLANK.match(letter))
            else letter
            for letter in characters
        )

    return (_NOT_ASCII_LINES if "\n" in kept else _NOT_ASCII).sub(escape, text)


def _disarm(command: re.Match[str]) -> str:
    return "#\\x23" if command.group(1) is None else f"{command.group(1)}\\x3a:"


def _code(point: int) -> str:
    if point <= 0xFF:
        return {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}.get(point) or f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def _json_code(point: int) -> str:
    if point <= 0xFFFF:
        return f"\\u{point:04x}"
    return f"\\u{0xD7C0 + (point >> 10):04x}\\u{0xDC00 + (point & 0x3FF):04x}"
