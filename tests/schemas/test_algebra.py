from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.schemas.algebra import covers
from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_2020_12, Dialect

TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("outer", "inner", "dialect", "answer"),
    [
        (TEXT, {"const": "a"}, DRAFT_2020_12, True),
        (TEXT, {"type": ["string", "null"]}, DRAFT_2020_12, False),
        (TEXT, {**TEXT, "format": "date"}, DRAFT_2020_12, True),
        ({**TEXT, "format": "date"}, {"const": "no date"}, DRAFT_2020_12, False),
        (TEXT, {"const": 1}, DRAFT_4, False),  # once `const` is unknown, all values conform
        ({"maximum": 0}, {"maximum": 0, "exclusiveMaximum": True}, DRAFT_4, True),
        ({"$ref": "https://example.com/other"}, TEXT, DRAFT_2020_12, None),
        ({"type": "strin"}, TEXT, DRAFT_2020_12, None),
    ],
)
def test_answer_of_the_algebra(outer: Any, inner: Any, dialect: Dialect, answer: bool | None) -> None:
    assert covers(outer, inner, dialect) is answer
