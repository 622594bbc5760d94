from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.verdicts.paths import LONGEST, json_path, json_pointer, plain


def test_paths_quote_only_what_is_no_identifier() -> None:
    assert json_path([]) == "$"
    assert json_path(["a", "b_1", 0, "x-y", "", 'q"']) == '$.a.b_1[0]["x-y"][""]["q\\""]'


def test_pointers_escape_slash_and_tilde() -> None:
    assert json_pointer([]) == ""
    assert json_pointer(["properties", "a/b~c", 0]) == "/properties/a~1b~0c/0"


def test_colours_and_line_ends_reach_no_terminal() -> None:
    assert plain("\x1b[31mred\x1b[0m\nnext\u202e\ud800") == "\\x1b[31mred\\x1b[0m\\nnext\\u202e\\ud800"


def test_the_middle_of_a_long_message_is_left_out() -> None:
    message = plain("begin" + "x" * 10_000 + " is not of type 'string'")
    assert len(message) == LONGEST
    assert message.startswith("beginx")
    assert message.endswith("xx is not of type 'string'")


@given(st.lists(st.integers(min_value=0) | st.text(st.characters()), max_size=5))
def test_every_place_is_one_bounded_line_that_encodes(parts: list[str | int]) -> None:
    for text in (json_path(parts), json_pointer(parts), plain("".join(map(str, parts)) * 100)):
        assert len(text) <= LONGEST
        assert text.isprintable()
        text.encode("utf-8")
