"""Texts in the form in which they are compared without case, spaces and some punctuation."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.core.loose_text import loosen


@pytest.mark.parametrize(
    ("value", "loose"),
    [
        ("San Francisco, CA", "sanfranciscoca"),
        ("2^3 * x_1 - 4/5.", "23x145"),
        ("It's", 'it"s'),
        ("tab\tand:colon;(x)", "tab\tand:colon;(x)"),
        ("", ""),
        (["A b", 1, True, None, ["C."]], ["ab", 1, True, None, ["c"]]),
        ({"A b": "A b", "n": 1.5}, {"A b": "ab", "n": 1.5}),
    ],
)
def test_loosen_changes_texts_and_no_names(value: Any, loose: Any) -> None:
    assert loosen(value) == loose
