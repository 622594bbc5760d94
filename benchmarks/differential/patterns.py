"""Patterns, real and generated, each with strings that match or almost match."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.answers import real_schemas
from benchmarks.differential.questions import PatternQuestion

TEXTS = 20
#:  Number of strings for a generated pattern.
MADE_TEXTS = 10
#:  Characters that engines treat differently: line ends, white space, digits, letters, case, whole and half surrogate
#: pairs.
HOSTILE: tuple[str, ...] = (
    *"\n\r\u2028\u2029\x85\t\v\f \u00a0\ufeff\u180e\u200b\u1680\u3000",
    *"aZ_0é٣K\u017fİ\u0131ßµ\u0130\u0345$^.-/\\]}{[()*+?|,:=!<>#&~@%'\"`\0\x08\x7f",
    *("😀", "\U0001d4b3", "\U0010ffff", "e\u0301", "ǅ", "क", "中", "ﬀ", "\u200d", "\u0378"),
)
WORDS = ("", "a", "abc", "GET", "foo.bar", "2024-01-31", "a@b.co", "https://example.com/a?b=c#d", "1.2.3-rc.1", "null")

Sample = Callable[[], str]


#  real patterns, parsed by Python: close enough to ECMA-262 to generate strings


class _Sampler:
    """Generator of strings that a Python pattern matches or almost matches."""

    def __init__(self, pattern: str, chance: random.Random) -> None:
        self._chance = chance
        self._groups: dict[int, str] = {}
        self._tokens: Any = re._parser.parse(pattern)  # type: ignore[attr-defined]  # noqa: SLF001  the only one at hand

    def sample(self) -> str:
        self._groups.clear()
        return self._all(self._tokens)

    def _all(self, tokens: Any) -> str:
        return "".join(self._sample_item(str(operation), argument) for operation, argument in tokens)

    def _sample_item(self, operation: str, argument: Any) -> str:
        chance = self._chance
        match operation:
            case "LITERAL":
                return chr(argument)
            case "NOT_LITERAL" | "ANY":
                return chance.choice(HOSTILE)
            case "IN":
                return self._member(argument)
            case "BRANCH":
                return self._all(chance.choice(argument[1]))
            case "SUBPATTERN":
                found = self._all(argument[3])
                self._groups[argument[0]] = found
                return found
            case "GROUPREF":
                return self._groups.get(argument, "")
            case "ASSERT":
                return self._all(argument[1]) if chance.random() < 0.5 else ""
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inner = argument
                times = min(int(most), least + chance.choice((0, 0, 1, 2, 3)), 200)
                return "".join(self._all(inner) for _ in range(times))
            case _:
                return ""

    def _member(self, members: Any) -> str:
        chance = self._chance
        operation, argument = chance.choice(members)
        match str(operation):
            case "LITERAL":
                return chr(argument)
            case "RANGE":
                return chr(chance.randint(*argument))
            case "CATEGORY":
                return chance.choice("0٣aÉ_ \u00a0\ufeff-é")
            case _:
                return chance.choice(HOSTILE)


def _real_patterns() -> list[str]:
    """Return each distinct pattern of the public benchmark's schemas."""
    found: dict[str, None] = {}
    pending: list[Any] = list(real_schemas())
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            if isinstance(value.get("pattern"), str):
                found[value["pattern"]] = None
            if isinstance(value.get("patternProperties"), dict):
                found.update(dict.fromkeys(value["patternProperties"]))
            pending += value.values()
    return sorted(found)


def _altered(text: str, chance: random.Random) -> str:
    """Return the string with one character inserted, removed, doubled or replaced."""
    position = chance.randrange(len(text) + 1)
    match chance.randrange(6):
        case 0:
            return text
        case 1:
            return text + chance.choice(HOSTILE)
        case 2:
            return chance.choice(HOSTILE) + text
        case 3:
            return text[:position] + chance.choice(HOSTILE) + text[position:]
        case 4:
            return text[:position] + chance.choice(HOSTILE) + text[position + 1 :]
        case _:
            return text[:position] + text[position + 1 :]


