from __future__ import annotations

from collections.abc import Callable

import pytest
from parcels import Parcel

from pytest_jsbench import JSBench

pytest.importorskip("openai")
from texts import TEXTS
from with_openai import read, read_by_responses, read_streamed


@pytest.mark.parametrize("way", [read, read_streamed, read_by_responses])
def test_a_parcel_is_read(jsbench: JSBench, way: Callable[[str], Parcel | None]) -> None:
    text, expected = next(iter(TEXTS.items()))

    assert way(text) == expected
    (answer,) = jsbench.endpoint.answers
    assert answer.verdict.passed
    assert answer.parsed
