"""Read custom dialects from metaschemas that are embedded in the schema's document."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_2019_09, DRAFT_2020_12, Dialect, find_dialect
from pytest_jsbench.schemas.keywords import APPLICATORS, BY_KIND, KEYWORDS, REFERENCES, rebuild
from pytest_jsbench.schemas.references import References

_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_APPLICATOR = APPLICATORS | {
    "properties", "patternProperties", "additionalProperties", "propertyNames", "dependentSchemas", "dependencies",
    "items", "prefixItems", "additionalItems", "contains",
}  # fmt: skip
_VALIDATION = frozenset({"type", "enum", "const"}).union(*BY_KIND.values()) - _APPLICATOR - _UNEVALUATED - {"format"}
_FORMAT = frozenset({"format"})
_IN_BOTH = {"core": REFERENCES, "validation": _VALIDATION, "meta-data": frozenset(), "content": frozenset()}
_NAMED: dict[Dialect, dict[str, frozenset[str]]] = {
    DRAFT_2019_09: {**_IN_BOTH, "applicator": _APPLICATOR | _UNEVALUATED, "format": _FORMAT},
    DRAFT_2020_12: {
        **_IN_BOTH,
        "applicator": _APPLICATOR,
        "unevaluated": _UNEVALUATED,
        "format-annotation": _FORMAT,
        "format-assertion": _FORMAT,
    },
}


def _uri(draft: Dialect, name: str) -> str:
    return f"{draft.uri.removesuffix('schema')}vocab/{name}"


_ASSERTS_FORMATS = _uri(DRAFT_2020_12, "format-assertion")
#: Keywords of each published vocabulary that can make an instance invalid.
VOCABULARIES = {_uri(draft, name): keywords for draft, named in _NAMED.items() for name, keywords in named.items()}
#: Draft by the URI of its core vocabulary.
_BY_CORE = {_uri(draft, "core"): draft for draft in _NAMED}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownVocabulary:
    """An unpublished vocabulary that a metaschema requires."""

    metaschema: str
    uri: str


def custom_dialect(schema: dict[str, Any]) -> Dialect | UnknownVocabulary | None:
    """Return the dialect of a schema that contains its metaschema; None without a metaschema or known draft."""
    uri = schema.get("$schema")
    metaschema = _metaschema(schema, uri)
    if not isinstance(uri, str) or metaschema is None:
        return None
    base = _draft(schema, metaschema)
    named = metaschema.get("$vocabulary")
    if base is None:
        return None
    if not isinstance(named, dict):
        # without `$vocabulary` a metaschema has the keywords of its draft
        return replace(base, uri=uri)
    for vocabulary, required in named.items():
        if required is True and vocabulary not in VOCABULARIES:
            return UnknownVocabulary(metaschema=uri, uri=vocabulary)
    keywords = REFERENCES.union(*(VOCABULARIES.get(vocabulary, ()) for vocabulary in named))
    asserts_formats: bool | None = None
    if _ASSERTS_FORMATS in named:
        asserts_formats = True
    elif "format" not in keywords:
        asserts_formats = False
    return replace(base, uri=uri, keywords=base.keywords & keywords, asserts_formats=asserts_formats)


def _metaschema(schema: dict[str, Any], uri: object) -> dict[str, Any] | None:
    """Return the metaschema with this URI in the schema's document; None if the document does not contain it."""
    for draft in (DRAFT_2020_12, DRAFT_4):
        resource = References(schema, draft).resolve(schema, uri)
        # `$schema` must be an absolute URI, and not a relative reference such as `#` or `schema.json`
        if isinstance(resource, dict) and isinstance(uri, str) and ":" in uri:
            return resource
    return None


def _draft(schema: dict[str, Any], metaschema: dict[str, Any]) -> Dialect | None:
    """Return the published draft that a metaschema extends, as its core vocabulary or its `$schema` shows."""
    seen: list[int] = []
    current: dict[str, Any] | None = metaschema
    while current is not None and id(current) not in seen:
        seen.append(id(current))
        vocabularies = current.get("$vocabulary")
        for uri in vocabularies if isinstance(vocabularies, dict) else ():
            if uri in _BY_CORE:
                return _BY_CORE[uri]
        if "$schema" not in current:
            return DRAFT_2020_12
        published = find_dialect(current["$schema"])
        if published is not None:
            return published
        current = _metaschema(schema, current["$schema"])
    return None


def remove_foreign_keywords(schema: Any, dialect: Dialect) -> Any:
    """Return the schema without keywords that its dialect lacks, for validators that support only published drafts."""
    silent = KEYWORDS - dialect.keywords
    return rebuild(schema, lambda part: {name: value for name, value in part.items() if name not in silent})
