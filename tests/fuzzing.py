"""How much is tried of what is drawn by chance, and of the large public data: `tox -e fuzz` tries it all."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

#: by how many times what is named in a test; `JSBENCH_EXAMPLES=100` is for a long night
TIMES = float(os.environ.get("JSBENCH_EXAMPLES", "0.2"))

needs_all_data = pytest.mark.skipif(TIMES < 1, reason="all of the public data are read by 'tox -e fuzz'")


def examples(number: int, *suppressed: HealthCheck) -> Callable[[Any], Any]:
    """Draw so many examples of what a test is given."""
    return settings(max_examples=max(1, int(number * TIMES)), deadline=None, suppress_health_check=suppressed)


def each(number: int) -> int:
    """Of how many data one is read where it is one of that number when all is tried."""
    return max(number, round(number / TIMES))


def at_least(number: int) -> int:
    """How many there are at least of what are so many when all is tried."""
    return int(number * min(1, TIMES))
