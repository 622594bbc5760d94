from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_jsbench.verdicts import Judge


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge
