from __future__ import annotations

import asyncio

import pytest

from pytest_jsbench import JSBench

pytest.importorskip("pydantic_ai")
from texts import TEXTS
from with_pydantic_ai import read, read_streamed


def test_a_parcel_is_read(jsbench: JSBench) -> None:
    text, expected = next(iter(TEXTS.items()))

    assert read(text) == expected
    (answer,) = jsbench.endpoint.answers
    assert answer.verdict.passed


def test_a_parcel_is_read_as_it_comes(jsbench: JSBench) -> None:
    text, expected = next(iter(TEXTS.items()))

    assert asyncio.run(read_streamed(text)) == expected
    (answer,) = jsbench.endpoint.answers
    assert answer.timing is not None
    assert answer.timing.ttft is not None
