"""What is asked: one schema and texts to hold against it, or one pattern and strings to search."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pytest_jsbench.schemas.dialects import DRAFT_2020_12, NAMES, Dialect, dialect_of

_NAMES = {uri: name for name, uri in NAMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaQuestion:
    """Which of these JSON texts conform to the schema?"""

    #: where it comes from, for people
    name: str
    schema: Any
    dialect: Dialect
    texts: tuple[str, ...]
    #: whether formats are asserted
    formats: bool = True
    #: what its publisher says of each text, where there is one
    labels: tuple[bool, ...] | None = None

    @property
    def line(self) -> str:
        """The question as the JavaScript side reads it."""
        schema = self.schema
        if isinstance(schema, dict) and dialect_of(schema, DRAFT_2020_12):
            # with or without `#`, by http or https: ajv knows a dialect in the spelling of its specification alone
            schema = {**schema, **({"$schema": self.dialect.uri} if "$schema" in schema else {})}
        asked = {"dialect": _NAMES[self.dialect.uri], "formats": self.formats, "schema": schema, "texts": self.texts}
        return json.dumps(asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternQuestion:
    """In which of these strings does the pattern find a match?"""

    name: str
    pattern: str
    texts: tuple[str, ...]

    @property
    def line(self) -> str:
        """The question as the JavaScript side reads it."""
        return json.dumps({"pattern": self.pattern, "texts": self.texts})


Question = SchemaQuestion | PatternQuestion
