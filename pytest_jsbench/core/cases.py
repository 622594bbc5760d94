"""Cases, the JSON Schemas to be answered; and prompts, the messages that ask for them."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_jsbench.core.json_values import digest
from pytest_jsbench.core.messages import Message, check_calls
from pytest_jsbench.core.text import printable

#: a JSON Schema: an object, or `true`/`false`
Schema = bool | Mapping[str, Any]

#: what no name of a case holds; four letters have no shape
_UNSAFE = re.compile(r"[^\w.+=@-]|[\u115f\u1160\u3164\uffa0]")
#: bytes of a name in UTF-8 that are kept as they are
_LONGEST_NAME = 120
#: after the name of a test: which of its questions
_NUMBER = re.compile(r"@([1-9]\d{0,8})$")
#: what stands for a device on Windows, whatever follows the dot
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CaseKey:
    """
    Where a case stands in its dataset; both parts are safe in a node id, a file name, a shell and a line of a log.

    ValueError where one is not: keys come from records, recordings and baselines of strangers too.
    """

    task: str
    id: str

    def __post_init__(self) -> None:
        """Refuse what `safe_name` would not have written; a task is held once, however many cases have it."""
        object.__setattr__(self, "task", sys.intern(self.task))
        for name in (self.task, self.id):
            if _UNSAFE.search(name) or len(name) > 2 * _LONGEST_NAME or not name.strip("."):
                raise ValueError(f"'{printable(name, 60)}' is no name: expected letters, digits and any of . _ + = @ -")

    def __str__(self) -> str:
        return f"{self.task}::{self.id}"

    def numbered(self, number: int) -> CaseKey:
        """The case of a test's n-th question, from 1, where this is the case of its first."""
        return self if number == 1 else replace(self, id=f"{self.id}@{number}")

    @property
    def number(self) -> int:
        """The number of the question among its test's, from 1."""
        number = _NUMBER.search(self.id)
        return int(number[1]) if number else 1

    @property
    def of_first(self) -> CaseKey:
        """The case of its test's first question."""
        return replace(self, id=_NUMBER.sub("", self.id))

    @property
    def function(self) -> tuple[str, str]:
        """The function of a project's test, with its module; each set of its parameters, after a `-`, is a case."""
        return self.task, self.of_first.id.partition("-")[0]

    def is_of_test(self, first: CaseKey) -> bool:
        """True where it is a question of the test that asked the question `first` first."""
        return self == first or (self.task == first.task and self.id == first.numbered(self.number).id)

    @classmethod
    def parse(cls, text: str) -> CaseKey:
        """Read `task::id`; ValueError when it is not that."""
        task, separator, case_id = text.partition("::")
        if not (task and separator and case_id):
            raise ValueError(f"not a case: '{printable(text, 60)}'; expected task::id")
        return cls(task=task, id=case_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The instance that is the right answer to a case."""

    #: any JSON value, also null
    value: Any
    #: how values are compared where they need not be equal: by the JSON pointer of the schema that says so
    comparers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A JSON Schema to be answered."""

    key: CaseKey
    schema: Schema
    #: what to ask, word for word, instead of the prompt template; empty: the template asks
    messages: tuple[Message, ...] = ()
    #: words on the right answer, for whoever reads the record; nothing is compared with them. None where there are none
    reference: object = None
    #: what the answer's values are compared with; it has no part in the verdict. None where nothing is expected
    expected: Expected | None = None
    tags: tuple[str, ...] = ()
    #: what is asked for in words, where the dataset has more to say than the schema: the tool, and its description
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenCase:
    """A row that holds no JSON Schema; it is excluded and reported, never held against an engine."""

    key: CaseKey
    #: one line: what was found and where
    problem: str
    #: the kind of problem, in a word for programs
    reason: str = "not_json"


def safe_name(name: str) -> str:
    """
    The name with all that a node id or a file name cannot hold replaced by `_`.

    A name that had to change ends in eight hex digits of its own hash, so that two of them stay two.
    """
    safe = _UNSAFE.sub("_", name).encode()[:_LONGEST_NAME].decode(errors="ignore")
    safe = _DEVICE.sub(r"\1_", safe, count=1) if _DEVICE.match(safe) else safe
    if safe == name and not safe.endswith(".") and safe:
        return name
    return f"{safe.strip('.') or 'case'}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


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
