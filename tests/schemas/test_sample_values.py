from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.schemas.sample_values import sample_values


@pytest.mark.parametrize(
    ("schema", "lengths"),
    [
        ({"type": "string", "minLength": 45.0}, {44, 45, 46}),
        ({"type": "string", "maxLength": 45.0}, {44, 45, 46}),
        ({"type": "array", "minItems": 15.0}, {14, 15, 16}),
        ({"type": "array", "maxItems": 90.0}, {90, 91}),
    ],
)
def test_values_near_a_bound_that_is_written_as_a_fraction(schema: Any, lengths: set[int]) -> None:
    kind = str if schema["type"] == "string" else list

    assert lengths <= {len(value) for value in sample_values(schema, most=600) if isinstance(value, kind)}
