from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.core.text import (
    describe_error,
    distinct,
    dollars,
    format_count,
    json_text,
    list_names,
    printable,
    sentence,
    shorten,
)
from tests.support.fuzzing import examples
from tests.support.hostile_texts import is_shown_as_it_is

ANY = st.text(st.characters() | st.sampled_from("\n\t :#[\u202e\U000e0041\ufe0f"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode ✓ 漢字\u3000\u00a0", "plain ünïcode ✓ 漢字\u3000\u00a0"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u061c\ufeff\u200b\xad", "\\u061c\\ufeff\\u200b\\xad"),
        ("\ud800\x00\ue000\uffff", "\\ud800\\x00\\ue000\\uffff"),
        ("\u2028\x9b", "\\u2028\\x9b"),
        ("\U000e0041", "\\U000e0041"),
        ("\u3164\u115f\ufe0f\U000e0100\u2800", "\\u3164\\u115f\\ufe0f\\U000e0100\\u2800"),
        ("a ##[error]b ##vso[task.complete] ##", "a #\\x23[error]b #\\x23vso[task.complete] ##"),
        ("::error::x", "\\x3a:error::x"),
        (" \u00a0::stop-commands::x", " \u00a0\\x3a:stop-commands::x"),
        ("task::id", "task::id"),
    ],
)
def test_displayed_text_has_no_hidden_characters_and_no_commands(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_that_are_kept_hold_no_command_and_no_other_line_end() -> None:
    assert printable("a\r\n\t::error::b\n##[group]\x0b::c", lines=True) == (
        "a\\r\n\t\\x3a:error::b\n#\\x23[group]\\x0b::c"
    )


def test_a_long_text_is_cut_visibly() -> None:
    assert printable("x" * 11, 10) == "x" * 9 + "…"
    assert printable("x" * 10, 10) == "x" * 10
    assert printable("\x1b" * 10, 10) == "\\x1b\\x1b\\…"


def test_the_middle_of_a_long_text_can_be_left_out() -> None:
    shown = printable("begin" + "x" * 10_000 + " is not of type 'string'", 60, cut="middle")

    assert len(shown) == 60
    assert shown.startswith("beginx")
    assert shown.endswith("xx is not of type 'string'")
    assert shorten("abcdef", 4) == "a…ef"
    assert shorten("abcdef", 1) == "…"


def test_a_message_of_several_lines_becomes_a_sentence() -> None:
    assert sentence(" a\r\n\tb \x00c\u2028d ") == "a b \\x00c d"
    assert describe_error(ValueError("no\n::error::x")) == "ValueError: no ::error::x"


@given(ANY, st.integers(1, 40), st.sampled_from(["end", "middle"]), st.booleans())
def test_printable_is_bounded_and_idempotent(text: str, limit: int, cut: str, lines: bool) -> None:
    shown = printable(text, limit, cut="end" if cut == "end" else "middle", lines=lines)

    assert len(shown) <= limit
    assert is_shown_as_it_is(shown, "\n\t" if lines else "")
    assert printable(shown, limit, lines=lines) == shown


@pytest.mark.slow
@examples(250)
@given(
    st.recursive(
        st.none() | ANY | st.floats(allow_nan=False), lambda inner: st.lists(inner) | st.dictionaries(ANY, inner)
    )
)
def test_displayed_json_has_the_same_value(value: object) -> None:
    for indent in (None, 2):
        text = json_text(value, indent=indent)

        assert is_shown_as_it_is(text, "\n")
        assert json.loads(text) == json.loads(json.dumps(value))


@given(st.lists(ANY, unique=True, max_size=12), st.integers(4, 40))
def test_different_names_stay_different_when_they_are_cut(names: list[str], limit: int) -> None:
    shown = distinct(names, limit)

    assert len(set(shown)) == len(names)
    assert all(len(one) <= limit and is_shown_as_it_is(one) for one in shown)


def test_distinct_cuts_names_in_their_common_parts() -> None:
    assert distinct(["short", "exclusiveMaximum"], 11) == ["short", "exclusiveM…"]
    assert distinct(["exclusiveMaximum", "exclusiveMinimum"], 11) == ["exclu…ximum", "exclu…nimum"]
    models = [
        f"meta-llama-Llama-3.1-{size}-Instruct-{prompt}" for prompt in ("chat", "schema") for size in ("70B", "8B")
    ]
    assert distinct(models, 15) == ["…70B-In…ct-chat", "…8B-Ins…ct-chat", "…70B-In…-schema", "…8B-Ins…-schema"]
    tools = [f"every-tool-of-all-the-servers-{name}-x-on-port-1" for name in "ab"]
    assert distinct(tools, 22) == ["…servers-a-x-on-port-1", "…servers-b-x-on-port-1"]
    assert distinct(["\x1b", "\\x1b"], 11) == ["\\x1b~1", "\\x1b~2"]


def test_deeply_nested_json_is_displayed_on_one_line() -> None:
    def nested(levels: int) -> object:
        return [nested(levels - 1)] if levels else "x"

    assert json_text(nested(40), indent=2).count("\n") == 80
    assert json_text(nested(60), indent=2) == "[" * 60 + '"x"' + "]" * 60


def test_counted_uses_the_singular_for_one() -> None:
    assert [format_count(number, "call") for number in (0, 1, 2000)] == ["0 calls", "1 call", "2,000 calls"]


def test_list_of_names_counts_the_names_beyond_the_most() -> None:
    assert [list_names(["a", "b", "c"], most) for most in (3, 2)] == ["a, b, c", "a, b, and 1 more"]
    assert list_names(["a"] * 2000, 1) == "a, and 1,999 more"


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0, "$0.0000"), (0.00003, "<$0.0001"), (0.00005, "$0.0001"), (0.12345, "$0.1235"), (1234.5, "$1,234.50")],
)
def test_small_cost_is_not_displayed_as_zero(amount: float, shown: str) -> None:
    assert dollars(amount) == shown
