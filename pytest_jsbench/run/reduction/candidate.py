"""Define candidates of a reduction: a schema, and for a grammar the labelled answer about which it decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.json_values import digest


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledAnswer:
    """A JSON value about which a grammar decides."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A schema that may fail in the same way as the case, with everything else that is sent."""

    schema: Schema
    #: LabelledAnswer about which a grammar decides; None if an engine generates the answer.
    answer: LabelledAnswer | None = None
    #: Whether the prompt is the default prompt with the schema, in place of the case's own messages.
    is_prompt_default: bool = False

    def with_schema(self, schema: Schema) -> Candidate:
        """Return the candidate with another schema."""
        return replace(self, schema=schema)

    def with_answer(self, value: Any) -> Candidate:
        """Return the candidate with another labelled answer."""
        return replace(self, answer=LabelledAnswer(value=value))

    @property
    def digest(self) -> str:
        """Digest of the candidate, by which its calls are found again."""
        answer = [] if self.answer is None else [self.answer.value]
        return digest([self.schema, answer, self.is_prompt_default])

    @property
    def size(self) -> tuple[int, float]:
        """Length as JSON text, then the sum of all numbers: an edit must decrease this pair, so that edits end."""
        parts = [self.schema] if self.answer is None else [self.schema, self.answer.value]
        length = sum(len(compact_json(part)) for part in parts)
        return length, sum(abs(number) for part in parts for number in _numbers_in(part))

    @property
    def schema_size(self) -> int:
        """Length of the schema in bytes, as JSON without white space."""
        return len(compact_json(self.schema).encode("utf-8", "surrogatepass"))


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
