from __future__ import annotations

import json

from city import FUNCTIONS

from pytest_jsbench import JSBench


def check_both_calls(jsbench: JSBench) -> None:
    """Check that the model's first answer calls both functions, and that both calls conform to their schemas."""
    first = jsbench.endpoint.answers[0]
    assert first.verdict.passed
    assert {call.name: json.loads(call.arguments) for call in first.calls} == {
        name: {"city": "Rome"} for name in FUNCTIONS
    }
