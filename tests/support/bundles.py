"""
Bundle the remote documents of the official suite into the schemas that refer to them.

Nothing is fetched. A schema is judged as the compound document that JSON Schema 2020-12 (section 9.3) describes: each
referenced document is embedded with its own URI.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urldefrag, urljoin

from pytest_jsbench.schemas.dialects import Dialect
from pytest_jsbench.schemas.keywords import children
from tests.support.public_data import DATA

_HOST = "http://localhost:1234/"
_REMOTES = DATA / "JSON-Schema-Test-Suite" / "remotes"
_IGNORES_SIBLINGS = ("Draft4Validator", "Draft6Validator", "Draft7Validator")


def bundle(schema: Any, dialect: Dialect) -> Any:
    """Return the schema with every document of the suite that it refers to, directly or indirectly."""
    embedded: dict[str, dict[str, Any]] = {}
    pending = _outside(schema, dialect, "") if isinstance(schema, dict) else set()
    while pending:
        uri = pending.pop()
        path = _REMOTES / uri.removeprefix(_HOST)
        if uri not in embedded and uri.startswith(_HOST) and path.is_file():
            embedded[uri] = json.loads(path.read_text(encoding="utf-8"))
            pending |= _outside(embedded[uri], dialect, uri)
    if not embedded:
        return schema
    keyword = "definitions" if dialect.validator in _IGNORES_SIBLINGS else "$defs"
    resources = {
        f"bundled {uri}{part}": resource
        for uri, document in embedded.items()
        for part, resource in enumerate(_resources(uri, document, dialect))
    }
    if keyword == "definitions" and "$ref" in schema:
        schema = {"allOf": [schema]}
    return {**schema, keyword: {**schema.get(keyword, {}), **resources}}


def _outside(document: dict[str, Any], dialect: Dialect, base: str) -> set[str]:
    """Return the URIs that the document refers to and does not define itself."""
    defined, referred = {base}, set()
    pending = [(document, base)]
    while pending:
        schema, base = pending.pop()
        lone = "$ref" in schema and dialect.validator in _IGNORES_SIBLINGS
        if isinstance(identifier := schema.get(dialect.id_keyword), str) and not lone:
            base = urldefrag(urljoin(base, identifier)).url
            defined.add(base)
        if isinstance(reference := schema.get("$ref"), str):
            referred.add(urldefrag(urljoin(base, reference)).url)
        if isinstance(metaschema := schema.get("$schema"), str):
            referred.add(urldefrag(metaschema).url)
        pending += [(child, base) for child in children(schema)]
    return referred - defined


def _resources(uri: str, document: dict[str, Any], dialect: Dialect) -> Iterator[dict[str, Any]]:
    """Return the document with its own URI, and a redirection from the requested one if they differ."""
    own = urljoin(uri, document.get(dialect.id_keyword, ""))
    yield {**document, dialect.id_keyword: own}
    if own != uri:
        yield {dialect.id_keyword: uri, "allOf": [{"$ref": own}]}
