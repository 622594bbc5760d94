r"""
Patterns of ECMA-262, read into trees.

The edition is ES2024 (ECMA-262, 15th edition, clause 22.2.1), the newest that every current JavaScript engine takes
whole: modifiers such as `(?i:a)` and two groups of one name came after it. As JSON Schema asks (core, 6.4), a pattern
is read with the flag `u`; one that is a pattern only without the flag is read without it, with the syntax of annex
B.1.2.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Final, NoReturn

from pytest_jsbench.verdicts.unicode_properties import characters_with

#: groups within groups; those of real schemas nest 10 deep
DEEPEST_GROUP: Final = 100

Range = tuple[int, int]

LAST: Final = 0x10FFFF
#: 12.3, LineTerminator
LINE_TERMINATORS: Final[tuple[Range, ...]] = ((0xA, 0xA), (0xD, 0xD), (0x2028, 0x2029))
_DIGITS: Final[tuple[Range, ...]] = ((0x30, 0x39),)
_WORD: Final[tuple[Range, ...]] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
#: 12.2 and 12.3, WhiteSpace and LineTerminator
_SPACES: Final[tuple[Range, ...]] = (
    (0x9, 0xD), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip
_SYNTAX: Final = frozenset("^$\\.*+?()[]{}|")
_CONTROLS: Final = {"f": 0xC, "n": 0xA, "r": 0xD, "t": 0x9, "v": 0xB}
_QUANTIFIERS: Final = frozenset("*+?{")
_QUANTIFIER: Final = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
#: characters that stand for themselves, but for the last where it is repeated: most of most patterns
_PLAIN: Final = re.compile(r"[^\\^$.*+?()\[\]{}|]+(?![*+?{])")
_HEX2: Final = re.compile(r"[0-9A-Fa-f]{2}")
_HEX4: Final = re.compile(r"[0-9A-Fa-f]{4}")
_BRACED_HEX: Final = re.compile(r"\{([0-9A-Fa-f]+)\}")
_TRAIL: Final = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_OCTAL: Final = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?")
_DIGIT: Final = re.compile(r"[0-9]")
_DECIMAL: Final = re.compile(r"[1-9][0-9]*")
_PROPERTY: Final = re.compile(r"\{([A-Za-z_]+=)?[A-Za-z0-9_]+\}")
#: what opens a group, an escape, or a whole class, so that parentheses can be counted
_OPENINGS: Final = re.compile(r"\\.|\[(?:[^\]\\]|\\.)*\]?|\((?:\?(<(?![=!]))?)?", re.DOTALL)


class NotAPatternError(ValueError):
    """The text is no pattern of ECMA-262, whatever other engines take it for."""


@dataclass(frozen=True, slots=True)
class Characters:
    """Any one character of a set, or any one outside it."""

    ranges: tuple[Range, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """`^`, `$`, a word's edge (`b`) or none (`B`)."""

    kind: str


@dataclass(frozen=True, slots=True)
class Look:
    """A pattern that has to match, or must not, before or behind the place."""

    body: Node
    behind: bool
    negated: bool


@dataclass(frozen=True, slots=True)
class Parentheses:
    """A group; `number` counts those that capture, from 1."""

    body: Node
    number: int | None


