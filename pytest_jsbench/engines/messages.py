"""A stranger's words made fit for a report: one line, bounded, with no control character and no secret."""

from __future__ import annotations

import re

from pytest_jsbench.engines.requirements import NO_KEY

LONGEST = 300
_REDACTED = "[key]"

#: what looks like a provider's key, whole or half masked as providers quote it (`sk-abc***xyz`)
_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|nvapi|r8|pplx)[-_][\w*•.…-]{5,}[\w*•…-]|\bAIza[\w*-]{10,}|(?i:\bbearer\s+)[\w.~+/=*-]{5,}[\w~+/=*-]"
)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
_SPACE = re.compile(r"\s+")


def one_line(text: str, *, secret: str | None = None) -> str:
    """The text on one line of at most 300 characters; the secret, and whatever looks like one, replaced."""
    if secret and secret != NO_KEY:
        text = text.replace(secret, _REDACTED)
    text = _UNPRINTABLE.sub(" ", text[: 100 * LONGEST])
    text = _SPACE.sub(" ", _KEY_LIKE.sub(_REDACTED, text)).strip()
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
