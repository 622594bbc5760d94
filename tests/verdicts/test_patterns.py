from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.verdicts import JudgePolicy
from pytest_jsbench.verdicts.in_process import InProcessJudge
from pytest_jsbench.verdicts.patterns import (
    REFUSED,
    BeyondRustError,
    ecma_matcher,
    matcher,
    rewrite_schema,
    translate,
    translate_schema,
)


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        (r"^PUBMED:\{d}", r"^PUBMED:\{d\}"),
        (r"a\_b\-c\@", "a_b-c@"),
        (r"[\w\-\_]", r"[\-0-9A-Z_a-z]"),
        ("a]b}", r"a\]b\}"),
        ("[[x]", r"[\[x]"),
        ("[&&~~]", r"[\u{26}\u{7E}]"),
        (r"^.\d", r"^[^\u{A}\u{D}\u{2028}\u{2029}][0-9]"),
        (r"a[]b[^]", r"a[^\u{0}-\u{10FFFF}]b[\u{0}-\u{10FFFF}]"),
        (r"[\b\0]\0\01", r"[\u{0}\u{8}]\u{0}\u{1}"),
        (r"[\ud83d\ude00-\uD83D\uDE4F]", "[😀-🙏]"),
        ("(?<year>a)", "(a)"),
        ("(?=a)*(?=b)+", "(?=b)"),
        (r"(a)(b)\2", r"(?:a)(b())(?:\1|(?!\2))"),
        (r"((a|b)c)\1\2", r"(((?:a|b)())c())(?:\1|(?!\4))(?:\2|(?!\3))"),
        (r"(?!(a)\1)*(b)\2", r"(b())(?:\1|(?!\2))"),
        ("a{0,99999999}", "a*"),
    ],
)
def test_what_the_engine_reads_otherwise_is_written_out(pattern: str, written: str) -> None:
    assert translate(pattern) == written


@pytest.mark.parametrize(
    "pattern",
    ["^a{2,3}b{4}c{5,}$", "^(get|put)$", r"\^\$\\\.\*\+\?\(\)\[\]\{\}\|/", r"[^a-z]+(?=x)(?!y)(?:z)??", "é😀"],
)
def test_a_pattern_that_the_engine_reads_so_stays_as_it_is(pattern: str) -> None:
    assert translate(pattern) == pattern


@pytest.mark.parametrize("pattern", [r"(?:(a)|b)*\1", r"(?<=(a))\1", r"(a)(?<=\1)", r"(?=(a*))\1", r"(?:(a*))*\1"])
def test_what_the_engine_cannot_be_told_is_left_to_one_of_ecma_262(pattern: str) -> None:
    with pytest.raises(BeyondRustError):
        translate(pattern)
    assert matcher(pattern)("aa") == ecma_matcher(pattern)("aa")


def test_braces_hold_a_code_point_in_the_name_of_a_group_and_a_number_of_times_elsewhere() -> None:
    assert ecma_matcher(r"^(?<\u{62}>a\_?)\k<\u{62}>\u{2}$")("aauu")
    assert matcher(r"^(?:(?<\u{62}>a)|\_)*\k<b>$")("aa")


@given(st.text(alphabet="ab]}{_-@<>\\", max_size=12), st.text(alphabet="ab]}{_-@<>\\", max_size=6))
def test_a_pattern_of_literals_matches_what_they_spell(pattern: str, text: str) -> None:
    if pattern.endswith("\\") or re.search(r"\\[ab\\]", pattern):
        return
    literal = pattern.replace("\\", "")
    assert matcher(pattern)(text) == ecma_matcher(pattern)(text) == (literal in text)


def test_patterns_are_rewritten_where_schemas_stand_and_nowhere_else() -> None:
    schema = {
        "properties": {"pattern": {"pattern": r"\_"}, "default": {"patternProperties": {r"\_": {}}}},
        "enum": [{"pattern": r"\_"}],
        "default": {"pattern": r"\_"},
        "components": {"schemas": {"a": {"items": [{"pattern": r"\_"}]}}},
    }
    assert rewrite_schema(schema, translate) == {
        "properties": {"pattern": {"pattern": "_"}, "default": {"patternProperties": {"_": {}}}},
        "enum": [{"pattern": r"\_"}],
        "default": {"pattern": r"\_"},
        "components": {"schemas": {"a": {"items": [{"pattern": "_"}]}}},
    }
    assert schema["properties"]["pattern"] == {"pattern": r"\_"}  # type: ignore[index]


def test_two_patterns_of_one_meaning_stay_two() -> None:
    named = {r"\d": {"type": "string"}, "[0-9]": {"minLength": 2}, "[0123456789]": {}}
    schema: dict[str, Any] = {"patternProperties": named}
    translated = translate_schema(schema)
    with translated.in_place():
        written = schema["patternProperties"]
    assert schema["patternProperties"] is named
    assert len(written) == 3
    assert written["[0-9]"] == {"minLength": 2}
    assert {translated.original(pattern) for pattern in written} == set(named)


def test_what_is_no_pattern_stays_one_that_the_engine_refuses_and_names_itself() -> None:
    schema = {"pattern": "(?i)a"}
    translated = translate_schema(schema)
    with translated.in_place():
        assert schema == {"pattern": f"{REFUSED}(?i)a"}
    assert schema == {"pattern": "(?i)a"}
    assert translated.original(f"{REFUSED}(?i)a") == "(?i)a"


@pytest.mark.parametrize(
    "schema", ['{"p\\u0061ttern": "(?i)a"}', '{"pattern\\u0050roperties": {"(?i)a": {}}}', '{"pattern"\n:"(?i)a"}']
)
def test_patterns_are_read_however_their_keyword_is_written(schema: str) -> None:
    problem = InProcessJudge(JudgePolicy()).inspect(schema)
    assert problem is not None
    assert problem.reason == "pattern"


def test_a_schema_that_the_engine_refuses_has_its_own_patterns_again() -> None:
    schema = {"items": {"pattern": r"\d"}, "patternProperties": {r"\w": {"$ref": r"#/patternProperties/%5Cw"}}}
    before = json.dumps(schema)
    translated = translate_schema(schema)
    with suppress(ZeroDivisionError), translated.in_place():
        assert schema["patternProperties"] == {"[0-9A-Z_a-z]": {"$ref": "#/patternProperties/%5B0-9A-Z_a-z%5D"}}
        raise ZeroDivisionError
    assert json.dumps(schema) == before


def test_nothing_matches_what_is_no_pattern() -> None:
    assert not matcher("(")("(")
    assert not matcher("(?i)a")("a")


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
def test_an_optional_half_of_a_surrogate_pair_may_be_absent_for_the_second_opinion(
    pattern: str, text: str, matches: bool
) -> None:
    assert ecma_matcher(pattern)(text) is matches
