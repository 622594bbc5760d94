from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_jsbench.verdicts import Judge, JudgePolicy


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


@pytest.fixture(scope="session")
def rs_judge() -> Iterator[Judge]:
    with Judge(JudgePolicy(validator="jsonschema-rs")) as judge:
        yield judge


@pytest.fixture(scope="session")
def jsonschema_judge() -> Iterator[Judge]:
    with Judge(JudgePolicy(validator="jsonschema")) as judge:
        yield judge
