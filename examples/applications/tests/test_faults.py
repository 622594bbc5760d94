from __future__ import annotations

from collections.abc import Callable

import pytest
from parcels import Parcel

from pytest_jsbench import JSBench

pytest.importorskip("openai")
from texts import TEXTS
from with_openai import read, read_by_responses, read_streamed


@pytest.mark.jsbench_faults("rate_limit", "server_error", "cut_after", "truncate", "refuse", "empty", "not_json")
@pytest.mark.parametrize("way", [read, read_streamed, read_by_responses])
def test_a_fault_never_becomes_a_parcel(jsbench: JSBench, way: Callable[[str], Parcel | None]) -> None:
    text, expected = next(iter(TEXTS.items()))
    parcel = None

    with jsbench.endpoint.faults.watch() as watched:
        parcel = way(text)

    assert parcel in (None, expected)
    assert watched.coping in ("recovered", "raised") or parcel is None
