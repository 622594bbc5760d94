from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.core.text import LONGEST
from pytest_jsbench.schemas.references import json_path, json_pointer
from tests.core.test_text import is_shown_as_it_is


def test_paths_quote_only_what_is_no_identifier() -> None:
    assert json_path([]) == "$"
    assert json_path(["a", "b_1", 0, "x-y", "", 'q"']) == '$.a.b_1[0]["x-y"][""]["q\\""]'


def test_pointers_escape_slash_and_tilde() -> None:
    assert json_pointer([]) == ""
    assert json_pointer(["properties", "a/b~c", 0]) == "/properties/a~1b~0c/0"


@given(st.lists(st.integers(min_value=0) | st.text(st.characters()), max_size=5))
def test_every_place_is_one_bounded_line_that_encodes(parts: list[str | int]) -> None:
    for text in (json_path(parts), json_pointer(parts)):
        assert len(text) <= LONGEST
        assert is_shown_as_it_is(text)
