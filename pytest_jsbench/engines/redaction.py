"""A stranger's words made fit for a report: one printable line, with no secret."""

from __future__ import annotations

import re

from pytest_jsbench.core.secrets import REDACTED, Secrets
from pytest_jsbench.core.text import LONGEST, sentence
from pytest_jsbench.engines.requirements import NO_KEY

#: what looks like a provider's key, whole or half masked as providers quote it (`sk-abc***xyz`)
_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|nvapi|r8|pplx)[-_][\w*•.…-]{5,}[\w*•…-]|\bAIza[\w*-]{10,}|(?i:\bbearer\s+)[\w.~+/=*-]{5,}[\w~+/=*-]"
)


def one_line(text: str, *, secret: str | None = None) -> str:
    """The text on one line of at most 300 characters; the secret, and whatever looks like one, replaced."""
    if secret and secret != NO_KEY:
        text = Secrets([secret]).out_of_message(text)
    return sentence(_KEY_LIKE.sub(REDACTED, text[: 100 * LONGEST]))
