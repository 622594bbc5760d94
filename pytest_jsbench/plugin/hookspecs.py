"""Declare the hooks that a `conftest.py` or plugin may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.records import Record
    from pytest_jsbench.records.runs import Run


@pytest.hookspec(firstresult=True)
def pytest_jsbench_classify(config: pytest.Config, record: Record) -> str | None:
    """
    Return a code for a failed attempt, or None; pytest uses the first code that an implementation returns.

    The hook is called in the processes that run tests (the single process, or xdist's workers), in several threads.
    """


def pytest_jsbench_record(config: pytest.Config, record: Record) -> None:
    """
    Receive the record of an attempt as soon as its test is reported.

    The hook is called in the process that prints the reports (the single process, or xdist's controller).
    """


def pytest_jsbench_summary(config: pytest.Config, run: Run, summary: Summary) -> None:
    """Receive the whole run and its summary once, at the end of the session, before the exit status is decided."""
