"""Prompts: messages, and the templates that make them of a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.core.messages import Message, check_calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The messages that ask for one case's instance."""

    messages: tuple[Message, ...]

    def __post_init__(self) -> None:
        """ValueError where a tool's result does not follow its call."""
        check_calls(self.messages)

    def to_messages(self) -> list[dict[str, Any]]:
        """The messages as OpenAI's chat takes them."""
        return [message.to_dict() for message in self.messages]

    @property
    def calls_tools(self) -> bool:
        """True where the assistant has called tools."""
        return any(message.tool_calls for message in self.messages)

    @property
    def digest(self) -> str:
        """The SHA-256 of the messages, as `sha256:<hex>`."""
        return digest(self.to_messages())


#: a case becomes a prompt; PromptError where it cannot
PromptTemplate = Callable[[Case], Prompt]


def prompt_of(case: Case, template: PromptTemplate) -> Prompt:
    """The case's own messages, word for word, or else those that the template makes of it."""
    return Prompt(messages=case.messages) if case.messages else template(case)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A prompt template, and which one it is."""

    #: as the user named it
    name: str
    #: of all that decides what it asks but the case; None where that cannot be known
    digest: str | None
    render: PromptTemplate


#: characters that are looked at together: a list of the words of a long text takes many times its memory
_AT_ONCE = 100_000
#: more than tokens of JSON or English hold on average, so that an estimate is rather too low than too high
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLength:
    """The tokens of a prompt."""

    #: how many tokens
    tokens: int
    #: whether the engine has counted them, and not this package from the text
    exact: bool


def estimate(prompt: Prompt) -> PromptLength:
    """A low estimate: a token for every four bytes, white space apart, since an indentation is one token."""
    size = sum(_size(text) for message in prompt.messages for text in message.texts)
    return PromptLength(tokens=-(-size // _BYTES_PER_TOKEN), exact=False)


def _size(text: str) -> int:
    """Bytes, with one for all of a run of white space."""
    size = 0
    for start in range(0, len(text), _AT_ONCE):
        part = text[start : start + _AT_ONCE]
        words = part.split()
        size += len(words) - 1 + part[:1].isspace() + part[-1:].isspace() if words else 1
        size += len("".join(words).encode("utf-8", "replace"))
    return size
