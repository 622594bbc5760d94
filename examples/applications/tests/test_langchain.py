from __future__ import annotations

import pytest

from pytest_jsbench import JSBench

pytest.importorskip("langchain_openai")
from texts import TEXTS
from with_langchain import read_all


def test_several_parcels_are_read_at_once(jsbench: JSBench) -> None:
    assert read_all(list(TEXTS)) == list(TEXTS.values())
    assert all(answer.verdict.passed for answer in jsbench.endpoint.answers)
