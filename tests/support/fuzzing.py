"""Set how many random examples and public data the tests use; `tox -e fuzz` uses all of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

#: Factor for the numbers that the tests name; `JSBENCH_EXAMPLES=100` is for a run over night.
TIMES = float(os.environ.get("JSBENCH_EXAMPLES", "0.1"))

needs_all_data = pytest.mark.skipif(TIMES < 1, reason="all of the public data are read by 'tox -e fuzz'")


def examples(number: int, *suppressed: HealthCheck) -> Callable[[Any], Any]:
    """Draw this many examples for a test."""
    return settings(max_examples=max(1, int(number * TIMES)), deadline=None, suppress_health_check=suppressed)


def each(number: int) -> int:
    """Return the step with which data are read that are read with this step when all are used."""
    return max(number, round(number / TIMES))


def at_least(number: int) -> int:
    """Return the minimum number of results, given the minimum when all data are used."""
    return int(number * min(1, TIMES))
