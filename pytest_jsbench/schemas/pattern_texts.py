"""Make short texts that match simple patterns, such as `^[A-Z]{2}-[0-9]{4}$`; a validator decides if they match."""

from __future__ import annotations

import re

#: Maximum length of a text, and of a pattern that is read.
_LONGEST = 1_000
#: A character that each class of an escape contains.
_CLASSES = {"d": "0", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
#: Characters that are tried for a negated class.
_TRIED = "a0A -_.é"
_COUNTS = re.compile(r"\{(\d{1,4})(,(\d{1,4})?)?\}")
#: Beginnings of a group that looks around, after the question mark.
_LOOK_AROUND = ("=", "!", "<=", "<!")
#: Name of a group, after the question mark.
_NAME = re.compile(r"<[A-Za-z_$][\w$]*>")
_HEXADECIMAL = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}")


class PatternNotSupported(ValueError):
    """Raised for a pattern with a construct that is not supported, such as a look-ahead or a back-reference."""


def text_matching(pattern: str) -> str:
    """
    Return the shortest text that this function finds for a pattern of ECMA-262, with each repetition as often as it
    must occur; raise PatternNotSupported for look-around, flags, back-references and Unicode properties.
    """
    if len(pattern) > _LONGEST:
        raise PatternNotSupported(f"the pattern is longer than {_LONGEST:,} characters")
    reader = _Reader(pattern)
    text = reader.alternatives()
    if reader.place < len(pattern):
        raise PatternNotSupported("the pattern has an unmatched parenthesis")
    return text


class _Reader:
    """Reads a pattern from left to right, and returns a text for each part."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.place = 0

    def alternatives(self) -> str:
        """Return a text for the first alternative up to the end of the group, and skip the other alternatives."""
        text = self._sequence()
        while self._take("|"):
            self._sequence()
        return text

    def _sequence(self) -> str:
        parts: list[str] = []
        length = 0
        while self.place < len(self._pattern) and self._pattern[self.place] not in "|)":
            part = self._repeated(self._atom())
            length += len(part)
            if length > _LONGEST:
                raise PatternNotSupported(f"a text would have more than {_LONGEST:,} characters")
            parts.append(part)
        return "".join(parts)

    def _atom(self) -> str:
        character = self._next()
        match character:
            case "^" | "$":
                return ""
            case ".":
                return "a"
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                return "" if self._peek() in ("b", "B") and self._next() else self._escape()
            case "*" | "+" | "?":
                raise PatternNotSupported(f"there is nothing before {character!r} that can be repeated")
            case _:
                return character

    def _group(self) -> str:
        if self._take("?") and not self._take(":"):
            name = _NAME.match(self._pattern, self.place)
            if name is None:
                looks_around = self._pattern.startswith(_LOOK_AROUND, self.place)
                what = "look-around" if looks_around else f"a group that begins with (?{self._peek()}"
                raise PatternNotSupported(f"{what} is not supported")
            self.place = name.end()
        text = self.alternatives()
        if not self._take(")"):
            raise PatternNotSupported("the pattern has an unmatched parenthesis")
        return text

    def _class(self) -> str:
        """Return the first character of a class, or for a negated class a character that is not in it."""
        negated = self._take("^")
        ranges: list[tuple[str, str]] = []
        while not self._take("]"):
            first = self._member()
            last = first
            if self._peek() == "-" and self._pattern[self.place + 1 : self.place + 2] not in ("", "]"):
                self.place += 1
                last = self._member()
            ranges.append((first, last))
        if not negated:
            if not ranges:
                raise PatternNotSupported("an empty class matches no character")
            return ranges[0][0]
        for tried in _TRIED:
            if not any(first <= tried <= last for first, last in ranges):
                return tried
        raise PatternNotSupported("no character for a negated class was found")

    def _member(self) -> str:
        character = self._next()
        if character != "\\":
            return character
        return "\b" if self._take("b") else self._escape()

    def _escape(self) -> str:
        """Return the character of an escape whose backslash was read."""
        code = _HEXADECIMAL.match(self._pattern, self.place)
        if code is not None:
            self.place = code.end()
            point = int(next(filter(None, code.groups())), 16)
            if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
                raise PatternNotSupported("the pattern contains half of a surrogate pair")
            return chr(point)
        letter = self._next()
        if letter in "123456789kpPcux":
            raise PatternNotSupported(f"the escape \\{letter} is not supported")
        return _CLASSES.get(letter) or _CONTROLS.get(letter) or letter

    def _repeated(self, text: str) -> str:
        """Return the text as often as the quantifier after it requires."""
        least = 1
        counts = _COUNTS.match(self._pattern, self.place)
        if counts is not None:
            self.place = counts.end()
            least = int(counts[1])
        elif self._peek() in ("*", "?"):
            self.place += 1
            least = 0
        elif not self._take("+"):
            return text
        self._take("?")
        if least * len(text) > _LONGEST:
            raise PatternNotSupported(f"a text would have more than {_LONGEST:,} characters")
        return text * least

    def _peek(self) -> str:
        return self._pattern[self.place : self.place + 1]

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise PatternNotSupported("the pattern ends within a group, a class or an escape")
        self.place += 1
        return character

    def _take(self, character: str) -> bool:
        """Skip the next character if it is this one; return whether it was."""
        if self._peek() != character:
            return False
        self.place += 1
        return True
