"""The breakdown by keyword: which of them answers fail, and how answers fare whose schema uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_jsbench.schemas.walking import children

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema

#: the keywords that can make an instance invalid, in all dialects; annotations and definitions are none
KEYWORDS = frozenset(
    {
        "$dynamicRef", "$recursiveRef", "$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "const",
        "contains", "dependencies", "dependentRequired", "dependentSchemas", "else", "enum", "exclusiveMaximum",
        "exclusiveMinimum", "format", "if", "items", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum",
        "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern",
        "patternProperties", "prefixItems", "properties", "propertyNames", "required", "then", "type",
        "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
    }
)  # fmt: skip


def used_keywords(schema: Schema | None) -> frozenset[str]:
    """The keywords in a schema or below it that can make an instance invalid."""
    found: set[str] = set()
    pending: list[Mapping[str, Any]] = [schema] if isinstance(schema, Mapping) else []
    while pending:
        subschema = pending.pop()
        found.update(KEYWORDS.intersection(subschema))
        pending += children(subschema)
    return frozenset(found)
