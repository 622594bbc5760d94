"""Questions for validators: one schema with texts to validate, or one pattern with strings to search."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pytest_jsbench.schemas.dialects import DRAFT_2020_12, NAMES, Dialect, dialect_of

_NAMES = {uri: name for name, uri in NAMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaQuestion:
    """Which of these JSON texts conform to the schema?"""

    #:  Source of the schema, for display.
    name: str
    schema: Any
    dialect: Dialect
    texts: tuple[str, ...]
    #:  Whether formats are asserted.
    formats: bool = True
    #:  Publisher's verdict for each text; None if not published.
    labels: tuple[bool, ...] | None = None

    @property
    def line(self) -> str:
        """The question in the format of `validators.mjs`."""
        schema = self.schema
        if isinstance(schema, dict) and dialect_of(schema, DRAFT_2020_12):
            #  normalise `#` and http or https, because ajv only knows the dialect's official URI
            schema = {**schema, **({"$schema": self.dialect.uri} if "$schema" in schema else {})}
        question = {"dialect": _NAMES[self.dialect.uri], "formats": self.formats, "schema": schema, "texts": self.texts}
        return json.dumps(question)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternQuestion:
    """In which of these strings does the pattern find a match?"""

    name: str
    pattern: str
    texts: tuple[str, ...]

    @property
    def line(self) -> str:
        """The question in the format of `validators.mjs`."""
        return json.dumps({"pattern": self.pattern, "texts": self.texts})


Question = SchemaQuestion | PatternQuestion
