"""The dialects of JSON Schema that can be judged by."""

from __future__ import annotations

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
# `dependencies` was split in 2019-09 and is in all: its metaschemas still describe it, and jsonschema-rs asserts it
_IN_4 = KEYWORDS - _NEW_IN_6 - _NEW_IN_7 - _NEW_IN_2019_09 - _NEW_IN_2020_12
_IN_6 = _IN_4 | _NEW_IN_6
_IN_7 = _IN_6 | _NEW_IN_7
_IN_2019_09 = _IN_7 | _NEW_IN_2019_09
_IN_2020_12 = (_IN_2019_09 - {"additionalItems", "$recursiveRef"}) | _NEW_IN_2020_12


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A published draft of JSON Schema, or what a metaschema of one's own makes of it."""

    #: its `$schema`, as its specification writes it
    uri: str
    #: the name that both jsonschema-rs and jsonschema give their validator class for it
    validator: str
    #: the keyword that names a schema's own URI
    id_keyword: str = "$id"
    #: those of its keywords that can make an instance invalid; any other says nothing in it
    keywords: frozenset[str]
    #: whether what stands beside `$ref` is not read
    lone_references: bool = False
    #: whether `format` is asserted; None: as the policy says, since the published drafts leave it open
    asserts_formats: bool | None = None

    def read(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Read what the schema itself says in this dialect: its keywords that can make an instance invalid."""
        if self.lone_references and "$ref" in schema:
            return {"$ref": schema["$ref"]}
        return {keyword: value for keyword, value in schema.items() if keyword in self.keywords}


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
#: what a person types to its `$schema`
NAMES = dict(
    zip(("draft-04", "draft-06", "draft-07", "2019-09", "2020-12"), (dialect.uri for dialect in DIALECTS), strict=True)
)


def _key(uri: str) -> str:
    return uri.removesuffix("#").removeprefix("https://").removeprefix("http://")


_BY_KEY = {
    **{_key(dialect.uri): dialect for dialect in DIALECTS},
    # "the newest", as many schemas in the wild write it
    _key("http://json-schema.org/schema#"): DRAFT_2020_12,
}


def find_dialect(uri: object) -> Dialect | None:
    """The dialect of that `$schema`, with or without `#`, by http or https; None for an unknown one."""
    return _BY_KEY.get(_key(uri)) if isinstance(uri, str) else None


def dialect_of(schema: bool | dict[str, Any], default: Dialect) -> Dialect | None:
    """The dialect that the schema declares, the default where it declares none; None for an unknown one."""
    if isinstance(schema, bool) or "$schema" not in schema:
        return default
    return find_dialect(schema["$schema"])
