"""How long a prompt is, before it is sent."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_jsbench.prompts.model import Prompt

_SPACE = re.compile(r"\s+")
#: more than tokens of JSON or English hold on average, so that an estimate is rather too low than too high
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLength:
    """The tokens of a prompt."""

    tokens: int
    #: whether the engine has counted them, and not this package from the text
    exact: bool


def estimate(prompt: Prompt) -> PromptLength:
    """A low estimate: a token for every four bytes, white space apart, since an indentation is one token."""
    size = sum(len(_SPACE.sub(" ", message.content).encode("utf-8", "replace")) for message in prompt.messages)
    return PromptLength(tokens=-(-size // _BYTES_PER_TOKEN), exact=False)
