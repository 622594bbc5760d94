"""The hooks a user's `conftest.py` or plugin may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.outcomes import Run
    from pytest_jsbench.records.records import Record


@pytest.hookspec(firstresult=True)
def pytest_jsbench_classify(config: pytest.Config, record: Record) -> str | None:
    """Called where tests run (the only process, or xdist's workers, in several threads) with each failed attempt; the
    first answer that is not None is a code for it.
    """


def pytest_jsbench_record(config: pytest.Config, record: Record) -> None:
    """Called where reports land (the only process, or xdist's controller) with each attempt's record as it arrives."""


def pytest_jsbench_summary(config: pytest.Config, run: Run, summary: Summary) -> None:
    """Called once, when the session ends, where reports land, with the whole run and its summary, before the exit
    status is decided.
    """
