from __future__ import annotations

import jsonschema
import jsonschema_rs
import pytest

from pytest_jsbench.schemas.dialects import DIALECTS, DRAFT_4, DRAFT_7, DRAFT_2020_12, dialect_of, find_dialect


@pytest.mark.parametrize(
    "uri",
    [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-04/schema",
        "https://json-schema.org/draft-04/schema#",
    ],
)
def test_a_dialect_is_known_by_any_common_spelling(uri: str) -> None:
    assert find_dialect(uri) is DRAFT_4


@pytest.mark.parametrize("uri", ["http://json-schema.org/draft-03/schema#", "draft-07", "", 5, None, ["x"]])
def test_other_dialects_are_unknown(uri: object) -> None:
    assert find_dialect(uri) is None


def test_default_dialect_applies_only_without_a_declared_one() -> None:
    assert dialect_of({}, DRAFT_7) is DRAFT_7
    assert dialect_of(True, DRAFT_7) is DRAFT_7
    assert dialect_of({"$schema": "http://json-schema.org/schema#"}, DRAFT_7) is DRAFT_2020_12
    assert dialect_of({"$schema": "https://example.com/mine"}, DRAFT_7) is None


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.validator)
def test_both_libraries_read_the_dialect_by_that_validator(dialect) -> None:  # type: ignore[no-untyped-def]
    schema = {"$schema": dialect.uri, "type": "string"}
    rust = getattr(jsonschema_rs, dialect.validator)(schema, offline=True)
    python = getattr(jsonschema, dialect.validator)
    assert rust.is_valid("x")
    assert not rust.is_valid(1)
    assert python.META_SCHEMA["$schema"] == dialect.uri


@pytest.mark.parametrize(
    "version", ["3.1/dialect/base", "3.1/dialect/2024-11-10", "3.2/dialect/2025-09-17", "3.1/dialect/base#"]
)
def test_dialects_of_openapi_are_2020_12(version: str) -> None:
    assert find_dialect(f"https://spec.openapis.org/oas/{version}") is DRAFT_2020_12
    assert find_dialect(f"https://spec.openapis.org/oas/{version}x") is None
