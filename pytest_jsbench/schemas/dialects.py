"""Define the dialects of JSON Schema that the judge supports."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pytest_jsbench.schemas.keywords import KEYWORDS

_NEW_IN_6 = frozenset({"const", "contains", "propertyNames"})
_NEW_IN_7 = frozenset({"if", "then", "else"})
_NEW_IN_2019_09 = frozenset(
    {"dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "minContains", "maxContains",
     "$recursiveRef"}
)  # fmt: skip
_NEW_IN_2020_12 = frozenset({"prefixItems", "$dynamicRef"})
# 2019-09 replaced `dependencies`, but all drafts have the keyword here, since jsonschema-rs still asserts it
_IN_4 = KEYWORDS - _NEW_IN_6 - _NEW_IN_7 - _NEW_IN_2019_09 - _NEW_IN_2020_12
_IN_6 = _IN_4 | _NEW_IN_6
_IN_7 = _IN_6 | _NEW_IN_7
_IN_2019_09 = _IN_7 | _NEW_IN_2019_09
_IN_2020_12 = (_IN_2019_09 - {"additionalItems", "$recursiveRef"}) | _NEW_IN_2020_12


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A published draft of JSON Schema, or a dialect that an embedded metaschema defines."""

    #: `$schema` URI of the dialect, as in its specification.
    uri: str
    #: Name of the dialect's validator class in both jsonschema-rs and jsonschema.
    validator: str
    #: Keyword that declares the URI of a schema.
    id_keyword: str = "$id"
    #: Keywords of the dialect that can make an instance invalid; other keywords have no effect.
    keywords: frozenset[str]
    #: True if keywords next to `$ref` are ignored.
    lone_references: bool = False
    #: True if `format` is asserted, False if not; None if the judge's policy decides, as for the published drafts.
    asserts_formats: bool | None = None

    def read(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the keywords of a schema that have an effect in this dialect and can make an instance invalid."""
        return {keyword: schema[keyword] for keyword in self.effective(schema)}

    def effective(self, schema: dict[str, Any]) -> list[str]:
        """Return the names of these keywords, without their values."""
        if self.lone_references and "$ref" in schema:
            return ["$ref"]
        return [keyword for keyword in schema if keyword in self.keywords]


DRAFT_4 = Dialect(
    uri="http://json-schema.org/draft-04/schema#",
    validator="Draft4Validator",
    id_keyword="id",
    keywords=_IN_4,
    lone_references=True,
)
DRAFT_6 = Dialect(
    uri="http://json-schema.org/draft-06/schema#", validator="Draft6Validator", keywords=_IN_6, lone_references=True
)
DRAFT_7 = Dialect(
    uri="http://json-schema.org/draft-07/schema#", validator="Draft7Validator", keywords=_IN_7, lone_references=True
)
DRAFT_2019_09 = Dialect(
    uri="https://json-schema.org/draft/2019-09/schema", validator="Draft201909Validator", keywords=_IN_2019_09
)
DRAFT_2020_12 = Dialect(
    uri="https://json-schema.org/draft/2020-12/schema", validator="Draft202012Validator", keywords=_IN_2020_12
)

DIALECTS = (DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019_09, DRAFT_2020_12)
#: `$schema` URI of each dialect by its name on the command line.
NAMES = dict(
    zip(("draft-04", "draft-06", "draft-07", "2019-09", "2020-12"), (dialect.uri for dialect in DIALECTS), strict=True)
)


#: URIs of OpenAPI's dialects, which are 2020-12 with more annotations; each ends with `base` or a date.
_OPENAPI = re.compile(r"spec\.openapis\.org/oas/3\.\d+/dialect/(?:base|\d{4}-\d{2}-\d{2})")


def _key(uri: str) -> str:
    return uri.removesuffix("#").removeprefix("https://").removeprefix("http://")


_BY_KEY = {
    **{_key(dialect.uri): dialect for dialect in DIALECTS},
    # many schemas use this URI for the newest draft
    _key("http://json-schema.org/schema#"): DRAFT_2020_12,
}


def find_dialect(uri: object) -> Dialect | None:
    """Return the dialect with this `$schema` URI (http or https, with or without `#`); None if it is unknown."""
    if not isinstance(uri, str):
        return None
    key = _key(uri)
    return DRAFT_2020_12 if _OPENAPI.fullmatch(key) else _BY_KEY.get(key)


def dialect_of(schema: bool | dict[str, Any], default: Dialect) -> Dialect | None:
    """Return the dialect that the schema declares, or the default if it declares none; None for an unknown dialect."""
    if isinstance(schema, bool) or "$schema" not in schema:
        return default
    return find_dialect(schema["$schema"])
