"""Count calls of Python functions, to test for wasted work without a clock and without large input."""

from __future__ import annotations

import sys
from collections.abc import Callable


def calls_of(work: Callable[[], object]) -> int:
    """Return the number of Python function calls during the work."""
    count = 0

    def trace(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