def _texts(sample: Sample, number: int, chance: random.Random) -> tuple[str, ...]:
    made = [sample() for _ in range(number)]
    texts = [*made[: number // 4], *(_altered(text, chance) for text in made)]
    texts += ["", chance.choice(WORDS), chance.choice(HOSTILE) * chance.choice((1, 2))]
    #  JSON texts cannot contain half a surrogate pair, and long strings would only measure time
    kept = (text for text in texts if len(text) < 500 and not any("\ud800" <= one <= "\udfff" for one in text))
    return tuple(dict.fromkeys(kept))[:number]


#  generated patterns


class PatternMaker:
    """Generator of patterns with all constructs of ECMA-262, with or without the flag `u`."""

    def __init__(self, chance: random.Random, *, legacy: bool) -> None:
        self._chance = chance
        self._legacy = legacy
        self._groups: list[tuple[str, Sample]] = []

    def pattern(self, depth: int = 0) -> tuple[str, Sample]:
        """Return a pattern, and a function that generates strings for it."""
        branches = [self._sequence(depth) for _ in range(self._chance.choice((1, 1, 1, 2, 3)))]
        return "|".join(source for source, _ in branches), lambda: self._chance.choice(branches)[1]()

    def _sequence(self, depth: int) -> tuple[str, Sample]:
        terms = [self._term(depth) for _ in range(self._chance.choice((0, 1, 1, 2, 2, 3, 4)))]
        if depth == 0 and self._chance.random() < 0.5:
            terms = [("^", str), *terms, ("$", str)]
        return "".join(source for source, _ in terms), lambda: "".join(sample() for _, sample in terms)

    def _term(self, depth: int) -> tuple[str, Sample]:
        chance = self._chance
        if chance.random() < 0.12:
            return self._assertion(depth)
        source, sample = self._group(depth) if depth < 3 and chance.random() < 0.25 else self._atom()
        if chance.random() < 0.35:
            quantifier, least, most = chance.choice(_QUANTIFIERS)
            lazy = chance.choice(("", "", "?"))
            return source + quantifier + lazy, lambda: "".join(sample() for _ in range(chance.randint(least, most)))
        return source, sample

    def _assertion(self, depth: int) -> tuple[str, Sample]:
        chance = self._chance
        if depth >= 3 or chance.random() < 0.5:
            return chance.choice((r"\b", r"\B", "^", "$")), str
        source, sample = self.pattern(depth + 1)
        kind = chance.choice(("?=", "?!", "?<=", "?<!"))
        quantifier = chance.choice(("", "*", "?", "{2}")) if self._legacy and kind in {"?=", "?!"} else ""
        return f"({kind}{source}){quantifier}", (sample if kind in {"?=", "?<="} and chance.random() < 0.5 else str)

    def _group(self, depth: int) -> tuple[str, Sample]:
        chance = self._chance
        kind = chance.random()
        if kind < 0.2 and self._groups:
            return chance.choice(self._groups)
        source, sample = self.pattern(depth + 1)
        if kind < 0.5:
            return f"(?:{source})", sample
        if kind < 0.75:
            #  a backreference may come before its group, or inside it
            self._groups.append((f"\\{chance.randint(1, 3)}(?:)", sample))
            return f"({source})", sample
        name = chance.choice(("a", "$", "_b", "é", "名", "\U0001d49c", r"\u0061x", r"\u{62}")) + str(len(self._groups))
        self._groups.append((rf"\k<{name}>", sample))
        return f"(?<{name}>{source})", sample

    def _atom(self) -> tuple[str, Sample]:
        chance = self._chance
        match chance.randrange(8):
            case 0 | 1:
                letter = chance.choice("abcAZ019_é😀\u017fK \u2028-,:=!<>#&~@%'\"")
                return letter, lambda: letter
            case 2:
                return ".", lambda: chance.choice(HOSTILE)
            case 3:
                return self._class()
            case _:
                source, characters = chance.choice(
                    _ESCAPES + (_LEGACY_ESCAPES * 3 if self._legacy else _UNICODE_ESCAPES)
                )
                return source, lambda: chance.choice(characters or HOSTILE)

    def _class(self) -> tuple[str, Sample]:
        chance = self._chance
        members: list[tuple[str, str]] = []
        for _ in range(chance.choice((0, 1, 2, 3))):
            pool = _MEMBERS + (_LEGACY_MEMBERS if self._legacy else _UNICODE_MEMBERS)
            members.append(chance.choice(pool))
        negated = chance.random() < 0.3
        source = (
            "[" + ("^" if negated else "") + "".join(one for one, _ in members) + chance.choice(("", "", "-")) + "]"
        )
        characters = "".join(inner for _, inner in members)
        return source, lambda: chance.choice(HOSTILE if negated or not characters else characters)


_QUANTIFIERS = (("*", 0, 2), ("+", 1, 3), ("?", 0, 1), ("{2}", 2, 2), ("{1,}", 1, 3), ("{0,2}", 0, 2), ("{0}", 0, 0))
#:  Escapes with characters that match them; any character if empty.
_ESCAPES = (
    (r"\d", "0٣9"), (r"\D", ""), (r"\w", "aZ_0é\u017fK"), (r"\W", "é -"), (r"\s", " \t\u00a0\ufeff\u180e\u2028\x85"),
    (r"\S", ""), (r"\n", "\n"), (r"\r", "\r"), (r"\t", "\t"), (r"\v", "\v"), (r"\f", "\f"), (r"\0", "\0"),
    (r"\cJ", "\n"), (r"\x41", "A"), (r"\u0041", "A"), (r"\u00e9", "é"), (r"\.", "."), (r"\/", "/"), (r"\$", "$"),
    (r"\]", "]"), (r"\}", "}"), (r"\\", "\\"), (r"\^", "^"), (r"\|", "|"), (r"\(", "("), (r"\{", "{"), (r"\*", "*"),
    (r"\+", "+"), (r"\?", "?"), (r"\ud83d\ude00", "😀"),
)  # fmt: skip
_UNICODE_ESCAPES = (
    (r"\p{L}", "aéक中\U0001d4b3"), (r"\P{L}", "1-😀"), (r"\p{Lu}", "AÉ\U0001d4b3"), (r"\p{Nd}", "0٣"),
    (r"\p{Script=Greek}", "αΩ"),
    (r"\p{sc=Cyrl}", "ж"), (r"\p{scx=Deva}", "क"), (r"\p{General_Category=Letter}", "aé"), (r"\p{gc=Lu}", "A"),
    (r"\p{ASCII}", "a\x7f"), (r"\p{Any}", ""), (r"\p{Assigned}", "a\u0378"), (r"\p{White_Space}", " \x85"),
    (r"\p{Alphabetic}", "aé"), (r"\p{Emoji}", "😀1#"), (r"\P{ASCII_Hex_Digit}", "gF"), (r"\u{1F600}", "😀"),
    (r"\u{61}", "a"), (r"\p{ID_Start}", "a"), (r"\p{Lowercase}", "aﬀ"),
)  # fmt: skip
_LEGACY_ESCAPES = (
    (r"\_", "_"), (r"\-", "-"), (r"\@", "@"), (r"\a", "a"), (r"\<", "<"), (r"\e", "e"), (r"\A", "A"), (r"\z", "z"),
    (r"\Z", "Z"), (r"\h", "h"), (r"\Q", "Q"), ("]", "]"), ("}", "}"), ("{", "{"), ("{a", "{"), ("{,2}", "{"),
    (r"\7", "\x07"), (r"\101", "A"), (r"\08", "\x008"), (r"\8", "8"), (r"\c", "c\\"), (r"\c1", "c\\"), (r"\x4", "x"),
    (r"\u00", "u"), (r"\u{3}", "u"), (r"\p{L}", "p"), (r"\k", "k"), (r"\pL", "p"), (r"\é", "é"),
)  # fmt: skip
_MEMBERS = (
    ("a", "a"), ("a-c", "abc"), ("0-9", "0٣"), (r"\d", "0٣"), (r"\w", "aé_\u017f"), (r"\s", " \ufeff"), (r"\S", ""),
    (r"\D", ""), (r"\W", "é"), (r"\b", "\b"), (r"\]", "]"), (r"\\", "\\"), (".", "."), ("$", "$"), ("[", "["),
    ("é", "é"), ("😀", "😀"), (r"\n", "\n"), (r"\^", "^"), (r"\0", "\0"), ("&&", "&"), ("--", "-"), ("~~", "~"),
    ("[:alpha:", "al[:"), (r"\u0041-\u005a", "AZ"), ("😀-😃", "😁"), (r"\cA", "\x01"),
)  # fmt: skip
_UNICODE_MEMBERS = (
    (r"\p{L}", "aé"),
    (r"\P{Lu}", "a"),
    (r"\-", "-"),
    (r"\u{1F600}-\u{1F64F}", "😀"),
    (r"\ud83d\ude00-\ud83d\ude4f", "😁"),
)
_LEGACY_MEMBERS = (
    (r"\w-.", "a.-"),
    (r"\_", "_"),
    (r"a-\d", "a-0"),
    (r"\c_", "\x1f"),
    (r"\c", "c\\"),
    (r"\k", "k"),
    (r"\B", "B"),
    (r"\8", "8"),
)
#:  Syntax of other engines that ECMA-262 does not have or interprets differently.
FOREIGN = (
    "(?i)abc", "(?i:abc)", "^a++$", "a*+b", "a?+", "(?>a)b", r"^\A", r"a\z", r"\Aa\Z", r"\p{Greek}", r"\p{IsGreek}",
    r"\pL", r"\p{^L}", "(?P<n>a)", "(?P=n)", "(?'n'a)", "(?#c)a", "(?x) a", r"\Qa.b\E", "[[:alpha:]]", "[a-z&&[^b]]",
    "[a--b]", "[a~~b]", r"\h", r"\R", r"\X", r"\G", r"\K", r"\N", r"\e", r"\a", "a{2,1}", "[b-a]", "a**", "a{,2}",
    "a{2", "a{2,", "{2}", "*a", "+", "?", "(", ")", "[", "]", "}", "{", "\\", "(?<n>a)(?<n>b)", "(?<1>a)", "(?<>a)",
    r"\k<n>", r"(?<n>a)\k<m>", r"\1", r"(a)\2", r"\u{110000}", r"\u{}", r"\x", r"\u", r"\c", "(?<=a)*", "(?=a)*",
    "(?!a)+", "^*", "$+", r"\b+", "(?", "(?<", "(?<n", "(?<n>", "[\\", "a|*", "(?:)", "", "|", "()", "[]", "[^]",
    r"^\uD83D$", r"\uDE00", r"[\uD83D]", "(?<$>.)", "(?<y>\\d{4})-\\k<y>", r"\p{Script_Extensions=Latin}", r"\p{L",
    r"\p{Lx}", r"\p{}", r"\p{sc=}", r"\p{Script}", r"\p{InGreek}", r"\p{Emoji_Flag_Sequence}", r"\d-\w", r"[\d-\w]",
    r"[\w-a]", r"[a-\w]", r"\u{0000000061}", r"\00", r"\01", r"[\01]", r"\9", "a{0,0}", "a{99999}",
    "(?:a{1000}){1000}", "x{2147483648}", r"\/", "/", r"\'", r"\ ", r"[\ ]",
)  # fmt: skip


def _of_few_letters(chance: random.Random, depth: int = 0) -> str:
    """Return a pattern of groups, backreferences and lookarounds over so few letters that many strings match."""
    branches = ["".join(_small_term(chance, depth) for _ in range(chance.choice((0, 1, 1, 2, 2, 3)))) for _ in "ab"]
    return "|".join(branches[: chance.choice((1, 1, 2))])


def _small_term(chance: random.Random, depth: int) -> str:
    kind = chance.random()
    if depth < 3 and kind < 0.1:
        return f"({chance.choice(('?=', '?!', '?<=', '?<!'))}{_of_few_letters(chance, depth + 1)})"
    if depth < 3 and kind < 0.5:
        atom = f"({chance.choice(('', '', '?:'))}{_of_few_letters(chance, depth + 1)})"
    else:
        atom = chance.choice(("a", "a", "b", "b", ".", "[^a]", r"\b", r"\1", r"\1", r"\2", r"\3"))
    quantified = atom != r"\b" and chance.random() < 0.3
    return atom + (chance.choice(_QUANTIFIERS)[0] + chance.choice(("", "", "?")) if quantified else "")


def _made(seed: int, number: int) -> PatternQuestion:
    chance = random.Random(f"{seed} pattern {number}")
    if number < len(FOREIGN):
        pattern = FOREIGN[number]
        return PatternQuestion(
            name=f"foreign {number}", pattern=pattern, texts=_texts(lambda: chance.choice(WORDS), TEXTS, chance)
        )
    if number % 4 == 1:
        few = tuple(dict.fromkeys("".join(chance.choices("aab", k=chance.randrange(6))) for _ in range(MADE_TEXTS)))
        around = chance.choice((("^", "$"), ("", "")))
        return PatternQuestion(name=f"made {number}", pattern=_of_few_letters(chance).join(around), texts=few)
    pattern, sample = PatternMaker(chance, legacy=number % 3 == 0).pattern()
    if chance.random() < 0.05 and pattern:
        position = chance.randrange(len(pattern))
        pattern = pattern[:position] + pattern[position + 1 :]
    texts = _texts(sample, MADE_TEXTS, chance)
    return PatternQuestion(name=f"made {number}", pattern=pattern, texts=texts)


def real_pattern_questions(seed: int, pairs: int) -> Iterator[PatternQuestion]:
    """Yield the real patterns in a seeded order, up to this many pairs."""
    patterns = _real_patterns()
    random.Random(f"{seed} real patterns").shuffle(patterns)
    for pattern in patterns:
        chance = random.Random(f"{seed} {pattern}")
        try:
            sampler = _Sampler(pattern, chance)
        except (re.error, OverflowError):
            continue
        if pairs <= 0:
            return
        question = PatternQuestion(name="real pattern", pattern=pattern, texts=_texts(sampler.sample, TEXTS, chance))
        pairs -= len(question.texts)
        yield question


def made_pattern_questions(seed: int, pairs: int) -> Iterator[PatternQuestion]:
    """Yield patterns with syntax of other engines, then generated ones, up to this many pairs."""
    number = 0
    while pairs > 0:
        question = _made(seed, number)
        number += 1
        pairs -= len(question.texts)
        yield question
