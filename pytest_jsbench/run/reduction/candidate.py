"""Define candidates of a reduction: a schema or offered tools, and for a grammar the answer about which it decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from msgspec import structs

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.json_values import digest, to_json
from pytest_jsbench.core.text import format_count
from pytest_jsbench.core.tool_offers import ToolOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledAnswer:
    """A JSON value about which a grammar decides."""

    value: Any


class DocumentKind(Enum):
    """What a JSON document in a candidate is."""

    SCHEMA = auto()
    #: The labelled answer of a grammar, which is data.
    ANSWER = auto()
    #: Schema of a tool's arguments.
    PARAMETERS = auto()


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """The place of a JSON document in a candidate."""

    kind: DocumentKind
    #: Name of the tool; empty unless the document is the schema of its arguments.
    tool: str = ""


SCHEMA, ANSWER = DocumentPlace(DocumentKind.SCHEMA), DocumentPlace(DocumentKind.ANSWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A schema, or tools, that may fail in the same way as the case, with everything else that is sent."""

    schema: Schema
    #: LabelledAnswer about which a grammar decides; None if an engine generates the answer.
    answer: LabelledAnswer | None = None
    #: Whether the prompt is the default prompt with the schema, in place of the case's own messages.
    is_prompt_default: bool = False
    #: Tools that the case offers; None if it offers none.
    offer: ToolOffer | None = None
    #: Name of the tool about which the failure is; None if it is about no offered tool.
    tool: str | None = None
    #: Indexes of the case's own messages that are sent; empty if a prompt template renders the messages.
    messages: tuple[int, ...] = ()

    def with_schema(self, schema: Schema) -> Candidate:
        """Return the candidate with another schema."""
        return replace(self, schema=schema)

    def with_answer(self, value: Any) -> Candidate:
        """Return the candidate with another labelled answer."""
        return replace(self, answer=LabelledAnswer(value=value))

    def with_default_prompt(self) -> Candidate:
        """Return the candidate with the default prompt in place of the case's own messages."""
        return replace(self, is_prompt_default=True, messages=())

    @property
    def schema_places(self) -> tuple[DocumentPlace, ...]:
        """The places of all schemas: that of the case, and those of the tools."""
        tools = () if self.offer is None else self.offer.names
        return (SCHEMA, *(DocumentPlace(DocumentKind.PARAMETERS, name) for name in tools))

    @property
    def places(self) -> tuple[DocumentPlace, ...]:
        """The places of all documents: first the schemas, then the labelled answer."""
        return self.schema_places if self.answer is None else (*self.schema_places, ANSWER)

    def document_at(self, place: DocumentPlace) -> Any:
        """Return the document at this place."""
        match place.kind:
            case DocumentKind.SCHEMA:
                return self.schema
            case DocumentKind.ANSWER:
                assert self.answer is not None
                return self.answer.value
            case DocumentKind.PARAMETERS:
                assert self.offer is not None
                tool = self.offer.find(place.tool)
                assert tool is not None
                return tool.parameters

    def with_document(self, place: DocumentPlace, value: Any) -> Candidate:
        """Return the candidate with another document at this place."""
        match place.kind:
            case DocumentKind.SCHEMA:
                return self.with_schema(value)
            case DocumentKind.ANSWER:
                return self.with_answer(value)
            case DocumentKind.PARAMETERS:
                assert self.offer is not None
                tools = tuple(
                    structs.replace(tool, parameters=value) if tool.name == place.tool else tool
                    for tool in self.offer.tools
                )
                return replace(self, offer=structs.replace(self.offer, tools=tools))

    @property
    def digest(self) -> str:
        """Digest of the candidate, by which its calls are found again."""
        answer = [] if self.answer is None else [self.answer.value]
        offer = [] if self.offer is None else [to_json(self.offer)]
        return digest([self.schema, answer, self.is_prompt_default, offer, list(self.messages)])

    @property
    def size(self) -> tuple[int, float, int]:
        """
        Length as JSON text, the sum of all numbers, and the number of messages: an edit must decrease these, so that
        edits end.
        """
        offer = [] if self.offer is None else [to_json(self.offer)]
        parts = [self.schema, *([] if self.answer is None else [self.answer.value]), *offer]
        length = sum(len(compact_json(part)) for part in parts)
        return length, sum(abs(number) for part in parts for number in _numbers_in(part)), len(self.messages)

    @property
    def schema_size(self) -> int:
        """Length of the schema, and of the tools if any are offered, in bytes, as JSON without white space."""
        parts = [] if self.offer is None else [to_json(self.offer.tools)]
        if self.offer is None or self.schema is not True:
            parts.append(self.schema)
        return sum(len(compact_json(part).encode("utf-8", "surrogatepass")) for part in parts)

    @property
    def size_text(self) -> str:
        """Number of tools, if any are offered, and of bytes, for display."""
        size = format_count(self.schema_size, "byte")
        return size if self.offer is None else f"{format_count(len(self.offer.tools), 'tool')}, {size}"


def compact_json(value: object) -> str:
    """Return the value as JSON text without white space."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _numbers_in(value: Any) -> Iterator[float]:
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list):
            pending += part
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield part
