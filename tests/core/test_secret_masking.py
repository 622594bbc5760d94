from __future__ import annotations

import base64
import html
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.core.secret_masking import Secrets, one_line
from pytest_jsbench.core.text import LONGEST

KEY = 'Zq7/not+to"be\\told-4411'
SECRETS = Secrets([KEY])


@pytest.mark.parametrize(
    "written",
    [
        KEY,
        json.dumps(KEY)[1:-1],
        json.dumps(json.dumps(KEY)[1:-1])[1:-1],
        "".join(f"\\u{ord(one):04X}" for one in KEY),
        urllib.parse.quote(KEY, safe=""),
        urllib.parse.quote(urllib.parse.quote(KEY, safe=""), safe=""),
        html.escape(KEY),
        "".join(f"&#{ord(one)};" for one in KEY),
    ],
)
def test_secret_is_replaced_in_every_encoding_and_other_text_is_kept(written: str) -> None:
    around = 'a \\u0041 %20 "b\\n" &amp; {} &lt;c'
    assert SECRETS.mask_answer(around.format(written)) == around.format("*" * len(KEY))
    assert SECRETS.mask_message(f"<{written}>") == "<[key]>"


@pytest.mark.parametrize("before", range(4))
def test_a_secret_inside_base64_is_replaced(before: int) -> None:
    data = b"u" * before + KEY.encode() + b":x"
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        left = SECRETS.mask_answer(encode(data).decode())
        assert "*" * 28 in left
        assert len(left.replace("*", "")) <= 10


def test_answer_without_a_secret_is_unchanged() -> None:
    text = '{"a": "\\u00e9 100% \\"x\\" &amp; none EMPTY"}'
    assert Secrets([KEY, "none", "EMPTY", "x", ""]).mask_answer(text) == text


def test_a_short_secret_is_a_word_of_messages_at_most() -> None:
    assert (
        Secrets(["hunter2", "x"]).mask_message("hunter2 was wrong, hunter22 is x") == "[key] was wrong, hunter22 is x"
    )
    assert Secrets([], in_messages=["me:PW@"]).mask_message("http://me:PW@h/") == "http://[key]h/"


def test_a_number_stays_a_number() -> None:
    assert json.loads(Secrets(["12345678"]).mask_answer('{"n": 12345678}')) == {"n": 11111111}


def test_a_secret_that_was_cut_off_with_its_message_is_not_shown_by_half() -> None:
    assert SECRETS.mask_message(f"you sent {KEY[:12]}…") == "you sent [key]…"


def test_names_and_texts_of_json_values_are_freed_of_secrets() -> None:
    assert SECRETS.mask({KEY: [f"a {KEY}", 1, None, (KEY,)]}) == {"[key]": ["a [key]", 1, None, ["[key]"]]}


def test_repr_does_not_show_secrets() -> None:
    assert "Zq7" not in repr(SECRETS)


def test_message_becomes_one_short_line_without_escape_codes() -> None:
    assert (
        one_line(" a\r\n\tb c\u2028d \x1b[31mred\x1b[0m \u202eturned") == "a b c d \\x1b[31mred\\x1b[0m \\u202eturned"
    )
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
def test_text_like_a_key_is_not_shown(quoted: str) -> None:
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


_WRITTEN = (
    KEY,
    json.dumps(KEY)[1:-1],
    "".join(f"\\u{ord(one):04X}" for one in KEY),
    urllib.parse.quote(KEY, safe=""),
    html.escape(KEY),
    base64.b64encode(b"u" + KEY.encode() + b":x").decode(),
    f"{KEY[:12]}…",
    f"{KEY[:6]}...",
    KEY[:5],
    "hunter2",
    "hunter22",
    "me:PW@",
)


@given(st.lists(st.lists(st.sampled_from(_WRITTEN) | st.text('a\\"%&;u ….'), max_size=3).map("".join), max_size=4))
def test_texts_that_may_not_change_are_not_changed(texts: list[str]) -> None:
    secrets = Secrets([KEY, "hunter2"], in_messages=["me:PW@"])
    if not secrets.may_change("\n".join(texts)):
        assert [secrets.mask_message(text) for text in texts] == texts


@pytest.mark.parametrize("written", [*_WRITTEN[:8], "hunter2", "me:PW@"])
def test_a_secret_in_any_line_may_change_the_text(written: str) -> None:
    secrets = Secrets([KEY, "hunter2"], in_messages=["me:PW@"])
    assert secrets.mask_message(written) != written
    assert secrets.may_change(f"a\n{written}\nb")


def test_a_text_without_a_secret_will_not_change() -> None:
    assert not SECRETS.may_change('jsbench.task\nt::c: {"a": "\\u00e9 100% \\"x\\" &amp;"}…')
