"""
Define cases, which are JSON Schemas to be answered, and prompts, the messages that request the answers.

Datasets create cases and the prompts package renders prompts; this module defines the types and the rules for names.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import force_setattr

from pytest_jsbench.core.json_values import digest
from pytest_jsbench.core.messages import Message, check_calls
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.tool_offers import ToolOffer, question_digest

#: A JSON Schema: an object, or `true` or `false`.
Schema = bool | Mapping[str, Any]

#: Characters that a name must not contain; the second set contains letters that render as blank.
_UNSAFE = re.compile(r"[^\w.+=@-]|[\u115f\u1160\u3164\uffa0]")
#: Maximum length of a name in UTF-8 bytes.
_LONGEST_NAME = 120
#: Number of hex digits of a conversation's digest in a key.
_DIGITS = 12
#: Suffix that numbers the second and later questions of a test: `test_invoice@2`.
_NUMBER = re.compile(r"@([1-9]\d{0,8})$")
#: Device names on Windows, with any extension.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)", re.IGNORECASE)


# Metrics look each key up a hundred times, so its hash is kept.
class CaseKey(Struct, frozen=True, kw_only=True, order=True, cache_hash=True, gc=False):
    """
    The key of a case in its dataset; both parts are safe in a node id, a file name, a shell and a log line.

    A part that is not safe raises ValueError, because keys also come from untrusted records, recordings and baselines.
    """

    task: str
    id: str

    def __post_init__(self) -> None:
        """Raise ValueError for an unsafe name; intern the task, because many keys have the same task."""
        force_setattr(self, "task", sys.intern(self.task))
        for name in (self.task, self.id):
            if _UNSAFE.search(name) or len(name) > 2 * _LONGEST_NAME or not name.strip("."):
                raise ValueError(
                    f"'{printable(name, 60)}' is not a valid name; expected letters, digits and any of . _ + = @ -"
                )

    def __str__(self) -> str:
        return f"{self.task}::{self.id}"

    def numbered(self, number: int) -> CaseKey:
        """
        Return the key of the test's question with this number, from 1; call this on the key of the
        first question.
        """
        return self if number == 1 else structs.replace(self, id=f"{self.id}@{number}")

    @property
    def number(self) -> int:
        """Number of the question within its test, counted from 1."""
        number = _NUMBER.search(self.id)
        return int(number[1]) if number else 1

    @property
    def of_first(self) -> CaseKey:
        """Key of the first question of the same test."""
        return structs.replace(self, id=_NUMBER.sub("", self.id))

    def continued(self, prompt_digest: str) -> CaseKey:
        """Return the key of the call that continues this question's conversation; it follows from the messages sent."""
        return structs.replace(self, id=f"{self.of_first.id}+{prompt_digest.removeprefix('sha256:')[:_DIGITS]}")

    @property
    def function(self) -> tuple[str, str]:
        """Module and function of a project's test, without the test's parameters, which follow `-`."""
        return self.task, self.of_first.id.partition("-")[0]

    def is_of_test(self, first: CaseKey) -> bool:
        """
        Return whether this key belongs to the same test as `first`, which is the key of the test's
        first question.
        """
        return self == first or (self.task == first.task and self.id == first.numbered(self.number).id)

    @classmethod
    def parse(cls, text: str) -> CaseKey:
        """Parse `task::id`; raise ValueError if the text has another form."""
        task, separator, case_id = text.partition("::")
        if not (task and separator and case_id):
            raise ValueError(f"not a case: '{printable(text, 60)}'; expected task::id")
        return cls(task=task, id=case_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected answer of a case, and how to compare values with it."""

    #: Any JSON value, including null.
    value: Any
    #: How to compare values that need not be equal: a comparer and its settings, by the JSON pointer of the value's
    #: schema.
    comparers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    A JSON Schema for which an engine generates an answer, with optional data for the request and
    for the comparison.
    """

    key: CaseKey
    schema: Schema
    #: Messages to send verbatim instead of the rendered prompt template; empty if the template applies.
    messages: tuple[Message, ...] = ()
    #: Notes on the correct answer, which are stored in the record and never compared; None if there are no notes.
    reference: object = None
    #: Expected answer, which does not affect the verdict; None if there is no expected answer.
    expected: Expected | None = None
    tags: tuple[str, ...] = ()
    #: Description of the request in words, such as a tool's name and description; empty if the dataset has no
    #: description.
    about: str = ""
    #: Tools that the model may call; the schema is then that of an answer in text, `true` for any text. None if the
    #: case offers no tools.
    offer: ToolOffer | None = None

    @property
    def digest(self) -> str:
        """Digest of what an answer is judged by: the schema, and the tools if the case offers any."""
        return question_digest(self.schema, self.offer)

    @property
    def judging_schemas(self) -> tuple[Schema, ...]:
        """The schemas by which an answer may be judged, without the schema of a text that may be any text."""
        if self.offer is None:
            return (self.schema,)
        return tuple(schema for name, schema in self.named_schemas if name or schema is not True)

    @property
    def named_schemas(self) -> tuple[tuple[str, Schema], ...]:
        """The schemas by which an answer may be judged: that of the case without a name, and those of its tools."""
        tools = () if self.offer is None else self.offer.tools
        return ("", self.schema), *((tool.name, tool.parameters) for tool in tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenCase:
    """
    A dataset row without a valid JSON Schema; the case is excluded and reported, and never counts
    against an engine.
    """

    key: CaseKey
    #: Description of the problem in one line: what was found, and where.
    problem: str
    #: Machine-readable kind of problem.
    reason: str = "not_json"


def safe_name(name: str) -> str:
    """
    Return the name with each character that is unsafe in a node id or a file name replaced by `_`.

    If the name changes, eight hex digits of its hash are appended, so that different names stay different.
    """
    safe = _UNSAFE.sub("_", name).encode()[:_LONGEST_NAME].decode(errors="ignore")
    safe = _DEVICE.sub(r"\1_", safe, count=1) if _DEVICE.match(safe) else safe
    if safe == name and not safe.endswith(".") and safe:
        return name
    return f"{safe.strip('.') or 'case'}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The messages that request an answer to one case."""

    messages: tuple[Message, ...]

    def __post_init__(self) -> None:
        """Raise ValueError if a tool's result does not follow the call of that tool."""
        check_calls(self.messages)

    def to_messages(self) -> list[dict[str, Any]]:
        """Return the messages in the form of OpenAI's chat API."""
        return [message.to_dict() for message in self.messages]

    @property
    def digest(self) -> str:
        """SHA-256 of the messages, as `sha256:<hex>`."""
        return digest(self.to_messages())


#: A function that renders a case as a prompt, or raises PromptError.
PromptTemplate = Callable[[Case], Prompt]


def prompt_of(case: Case, template: PromptTemplate) -> Prompt:
    """Return the case's own messages if it has any; otherwise the messages that the template renders."""
    return Prompt(messages=case.messages) if case.messages else template(case)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A prompt template with its name and digest."""

    #: Name of the template, as the user gave it.
    name: str
    #: Digest of everything that determines the prompt, except for the case; None if unknown.
    digest: str | None
    render: PromptTemplate


#: Number of characters that are split into words at a time, because the words take many times the memory of the text.
_AT_ONCE = 100_000
#: Number of bytes per token, higher than the average in JSON or English, so that estimates tend to be too low.
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLength:
    """The length of a prompt in tokens."""

    #: Number of tokens.
    tokens: int
    #: Whether the engine counted the tokens; otherwise the number is estimated from the text.
    exact: bool


def estimate(prompt: Prompt) -> PromptLength:
    """
    Return a low estimate of the number of tokens: one per four bytes, where a run of white space
    counts as one byte.
    """
    size = sum(_size(text) for message in prompt.messages for text in message.texts)
    return PromptLength(tokens=-(-size // _BYTES_PER_TOKEN), exact=False)


def _size(text: str) -> int:
    """Return the number of bytes, where each run of white space counts as one byte."""
    size = 0
    for start in range(0, len(text), _AT_ONCE):
        part = text[start : start + _AT_ONCE]
        words = part.split()
        size += len(words) - 1 + part[:1].isspace() + part[-1:].isspace() if words else 1
        size += len("".join(words).encode("utf-8", "replace"))
    return size
