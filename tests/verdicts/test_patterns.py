"""Test patterns as in ECMA-262, with Rust's engine if it reads them the same way, and with `regress`."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.differential.patterns import made_pattern_questions
from pytest_jsbench.schemas.dialects import DIALECTS, Dialect
from pytest_jsbench.schemas.keywords import walk
from pytest_jsbench.verdicts import Judge, JudgePolicy
from pytest_jsbench.verdicts.in_process import InProcessJudge
from pytest_jsbench.verdicts.patterns import (
    ecma_matcher,
    is_regex,
    is_unicode_pattern,
    linear,
    matcher,
    pattern_fault,
    rewritten_patterns,
)
from tests.support.fuzzing import examples

#: Clause of ECMA-262 (ES2025), pattern, matching strings, other strings.
READ = [
    ("22.2.2.3 Disjunction", "^(?:a|)$", ["a", ""], ["b"]),
    ("22.2.2.4 Assertion ^ and $", "^a$", ["a"], ["a\n", "\na", "b\na\n"]),
    (r"22.2.2.4 Assertion \b", r"\bé", ["aé"], ["é"]),
    (r"22.2.2.4 Assertion \b", r"a\b", ["aé", "a"], ["a1"]),
    (r"22.2.2.4 Assertion \b in a group", r"^a(?:\b)+\\b+[\b]*$", ["a\\b"], ["ab"]),
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
    ("22.2.2.9 a group captured nothing", r"^(?:(a)|b)\1$", ["b", "aa"], ["a", "ba"]),
    ("22.2.2.9 a group that is not closed yet", r"^(a\1)\1$", ["aa"], ["a", "aaa"]),
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
    (r"12.2 WhiteSpace next to look-around", r"^(?!x)\s$", ["\ufeff"], ["\x85", "\x1c"]),
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
    r"\b+", r"a\B{2,}", r"[\b]\b?", "(?i)abc", "(?P<y>a)", "(?>a)", "(?#a)", "^a++$", "a{2}{3}",
    "{1}", "a{2,1}", "^*", "(?<=a)*", "(", "a)", "[a", "[b-a]", "a\\", r"(?<a>b)\k<c>",
    r"(?<a>b)\k", "(?<1>a)", "(?<a", "(?<>a)",
]  # fmt: skip


@pytest.mark.parametrize(("clause", "pattern", "matching", "others"), READ)
def test_both_regex_engines_follow_the_clause_of_ecma_262(
    clause: str, pattern: str, matching: list[str], others: list[str]
) -> None:
    for engine in (matcher, ecma_matcher):
        assert [text for text in matching if not engine(pattern)(text)] == []
        assert [text for text in others if engine(pattern)(text)] == []


@pytest.mark.parametrize("pattern", [*REFUSED, "(" * 5000 + ")" * 5000])
def test_invalid_pattern_is_rejected_and_matches_nothing(pattern: str) -> None:
    assert pattern_fault(pattern)
    assert not is_regex(pattern)
    assert not matcher(pattern)("a")


def test_pattern_is_read_without_the_flag_only_if_invalid_with_it() -> None:
    assert is_unicode_pattern(r"^\w-\/$")
    assert not is_unicode_pattern(r"^\w\-$")
    assert is_unicode_pattern(r"\0٣")
    assert matcher("^a{٣}$|^b{1}$")("a{٣}")


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        (r"^PUBMED:\{d}", r"^PUBMED:\{d\}"),
        (r"a\_b\-c\@", "a_b-c@"),
        (r"[\w\-\_]", r"[0-9A-Z_a-z\-_]"),
        ("a]b}", r"a\]b\}"),
        ("[[x]", r"[\[x]"),
        ("[&&~~]", r"[\u{26}\u{26}\u{7E}\u{7E}]"),
        ("[a-c-e+--]", r"[a-c\-e+-\-]"),
        (r"^.\d", r"^[^\u{A}\u{D}\u{2028}\u{2029}][0-9]"),
        (r"\x41\u0042\t", r"AB\u{9}"),
        ("^(?!a|b$)c", "^(?!a|b$)c"),
        ("^(?!a)*b", None),
        *((pattern, None) for pattern in ("a(?!b)", r"(a)\1", r"\ba", "(?<a>b)", r"\p{L}", "[^]", r"[\S]", r"\ud83d")),
        *(
            (pattern, pattern)
            for pattern in ("^a{2,3}b{4}c{5,}$", "^(get|put)$", r"\^\$\\\.\*\+\?\(\)\[\]\{\}\|/", "é😀")
        ),
    ],
)
def test_pattern_with_another_meaning_in_rust_is_rewritten_or_left(pattern: str, written: str | None) -> None:
    assert linear(pattern) == written


def test_rewritten_patterns_have_the_same_meaning() -> None:
    different = [
        (question.pattern, text)
        for question in made_pattern_questions(3, 6_000)
        if pattern_fault(question.pattern) is None and linear(question.pattern) is not None
        for text in question.texts
        if matcher(question.pattern)(text) != ecma_matcher(question.pattern)(text)
    ]
    assert different == []


@examples(200)
@given(st.text(alphabet="ab]}{_-@<>\\", max_size=12), st.text(alphabet="ab]}{_-@<>\\", max_size=6))
def test_pattern_of_literals_matches_their_text(pattern: str, text: str) -> None:
    if pattern.endswith("\\") or re.search(r"\\[ab\\]", pattern):
        return
    literal = pattern.replace("\\", "")
    assert matcher(pattern)(text) == ecma_matcher(pattern)(text) == (literal in text)


def test_patterns_are_rewritten_in_schemas_and_restored_after_errors() -> None:
    schema: dict[str, Any] = {
        "properties": {"pattern": {"pattern": r"\_"}, "default": {"patternProperties": {r"\_": {}}}},
        "enum": [{"pattern": r"\_"}],
        "components": {"schemas": {"a": {"items": [{"pattern": r"(?=\_)"}, {"pattern": "("}]}}},
    }
    before = json.dumps(schema)
    with suppress(ZeroDivisionError), rewritten_patterns(walk(schema)):
        assert schema == {
            "properties": {"pattern": {"pattern": "_"}, "default": {"patternProperties": {"_": {}}}},
            "enum": [{"pattern": r"\_"}],
            "components": {"schemas": {"a": {"items": [{"pattern": r"(?=\_)"}, {"pattern": "*("}]}}},
        }
        raise ZeroDivisionError
    assert json.dumps(schema) == before


def test_two_patterns_of_one_meaning_stay_two() -> None:
    named = {r"\d": {"type": "string"}, "[0-9]": {"minLength": 2}}
    schema: dict[str, Any] = {"patternProperties": named}
    with rewritten_patterns(walk(schema)) as originals:
        assert {originals[pattern]: held for pattern, held in schema["patternProperties"].items()} == named
    assert schema["patternProperties"] is named


@pytest.mark.parametrize(
    "schema", ['{"p\\u0061ttern": "(?i)a"}', '{"pattern\\u0050roperties": {"(?i)a": {}}}', '{"pattern"\n:"(?i)a"}']
)
def test_patterns_are_read_for_each_spelling_of_their_keyword(schema: str) -> None:
    problem = InProcessJudge(JudgePolicy()).inspect(schema)
    assert problem is not None
    assert problem.reason == "pattern"


def test_braces_contain_a_code_point_in_group_names_only() -> None:
    assert ecma_matcher(r"^(?<\u{62}>a\_?)\k<\u{62}>\u{2}$")("aauu")
    assert matcher(r"^(?:(?<\u{62}>a)|\_)*\k<b>$")("aa")


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"^\uD83D*$", "", True),
        (r"^\uD83D*$", "a", False),
        (r"^[\]\uD83D]*$", "]", True),
        (r"^\uD83D?a\uDE00?$", "a", True),
        (r"^\_\uD83D\uDE00$", "_\U0001f600", True),
        (r"^\_\\uD83D$", "_\\uD83D", True),
    ],
)
def test_an_optional_half_of_a_surrogate_pair_may_be_absent(pattern: str, text: str, matches: bool) -> None:
    assert ecma_matcher(pattern)(text) is matches


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.uri)
@pytest.mark.parametrize("pattern", ["^{a}$", r"^\w\-\_$", "^]$", "(", "a{2", r"(?P<a>b)", "^a+$", "[[:alpha:]]"])
def test_format_regex_accepts_the_same_as_pattern(judge: Judge, dialect: Dialect, pattern: str) -> None:
    is_pattern = judge.inspect({"$schema": dialect.uri, "pattern": pattern}) is None
    verdict = judge.judge({"$schema": dialect.uri, "format": "regex"}, json.dumps(pattern))
    assert verdict.valid is is_pattern
    assert verdict.second_opinion != "disagrees"


@pytest.mark.parametrize("pattern", [r"\A[a-z]*\Z", r"^\a$"])
def test_format_regex_rejects_syntax_of_other_engines(judge: Judge, pattern: str) -> None:
    assert judge.judge({"format": "regex"}, json.dumps(pattern)).valid is False


def test_bad_pattern_is_reported_with_what_to_write_instead(judge: Judge) -> None:
    problem = judge.inspect({"pattern": "(?P<year>[0-9]{4})"})
    assert problem is not None
    assert "it has (?P<, which is not ECMA-262: write (?<name>…)" in problem.message
