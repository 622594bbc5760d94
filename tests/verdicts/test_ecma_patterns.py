from __future__ import annotations

import re

import pytest

from pytest_jsbench.verdicts.ecma_patterns import DEEPEST_GROUP, pattern_fault, read_pattern
from pytest_jsbench.verdicts.patterns import ecma_matcher, matcher
from pytest_jsbench.verdicts.unicode_properties import characters_with

#: the clause of ECMA-262 (ES2024), a pattern, strings that it matches and strings that it does not
READ = [
    ("22.2.2.3 Disjunction", "^(?:a|)$", ["a", ""], ["b"]),
    ("22.2.2.4 Assertion ^ and $", "^a$", ["a"], ["a\n", "\na", "b\na\n"]),
    (r"22.2.2.4 Assertion \b", r"\bé", ["aé"], ["é"]),
    (r"22.2.2.4 Assertion \b", r"a\b", ["aé", "a"], ["a1"]),
    (r"22.2.2.4 Assertion \B", r"^\B$|a\Bb", ["", "ab"], ["a"]),
    ("22.2.2.4 look-ahead", "^(?=.*1)(?!.*2)", ["01"], ["012", "0"]),
    ("22.2.2.4 look-behind", "(?<=^a{1,3})b", ["ab", "aaab"], ["aaaab", "b"]),
    ("22.2.2.4 look-behind from its end", r"(?<=\1(a))b", ["aab"], ["ab"]),
    ("22.2.2.4 look-ahead is tried once", r"(?=(a*))a\1", [], ["a", "aaa"]),
    ("22.2.2.3.1 RepeatMatcher forgets captures", r"^(?:(a)|b)*\1$", ["ab", "b"], ["aba"]),
    ("22.2.2.3.1 RepeatMatcher: no empty round", r"^(?:a*)*$", ["", "aa"], ["b"]),
    ("22.2.1 Quantifier", "^a{2}b{1,}c{0,1}d*?$", ["aab", "aabbcd"], ["ab"]),
    ("22.2.1 Quantifier of any size", "^a{0,99999999999999999999}$", ["aaa"], ["b"]),
    ("22.2.1 Quantifier of many", "^.{0,70000}$", ["a", ""], ["a\n", "a" * 70001]),
    ("22.2.2.3.1 back into a lazy quantifier", "^(?:.(?:(?=-)-*?){1})+!$", ["a-!"], ["a!"]),
    ("22.2.2.3.1 the same beside a reference", r"^((?:.(?:(?=-)-*?){1})+\1)!$", ["a-!"], ["a!"]),
    ("22.2.2.9 a group captured nothing", r"^(?:(a)|b)\1$", ["b", "aa"], ["a", "ba"]),
    ("22.2.2.9 a group that is not closed yet", r"^(a\1)\1$", ["aa"], ["a", "aaa"]),
    ("22.2.2.9 a group that is not closed yet, and not in an earlier attempt", r"(.+\1)a", ["ba"], ["b"]),
    ("22.2.2.9 the same by its name", r"^(?<\u0061>.+\k<a>)a$", ["ba"], ["ab"]),
    ("22.2.2.9 a group of alternatives", r"^(a|b)\1$", ["aa", "bb"], ["a", "b", "ab", "ba"]),
    ("22.2.2.9 a group around another", r"^((a|b)c)\1\2$", ["acaca", "bcbcb"], ["ac", "acac", "acacb"]),
    ("22.2.2.9 a group ahead", r"^\1(a)$", ["a"], ["aa"]),
    ("22.2.2.9 a group of a failing look-ahead", r"^(?!(a))\1b", ["b"], ["a"]),
    ("22.2.1 GroupName", r"^(?<y>\d{4})-\k<y>$", ["2024-2024"], ["2024-2025"]),
    ("22.2.1 GroupName", r"^(?<$>.)(?<_\u0061>.)(?<é>.)\k<$>\k<_a>\k<é>$", ["abcabc"], ["abcabd"]),
    ("22.2.2.7 . is no LineTerminator", "^.*$", ["", "a\x85\v\f"], ["a\r", "\n", "\u2028", "\u2029"]),
    (r"22.2.2.9 \d", r"^(?=.)\d$", ["7"], ["٣", "a"]),
    (r"22.2.2.9 \w", r"^(?!@@)[\w@]+$", ["a_9@"], ["É", "\u017f", "\u212a"]),
    (r"22.2.2.9 \W", r"^\W$", ["é", "-", "😀"], ["a", "_"]),
    (r"12.2 WhiteSpace", r"^\s$", [*"\t\v\f \xa0\ufeff\u1680\u2003\n\r\u2028\u2029"], ["\u200b", "\u180e", "\x85"]),
    (r"12.2 WhiteSpace beside look-around", r"^(?!x)\s$", ["\ufeff"], ["\x85", "\x1c"]),
    (r"22.2.1 CharacterClass", "^[a-c^-]$", ["b", "^", "-"], ["d"]),
    ("22.2.1 CharacterClass of nothing, of anything", "^(?:[]|[^])$", ["\n", "a"], [""]),
    ("22.2.1 CharacterClass has no operations", "^[a&&b~~c||d[]$", ["&", "~", "|", "[", "a"], ["e"]),
    (r"22.2.1 ClassEscape \b, \-", r"^[\b\-a-z]$", ["\b", "-", "q"], ["B"]),
    (r"22.2.1 CharacterEscape", r"^\0\cJ\x41\u0042\u{43}\f\n\r\t\v\/$", ["\0\nABC\f\n\r\t\v/"], ["0"]),
    ("22.2.1 a pair of surrogates", r"^\uD83D\uDE00[\uD83D\uDE00-\uD83D\uDE02]$", ["😀😁"], ["😀"]),
    ("22.2.1 a lone surrogate", r"^\uD83D$", [], ["😀", "", "D"]),
    ("22.2.1 surrogates inside a range", r"^[^\u0000-\uFFFF]$", ["😀"], ["a"]),
    (r"22.2.2.9 \p", r"^\p{Lu}\P{Lu}\p{Script=Greek}[\p{Nd}_]$", ["Éa\u03b1٣", "Aa\u03b1_"], ["aa\u03b1_"]),
    (r"22.2.2.9 \p of one code point each", r"^\p{Emoji_Presentation}$", ["😀"], ["1"]),
    ("B.1.2 IdentityEscape", r"^\_\<\@\A\z$", ["_<@Az"], ["_"]),
    (r"B.1.2 \p without the flag", r"^\p{Greek}$", ["p{Greek}"], ["\u03b1"]),
    (r"B.1.2 \k without a named group", r"^\k<a>$", ["k<a>"], ["a"]),
    (r"B.1.2 \u{n} without the flag is a quantifier", r"^\u{3}\_$", ["uuu_"], ["\x03_"]),
    ("B.1.2 LegacyOctalEscapeSequence", r"^\1\07\101\8$", ["\x01\x07A8"], ["1"]),
    (r"B.1.2 \c without a letter", r"^\c[\c1\c_]$", ["\\c\x11", "\\c\x1f"], ["c1"]),
    ("B.1.2 ClassAtom: a set begins no range", r"^[\w-.]{2}$", ["a-", ".-"], ["//"]),
    ("B.1.2 QuantifiableAssertion", "^(?=a)*(?!b){2}$", [""], ["b"]),
    ("B.1.2 QuantifiableAssertion left out", r"^(?!(a)\1)*(b)\2$", ["bb"], ["bc", "b"]),
    ("B.1.2 ExtendedAtom", "^a{,2}]}$", ["a{,2}]}"], ["aa"]),
]  # fmt: skip

