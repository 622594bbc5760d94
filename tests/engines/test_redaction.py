from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.core.text import LONGEST
from pytest_jsbench.engines.redaction import one_line


def test_a_message_becomes_one_line() -> None:
    assert one_line(" a\r\n\tb c\u2028d ") == "a b c d"


def test_what_could_steer_a_terminal_is_visible() -> None:
    assert one_line("\x1b[31mred\x1b[0m \u202eturned") == "\\x1b[31mred\\x1b[0m \\u202eturned"


def test_a_long_message_is_cut_with_a_mark() -> None:
    assert one_line("x" * 1000) == "x" * (LONGEST - 1) + "…"


@pytest.mark.parametrize(
    "quoted",
    [
        "sk-proj-abcdefghijklmnop",
        "sk-abc***********wxyz",
        "sk-ant-api03-AbC_dEf-123",
        "gsk_abcdefghij",
        "AIzaSyA1234567890abcdef",
        "Bearer abc.def-ghi",
    ],
)
def test_what_looks_like_a_key_is_not_shown(quoted: str) -> None:
    shown = one_line(f"Incorrect API key provided: {quoted}. Find yours at …")
    assert shown == "Incorrect API key provided: [key]. Find yours at …"


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40), st.text())
def test_the_given_secret_is_never_in_the_message(secret: str, around: str) -> None:
    shown = one_line(f"{around} {secret} {around}{secret}", secret=secret)
    assert secret not in shown.replace("[key]", "")


def test_a_secret_at_the_cut_is_not_shown_by_half() -> None:
    shown = one_line("x" * (LONGEST - 6) + "hunter2-hunter2", secret="hunter2-hunter2")
    assert "hunter" not in shown


def test_the_word_sent_in_place_of_a_key_is_not_a_secret() -> None:
    assert one_line("none of these", secret="none") == "none of these"
