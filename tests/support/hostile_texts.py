"""Texts that could do harm if they are shown unchanged, and a check of what is shown."""

from __future__ import annotations

import unicodedata

from pytest_jsbench.verdicts import FailureType, Verdict

#: Texts that a model, a schema or a file may contain.
HOSTILE_TEXTS = {
    "markup": "</script><script>alert(1)</script><img src=x onerror=alert(1)>`|*[a](javascript:alert(1))",
    "escape codes": "\x1b[31m\x1b]0;title\x07\x9b2J\r\x00\x08",
    "bidi": "\u202egpj.exe\u2066\u200f\u2028",
    "commands": "\n::error::x\n##[stop-commands]x ##vso[task.complete]x",
    "commands at once": "::stop-commands::x",
    "commands at a line's end": " ".join(f"{'w' * length} ::error::{length}" for length in range(60)),
    "zero width": "a\u200b\u200d\u2060\ufeff\u061c\xad\u180e\ufe0f\u3164\u115f",
    "tags": "a\U000e0001\U000e0041\U000e0020\U000e0100",
    "private": "\ue000\uf8ff\U0010fffd\uffff\ufdd0",
    "half characters": "\ud800 \udfff",
    "path": "../../../../x/../..",
    "device": "NUL",
    "huge": "x" * 130_000,
}
#: Unicode categories that no output may contain, except for its own line breaks.
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
HOSTILE = "`</td><script>alert(1)</script> | **x** ``` \x1b[31m\u202e\n::error::x %0A [a](javascript:1)"
HOSTILE_VERDICT = Verdict(failure_type=FailureType.SCHEMA_VIOLATION, valid=False, message=HOSTILE)


def is_shown_as_it_is(text: str, kept: str = "") -> bool:
    """Return whether the text can be encoded, and has no invisible characters and no commands."""
    text.encode()
    lines = [line.lstrip() for line in text.split("\n")]
    return (
        not {one for one in set(text) - set(kept) if unicodedata.category(one) in HIDDEN}
        and "##[" not in text
        and not any(line.startswith("::") for line in lines)
    )
