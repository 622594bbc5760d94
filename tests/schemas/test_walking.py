from __future__ import annotations

import pytest

from pytest_jsbench.schemas.walking import last_keyword


@pytest.mark.parametrize(
    ("path", "keyword"),
    [
        (["type"], "type"),
        (["properties", "a", "$ref", "anyOf"], "anyOf"),
        (["properties", "type", "minLength"], "minLength"),
        (["properties", "properties", "properties", "required", "const"], "const"),
        (["allOf", 1, "$ref", "minProperties"], "minProperties"),
        (["dependencies", "a", "required"], "required"),
        (["dependencies"], "dependencies"),
        (["propertyNames", "maxLength"], "propertyNames"),
        (["properties", "items"], "properties"),
        (["additionalProperties", "$ref"], "additionalProperties"),
        (["patternProperties", "^a"], "patternProperties"),
        (["prefixItems", 0], "prefixItems"),
        ([], "false"),
    ],
)
def test_the_last_keyword_that_says_something_failed(path: list[str | int], keyword: str) -> None:
    assert last_keyword(path) == keyword
