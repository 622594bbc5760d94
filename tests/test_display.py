from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.display import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode ✓", "plain ünïcode ✓"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("\u2028\x9b", "\\u2028\\x9b"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_nothing_invisible_reaches_the_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_long_text_is_cut_visibly() -> None:
    assert printable("x" * 11, 10) == "x" * 10 + "…"
    assert printable("x" * 10, 10) == "x" * 10


@given(st.text(st.characters()))
def test_what_is_shown_is_one_printable_line_that_can_be_encoded(text: str) -> None:
    shown = printable(text)

    shown.encode()
    assert len(shown.splitlines()) <= 1
    assert "\x1b" not in shown
