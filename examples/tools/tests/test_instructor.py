from __future__ import annotations

import pytest

from pytest_jsbench import JSBench

pytest.importorskip("instructor")
from city import ANSWER
from judged import check_both_calls
from with_instructor import answer


def test_both_calls_are_read(jsbench: JSBench) -> None:
    assert answer() == ANSWER
    check_both_calls(jsbench)