@dataclass(frozen=True, slots=True)
class Reference:
    """What a group captured, once more."""

    number: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """A pattern so many times; `most` is None for any number."""

    body: Node
    least: int
    most: int | None
    lazy: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after another."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """One of several."""

    options: tuple[Node, ...]


Node = Characters | Edge | Look | Parentheses | Reference | Repeat | Sequence | Alternatives


@dataclass(frozen=True, slots=True, kw_only=True)
class EcmaPattern:
    """A pattern and how it is read: with the flag `u`, or without it because only so it is one."""

    tree: Node
    unicode: bool
    #: where in the text a reference stands inside of its own group, from and to
    references_to_open_groups: tuple[Range, ...]
    #: where in the text a quantifier is made lazy inside of what stands there so many times exactly, from and to
    counted_lazy_marks: tuple[Range, ...]


@functools.lru_cache(maxsize=4096)
def read_pattern(text: str) -> EcmaPattern:
    """The pattern that a text is, or NotAPatternError with what keeps it from being one."""
    try:
        return _Reader(text, unicode=True).pattern()
    except NotAPatternError:
        return _Reader(text, unicode=False).pattern()


def pattern_fault(text: str) -> str | None:
    """What keeps a text from being a pattern of ECMA-262; None where it is one."""
    try:
        read_pattern(text)
    except NotAPatternError as fault:
        return str(fault)
    return None


def is_regex(text: str) -> bool:
    """Whether a text is of the format `regex`: a pattern with the flag `u`, as the official test suite asks."""
    try:
        return read_pattern(text).unicode
    except NotAPatternError:
        return False


class _Reader:
    """Reads one text, from left to right, in one of the two modes."""

    def __init__(self, text: str, *, unicode: bool) -> None:
        self._text = text
        self._at = 0
        self._unicode = unicode
        self._depth = 0
        openings = [found[0] for found in _OPENINGS.finditer(text)]
        self._groups = sum(opening in {"(", "(?<"} for opening in openings)
        #: the grammar's parameter N: with a named group, `\k` is a reference even without the flag
        self._named = unicode or "(?<" in openings
        self._opened = 0
        self._names: dict[str, int] = {}
        self._references: list[tuple[str, int]] = []
        self._open: list[int] = []
        self._to_open: list[Range] = []
        self._lazy_marks: list[Range] = []
        self._counted_lazy_marks: set[Range] = set()

    def pattern(self) -> EcmaPattern:
        """The whole text."""
        tree = self._disjunction()
        if self._at < len(self._text):
            self._refuse("a closing parenthesis that closes nothing")
        for name, at in self._references:
            if name not in self._names:
                self._refuse(f"a reference to the group {name!r}, which there is not", at)
        return EcmaPattern(
            tree=self._with_names(tree),
            unicode=self._unicode,
            references_to_open_groups=tuple(self._to_open),
            counted_lazy_marks=tuple(self._counted_lazy_marks),
        )

    def _with_names(self, tree: Node) -> Node:
        """The tree with references by name made references by number."""
        if not self._references:
            return tree
        numbers = [self._names[name] for name, _ in self._references]
        return _renumbered(tree, numbers)

    def _refuse(self, what: str, at: int | None = None) -> NoReturn:
        place = self._at if at is None else at
        message = f"{what}, at character {place + 1}"
        raise NotAPatternError(message)

    def _takes(self, expected: str) -> bool:
        if self._text.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    def _match(self, expected: re.Pattern[str]) -> re.Match[str] | None:
        found = expected.match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    # -- 22.2.1, Disjunction to Quantifier

    def _disjunction(self) -> Node:
        options = [self._alternative()]
        while self._takes("|"):
            options.append(self._alternative())
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _alternative(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if plain := self._match(_PLAIN):
                parts += [_one(ord(character)) for character in plain[0]]
            else:
                parts.append(self._term())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _term(self) -> Node:
        start, marks = self._at, len(self._lazy_marks)
        node = self._atom()
        repeated = self._quantified(node)
        if not isinstance(repeated, Repeat):
            return node
        if repeated.least == repeated.most:
            self._counted_lazy_marks.update(self._lazy_marks[marks:])
        looks_ahead = isinstance(node, Look) and not node.behind
        if isinstance(node, (Edge, Look)) and (self._unicode or not looks_ahead):
            self._refuse("a quantifier after an assertion", start)
        return repeated

    def _quantified(self, node: Node) -> Node:
        """The atom with the quantifier that follows it."""
        least: int
        most: int | None
        if self._next() not in _QUANTIFIERS:
            return node
        if self._takes("*"):
            least, most = 0, None
        elif self._takes("+"):
            least, most = 1, None
        elif self._takes("?"):
            least, most = 0, 1
        elif found := self._match(_QUANTIFIER):
            least = _count(found[1])
            most = least if not found[2] else _count(found[3]) if found[3] else None
            if most is not None and most < least:
                self._refuse(f"a quantifier that wants more than it allows, {found[0]}", found.start())
        else:
            return node
        lazy = self._takes("?")
        if lazy:
            self._lazy_marks.append((self._at - 1, self._at))
        return Repeat(node, least, most, lazy=lazy)

    def _atom(self) -> Node:
        character = self._text[self._at]
        match character:
            case "^" | "$":
                self._at += 1
                return Edge(character)
            case "(":
                return self._parenthesis()
            case ".":
                self._at += 1
                return Characters(LINE_TERMINATORS, negated=True)
            case "[":
                return self._class()
            case "\\":
                return self._atom_escape()
            case "*" | "+" | "?":
                self._refuse("a quantifier with nothing to repeat")
        if character == "{" and _QUANTIFIER.match(self._text, self._at):
            self._refuse("a quantifier with nothing to repeat")
        if character in "]{}" and self._unicode:
            self._refuse(f"a lone {character}")
        self._at += 1
        return _one(ord(character))

    def _parenthesis(self) -> Node:
        start = self._at
        self._depth += 1
        if self._depth > DEEPEST_GROUP:
            self._refuse(f"groups nest more than {DEEPEST_GROUP} deep")
        number: int | None = None
        look: tuple[bool, bool] | None = None
        if self._takes("(?:"):
            pass
        elif found := self._match(re.compile(r"\(\?(<?)([=!])")):
            look = bool(found[1]), found[2] == "!"
        elif self._takes("(?<"):
            self._opened = number = self._opened + 1
            self._name_group(number, start)
        elif self._text.startswith("(?", self._at):
            self._refuse(_foreign_group(self._text, self._at))
        else:
            self._at += 1
            self._opened = number = self._opened + 1
        self._open.append(number or 0)
        body = self._disjunction()
        if not self._takes(")"):
            self._refuse("a group that is not closed", start)
        self._open.pop()
        self._depth -= 1
        return Look(body, *look) if look else Parentheses(body, number)

    def _name_group(self, number: int, start: int) -> None:
        name = self._group_name()
        if name in self._names:
            self._refuse(f"two groups of the name {name!r}, which came with ES2025", start)
        self._names[name] = number

    def _group_name(self) -> str:
        """The name up to `>`; 22.2.1, GroupName."""
        start, name = self._at, ""
        while not self._takes(">"):
            if self._at == len(self._text):
                self._refuse("a group's name that does not end", start)
            if self._takes("\\u"):
                code = self._unicode_escape(braces=True)
                character = chr(code) if code is not None else ""
            else:
                character = self._next()
                self._at += 1
            if not _in_name(character, first=not name):
                self._refuse("a group's name that is no name", start)
            name += character
        if not name:
            self._refuse("a group without the name that it should have", start)
        return name

    # -- 22.2.1, AtomEscape and CharacterEscape; B.1.2 without the flag

    def _atom_escape(self) -> Node:
        start = self._at
        self._at += 1
        character = self._next()
        if character in {"b", "B"}:
            self._at += 1
            return Edge(character)
        if character == "k" and self._named:
            self._at += 1
            if not self._takes("<"):
                self._refuse(r"\k without a group's name", start)
            name = self._group_name()
            self._references.append((name, start))
            return self._reference(-len(self._references), self._names.get(name), start)
        if (found := _DECIMAL.match(self._text, self._at)) and (self._unicode or _count(found[0]) <= self._groups):
            self._at = found.end()
            if _count(found[0]) > self._groups:
                self._refuse(f"a reference to the group {found[0][:20]}, which there is not", start)
            return self._reference(int(found[0]), int(found[0]), start)
        return self._class_escape(start) or _one(self._character_escape(start))

    def _reference(self, written: int, group: int | None, start: int) -> Reference:
        if group in self._open:
            self._to_open.append((start, self._at))
        return Reference(written)

    def _class_escape(self, start: int) -> Characters | None:
        """One of the classes that an escape names."""
        character = self._next()
        ranges = {"d": _DIGITS, "s": _SPACES, "w": _WORD}.get(character.lower())
        if ranges is not None:
            self._at += 1
            return Characters(ranges, negated=character.isupper())
        if character in {"p", "P"} and self._unicode:
            self._at += 1
            found = self._match(_PROPERTY)
            ranges = characters_with(found[0][1:-1]) if found else None
            if ranges is None:
                self._refuse(f"\\{character} without a property that ECMA-262 names", start)
            return Characters(ranges, negated=character == "P")
        return None

    def _character_escape(self, start: int, *, in_class: bool = False) -> int:
        """The character that an escape stands for."""
        character = self._next()
        if not character:
            self._refuse("a backslash with nothing after it", start)
        if character == "c":
            return self._control(start, in_class=in_class)
        if character.isascii() and character.isdecimal():
            return self._number(start)
        self._at += 1
        if character in _CONTROLS:
            return _CONTROLS[character]
        code: int | None = None
        if character == "x" and (found := self._match(_HEX2)):
            code = int(found[0], 16)
        if character == "u":
            code = self._unicode_escape(braces=self._unicode)
        if code is not None:
            return code
        if self._unicode and not (character in _SYNTAX or character == "/" or (in_class and character == "-")):
            self._refuse(f"the escape \\{character}, which ECMA-262 does not have", start)
        if character == "k" and self._named:
            self._refuse(r"\k without a group's name", start)
        return ord(character)

    def _control(self, start: int, *, in_class: bool) -> int:
        letter = self._text[self._at + 1 : self._at + 2]
        old = in_class and not self._unicode and (letter == "_" or letter.isdecimal())
        if letter.isascii() and (letter.isalpha() or old):
            self._at += 2
            return ord(letter) % 32
        if self._unicode:
            self._refuse(r"\c without a letter", start)
        return ord("\\")

    def _number(self, start: int) -> int:
        r"""`\0`, or without the flag the octal numbers of old."""
        if self._unicode:
            self._at += 1
            if self._text[self._at - 1] != "0" or self._match(_DIGIT):
                self._refuse("an octal escape", start)
            return 0
        if found := self._match(_OCTAL):
            return int(found[0], 8)
        self._at += 1
        return ord(self._text[self._at - 1])

    def _unicode_escape(self, *, braces: bool) -> int | None:
        r"""The code point after `\u`; two surrogates make one without the flag too, since texts hold no halves."""
        if braces and (found := self._match(_BRACED_HEX)):
            code = int(found[1], 16)
            if code > LAST:
                self._refuse("a code point above 10FFFF", found.start())
            return code
        if not (found := self._match(_HEX4)):
            return None
        code = int(found[0], 16)
        if 0xD800 <= code < 0xDC00 and (found := self._match(_TRAIL)):
            return 0x10000 + ((code & 0x3FF) << 10) + (int(found[1], 16) & 0x3FF)
        return code

    # -- 22.2.1, CharacterClass

    def _class(self) -> Node:
        start = self._at
        self._at += 1
        negated = self._takes("^")
        ranges: list[Range] = []
        while not self._takes("]"):
            for member in self._members(start):
                ranges += complement(member.ranges) if member.negated else member.ranges
        return Characters(merged(ranges), negated)

    def _members(self, start: int) -> tuple[Characters, ...]:
        """One character or set of a class, or the range that it begins."""
        at = self._at
        first = self._member(start)
        if self._next() != "-" or self._text[self._at + 1 : self._at + 2] in {"]", ""}:
            return (first,)
        self._at += 1
        last = self._member(start)
        low, high = _single(first), _single(last)
        if low is None or high is None:
            if self._unicode:
                self._refuse("a range of a class that begins or ends with a set", at)
            return first, _one(ord("-")), last
        if low > high:
            self._refuse("a range of a class that ends before it begins", at)
        return (Characters(((low, high),)),)

    def _member(self, start: int) -> Characters:
        character = self._next()
        if not character:
            self._refuse("a class that is not closed", start)
        at = self._at
        self._at += 1
        if character != "\\":
            return _one(ord(character))
        if self._takes("b"):
            return _one(0x8)
        return self._class_escape(at) or _one(self._character_escape(at, in_class=True))


def _foreign_group(text: str, at: int) -> str:
    """What is wrong with a group that begins with `(?` and another engine's letters."""
    if re.compile(r"\(\?[ims]*-?[ims]*:").match(text, at):
        return "a group with modifiers, which came with ES2025"
    if re.compile(r"\(\?[a-zA-Z^-]+\)").match(text, at):
        return "flags inside the pattern, which ECMA-262 does not have"
    if text.startswith("(?P", at):
        return "a group named by (?P, which ECMA-262 writes (?<name>"
    return f"the group {text[at : at + 4]}, which ECMA-262 does not have"


