"""How long a prompt is, before it is sent."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_jsbench.prompts.model import Prompt

_SPACES = re.compile(r"\s{2,}")
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
    size = sum(_size(message.content) for message in prompt.messages)
    return PromptLength(tokens=-(-size // _BYTES_PER_TOKEN), exact=False)


def _size(text: str) -> int:
    """Bytes, with one for all of a run of white space; the text is not copied piece by piece, for it may be long."""
    return _bytes(text) - sum(_bytes(spaces.group()) - 1 for spaces in _SPACES.finditer(text))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
