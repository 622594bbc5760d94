"""Test the contract of engines as its author would use it, from another project."""

from __future__ import annotations

import pytest

ENGINE = """
from pytest_jsbench import Completion, EngineInfo, Stopwatch, Usage
from pytest_jsbench.core.generations import FinishReason, ResponseFormat

class Mine:
    def __init__(self, config):
        self.info = EngineInfo(engine="mine", model="m", response_format=ResponseFormat.TEXT, streaming=False)

    def generate(self, request):
        return Completion(
            text="{}", finish_reason=FinishReason.STOP, timing=Stopwatch().stop(), usage=Usage(output_tokens=TOKENS)
        )

    def close(self):
        pass
"""
TESTS = """
import pytest
from pytest_jsbench import EngineConfig
from pytest_jsbench.testing import EngineContract

class TestMine(EngineContract):
    @pytest.fixture
    def config(self):
        return EngineConfig(name="mine_engine:Mine")
"""


@pytest.mark.parametrize(("tokens", "failed"), [("None", 0), ("0", 1)])
def test_custom_engine_is_checked_against_the_contract(pytester: pytest.Pytester, tokens: str, failed: int) -> None:
    pytester.makepyfile(mine_engine=ENGINE.replace("TOKENS", tokens), test_mine=TESTS)

    result = pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=11 - failed, failed=failed)