@functools.lru_cache(maxsize=4096)
def _one(code: int) -> Characters:
    return Characters(((code, code),))


def _single(characters: Characters) -> int | None:
    """The character that a member of a class is, None for a set."""
    (low, high), *more = characters.ranges or ((0, 1),)
    return low if low == high and not (more or characters.negated) else None


def _count(digits: str) -> int:
    """A number that no text reaches once it is longer than any text."""
    return int(digits) if len(digits.lstrip("0")) < 12 else 10**12


def merged(ranges: list[Range]) -> tuple[Range, ...]:
    """The ranges in order, each character once."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def complement(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """Every character that is in none of the ranges, which are in order."""
    starts = [0, *(high + 1 for _, high in ranges)]
    ends = [*(low - 1 for low, _ in ranges), LAST]
    return tuple((low, high) for low, high in zip(starts, ends, strict=True) if low <= high)


def _in_name(character: str, *, first: bool) -> bool:
    """Whether the character may stand in a name; 12.7, IdentifierName."""
    if character in {"$", "_"} or (character.isascii() and character.isalpha()):
        return True
    if character.isascii():
        return not first and character.isdecimal()
    if character in {"\u200c", "\u200d"}:
        return not first
    ranges = characters_with("ID_Start" if first else "ID_Continue") or ()
    return any(low <= ord(character) <= high for low, high in ranges)


def _renumbered(node: Node, numbers: list[int]) -> Node:
    """The tree with each reference by name, which counts down from -1, made one by number."""
    match node:
        case Reference(number) if number < 0:
            return Reference(numbers[-number - 1])
        case Sequence(parts):
            return Sequence(tuple(_renumbered(part, numbers) for part in parts))
        case Alternatives(options):
            return Alternatives(tuple(_renumbered(option, numbers) for option in options))
        case Look(body, behind, negated):
            return Look(_renumbered(body, numbers), behind, negated)
        case Parentheses(body, number):
            return Parentheses(_renumbered(body, numbers), number)
        case Repeat(body, least, most, lazy):
            return Repeat(_renumbered(body, numbers), least, most, lazy)
    return node
