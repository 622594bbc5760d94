from __future__ import annotations

import pytest
import regress

from pytest_jsbench.schemas.pattern_texts import PatternNotSupported, text_matching


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", ""),
        ("^[A-Z]{2}-[0-9]{4}$", "AA-0000"),
        (r"^\d{3,}\.\w+?\s*$", "000.a"),
        ("^(?:red|green)(x|y){2,3}$", "redxx"),
        ("^(?<year>[0-9]{4})$", "0000"),
        ("^[^a-z0]+$", "A"),
        (r"^[\]\-x]$", "]"),
        (r"^a{2}b*c?.$", "aaa"),
        (r"^\u00e9\x41\n\/$", "éA\n/"),
        (r"\bword\b", "word"),
        ("a{,3}", "a{,3}"),
    ],
)
def test_text_matches_its_pattern(pattern: str, text: str) -> None:
    assert text_matching(pattern) == text
    assert regress.Regex(pattern).find(text) is not None


@pytest.mark.parametrize(
    "pattern", ["(?=a)b", "(?<!a)b", r"(a)\1", r"\p{L}", "[]", "(a", "a)", "[a", "*", "a{9999}", r"\ud800", "a" * 2000]
)
def test_unsupported_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternNotSupported):
        text_matching(pattern)


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        *((f"a({start}b)", "look-around is not supported") for start in ("?=", "?!", "?<=", "?<!")),
        ("(?i:a)", r"a group that begins with \(\?i is not supported"),
        ("(?P<a>b)", r"a group that begins with \(\?P is not supported"),
    ],
)
def test_unsupported_group_is_named(pattern: str, what: str) -> None:
    with pytest.raises(PatternNotSupported, match=f"^{what}$"):
        text_matching(pattern)
