"""Tell the words of JSON Schema from a user's own names and texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_jsbench.adaptation.document import FORMATS, KINDS
from pytest_jsbench.schemas.dialects import DIALECTS, find_dialect
from pytest_jsbench.schemas.keywords import ANNOTATIONS, KEYWORDS

#: Keywords of OpenAPI and older drafts that schemas often have.
OTHER_KEYWORDS = frozenset(
    {"nullable", "example", "discriminator", "externalDocs", "xml", "$recursiveRef", "propertyName"}
)
#: Words that belong to JSON Schema and show nothing of a user's schema.
VOCABULARY = KEYWORDS | ANNOTATIONS | OTHER_KEYWORDS | FORMATS | frozenset(KINDS) | {each.uri for each in DIALECTS}


def own_texts(value: Any) -> frozenset[str]:
    """Return all names and texts in a schema or an answer that are not words of JSON Schema."""
    return frozenset(text for text in _texts_in(value) if text not in VOCABULARY and find_dialect(text) is None)


def _texts_in(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            yield from part
            pending += part.values()
        elif isinstance(part, list):
            pending += part
