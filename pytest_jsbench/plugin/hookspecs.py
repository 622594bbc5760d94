"""Declare the hooks that a `conftest.py` or plugin may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.outcomes import Run
    from pytest_jsbench.records.records import Record


@pytest.hookspec(firstresult=True)
def pytest_jsbench_classify(config: pytest.Config, record: Record) -> str | None:
    """
    Return a code for a failed attempt; the first answer that is not None is used.

    Called where tests run (the single process, or xdist's workers, in several threads).
    """


def pytest_jsbench_record(config: pytest.Config, record: Record) -> None:
    """
    Receive each attempt's record as it arrives, in the process that reports (the single one, or
    xdist's controller).
    """


def pytest_jsbench_summary(config: pytest.Config, run: Run, summary: Summary) -> None:
    """Receive the whole run and its summary, once, when the session ends, before the exit status is decided."""
