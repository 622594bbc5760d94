from __future__ import annotations

import pytest

from pytest_jsbench import JSBench

pytest.importorskip("litellm")
from texts import TEXTS
from with_litellm import read


def test_a_parcel_is_read(jsbench: JSBench) -> None:
    text, expected = next(iter(TEXTS.items()))

    assert read(text) == expected
    (answer,) = jsbench.endpoint.answers
    assert answer.verdict.passed
