from __future__ import annotations

import jsonschema_specifications  # type: ignore[import-untyped]
import pytest

from pytest_jsbench.schemas.dialects import DIALECTS
from pytest_jsbench.schemas.keywords import ANNOTATIONS, BY_KIND, KEYWORDS, used_keywords


def published() -> set[str]:
    """The keywords that the metaschemas of all dialects, and their vocabularies, name."""
    found: set[str] = set()
    for uri in jsonschema_specifications.REGISTRY:
        schema = jsonschema_specifications.REGISTRY.contents(uri)
        if uri in {dialect.uri.rstrip("#") for dialect in DIALECTS} | {dialect.uri for dialect in DIALECTS}:
            found |= schema["properties"].keys()
        elif "/meta/" in uri:
            found |= schema.get("properties", {}).keys()
    return found


def test_each_published_keyword_can_be_broken_or_cannot() -> None:
    assert published() == KEYWORDS | ANNOTATIONS
    assert not KEYWORDS & ANNOTATIONS


def test_a_keyword_speaks_of_one_type_of_instance() -> None:
    assert sum(map(len, BY_KIND.values())) == len(frozenset().union(*BY_KIND.values()))


@pytest.mark.parametrize(
    ("schema", "used"),
    [
        (None, set()),
        (True, set()),
        ({"title": "a", "type": "object"}, {"type"}),
        ({"properties": {"pattern": {"minLength": 1}}, "examples": [{"enum": [1]}]}, {"properties", "minLength"}),
        ({"$defs": {"a": {"anyOf": [{"const": 1}, {"not": True}]}}}, {"anyOf", "const", "not"}),
    ],
)
def test_the_keywords_of_a_schema_are_those_of_its_schemas(schema: object, used: set[str]) -> None:
    assert used_keywords(schema) == used  # type: ignore[arg-type]
