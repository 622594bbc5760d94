from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.verdicts.patterns import matcher, rewrite, rewrite_schema


@pytest.mark.parametrize(
    ("pattern", "rewritten"),
    [
        (r"^PUBMED:\{d}", r"^PUBMED:\{d\}"),
        (r"a\_b\-c\@", "a_b-c@"),
        (r"[\w\-\_]", r"[\w\-_]"),
        ("a]b}", r"a\]b\}"),
        ("{x}", r"\{x\}"),
        ("[[x]", r"[\[x]"),
        (r"\<a\>", "<a>"),
        ("a\\", "a\\"),
        (r"^[\w-\.]+@([\w-]+\.)+$", r"^[\w\-\.]+@([\w-]+\.)+$"),
        (r"[a-\d][-\w][\w-\d-x]", r"[a\-\d][-\w][\w\-\d\-x]"),
        (r"[\p{L}-_a-z]", r"[\p{L}\-_a-z]"),
        (r"a[]b[^][^]]", r"a(?!)b[\s\S][\s\S]\]"),
        (r"[\b\0]\b\0\01", r"[\x08\x00]\b\x00\01"),
        (r"[\ud83d\ude00-\uD83D\uDE4F]", r"[\u{1F600}-\u{1F64F}]"),
    ],
)
def test_what_only_the_old_mode_allows_is_written_out(pattern: str, rewritten: str) -> None:
    assert rewrite(pattern) == rewritten


@pytest.mark.parametrize(
    "pattern",
    [
        r"^a{2,3}b{4}c{5,}$",
        r"\d\D\w\W\s\S\b\B\n\t\r\f\v",
        r"\x41\u0041\u{1F600}\p{L}\P{Lu}\cA",
        r"(?<year>\d{4})\k<year>\1",
        r"\^\$\\\.\*\+\?\(\)\[\]\{\}\|\/",
        r"[^a-z\]\-]+(?=x)(?!y)(?:z)",
    ],
)
def test_a_pattern_that_every_mode_allows_stays_as_it_is(pattern: str) -> None:
    assert rewrite(pattern) == pattern


@given(st.text(alphabet="ab]}{_-@<>\\", max_size=12), st.text(alphabet="ab]}{_-@<>\\", max_size=6))
def test_a_rewritten_pattern_of_literals_matches_what_they_spell(pattern: str, text: str) -> None:
    if pattern.endswith("\\") or re.search(r"\\[ab\\]", pattern):
        return
    literal = pattern.replace("\\", "")
    assert matcher(rewrite(pattern))(text) == (literal in text)


@pytest.mark.parametrize(
    ("pattern", "text", "other"),
    [(r"^\0$", "\0", "0"), (r"^[\b]$", "\b", "b"), ("^[^]$", "\n", ""), ("^(?:[]|a)$", "a", "")],
)
def test_what_only_ecma_262_has_is_read_as_it_reads_it(pattern: str, text: str, other: str) -> None:
    assert matcher(pattern)(text)
    assert not matcher(pattern)(other)


def test_patterns_are_rewritten_where_schemas_stand_and_nowhere_else() -> None:
    schema = {
        "properties": {"pattern": {"pattern": r"\_"}, "default": {"patternProperties": {r"\_": {}}}},
        "enum": [{"pattern": r"\_"}],
        "default": {"pattern": r"\_"},
        "components": {"schemas": {"a": {"items": [{"pattern": r"\_"}]}}},
    }
    assert rewrite_schema(schema) == {
        "properties": {"pattern": {"pattern": "_"}, "default": {"patternProperties": {"_": {}}}},
        "enum": [{"pattern": r"\_"}],
        "default": {"pattern": r"\_"},
        "components": {"schemas": {"a": {"items": [{"pattern": "_"}]}}},
    }
    assert schema["properties"]["pattern"] == {"pattern": r"\_"}  # type: ignore[index]


def test_escaped_angle_brackets_are_no_word_boundaries() -> None:
    assert matcher(r"^\<a\>$")("<a>")
    assert not matcher(r"^\<a\>$")("a")
    assert matcher(r"^\\<$")("\\<")


def test_nothing_matches_a_pattern_that_no_engine_compiles() -> None:
    assert not matcher("(")("(")