REFUSED = [
    ("(?i)abc", "flags inside the pattern"),
    ("(?i:a)", "modifiers, which came with ES2025"),
    ("(?<y>a)|(?<y>b)", "two groups of the name 'y', which came with ES2025"),
    ("(?P<y>a)", r"which ECMA-262 writes \(\?<name>"),
    ("(?>a)", r"the group \(\?>a"),
    ("(?#a)", r"the group \(\?#a"),
    ("^a++$", "nothing to repeat, at character 4"),
    ("a{2}{3}", "nothing to repeat"),
    ("{1}", "nothing to repeat"),
    ("a{2,1}", r"wants more than it allows, \{2,1\}"),
    ("^*", "a quantifier after an assertion"),
    ("(?<=a)*", "a quantifier after an assertion"),
    ("(", "a group that is not closed"),
    ("a)", "closes nothing"),
    ("[a", "a class that is not closed"),
    ("[b-a]", "ends before it begins"),
    ("a\\", "a backslash with nothing after it"),
    (r"(?<a>b)\k<c>", "the group 'c', which there is not"),
    (r"(?<a>b)\k", "without a group's name"),
    ("(?<1>a)", "a group's name that is no name"),
    ("(?<a", "a group's name that does not end"),
    ("(?<>a)", "without the name"),
    ("(" * (DEEPEST_GROUP + 1) + ")" * (DEEPEST_GROUP + 1), "nest more than 100 deep"),
]


@pytest.mark.parametrize(("clause", "pattern", "matching", "others"), READ)
def test_both_engines_read_a_pattern_as_its_clause_says(
    clause: str, pattern: str, matching: list[str], others: list[str]
) -> None:
    for engine in (matcher, ecma_matcher):
        assert [text for text in matching if not engine(pattern)(text)] == []
        assert [text for text in others if engine(pattern)(text)] == []


@pytest.mark.parametrize(("pattern", "reason"), REFUSED)
def test_what_is_no_pattern_is_refused_with_a_plain_reason(pattern: str, reason: str) -> None:
    fault = pattern_fault(pattern)
    assert fault is not None
    assert re.search(reason, fault)
    assert not matcher(pattern)("a")


def test_a_pattern_is_read_without_the_flag_only_where_it_is_none_with_it() -> None:
    assert read_pattern(r"^\w-\/$").unicode
    assert not read_pattern(r"^\w\-$").unicode


def test_digits_that_are_not_ascii_are_letters_of_a_pattern() -> None:
    assert read_pattern(r"\0٣").unicode
    assert matcher("^a{٣}$|^b{1}$")("a{٣}")


def test_the_characters_of_a_property_are_those_of_a_current_unicode() -> None:
    assert characters_with("ASCII") == ((0, 0x7F),)
    assert characters_with("Any") == ((0, 0x10FFFF),)
    assert characters_with("Greek") is None
    emoji = characters_with("Emoji") or ()
    assert any(low <= ord("😀") <= high for low, high in emoji)
    assert not any(low <= ord("a") <= high for low, high in emoji)
