"""What is asked: messages, and what makes them of a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_jsbench.cases import Case, Message, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The messages that ask for one case's instance."""

    messages: tuple[Message, ...]

    def to_messages(self) -> list[dict[str, str]]:
        """The messages as the chat APIs take them."""
        return [{"role": m.role, "content": m.content} for m in self.messages]

    @property
    def digest(self) -> str:
        """The SHA-256 of the messages, as `sha256:<hex>`."""
        return digest(self.to_messages())


#: a case becomes a prompt; PromptError where it cannot
PromptTemplate = Callable[[Case], Prompt]


def prompt_of(case: Case, template: PromptTemplate) -> Prompt:
    """What the case itself says is to be asked, word for word, or else what the template makes of it."""
    return Prompt(messages=case.messages) if case.messages else template(case)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A prompt template, and which one it is."""

    #: as the user named it
    name: str
    #: of all that decides what it asks but the case; None where that cannot be known
    digest: str | None
    render: PromptTemplate
