from __future__ import annotations

import asyncio

import pytest

from pytest_jsbench import JSBench

pytest.importorskip("pydantic_ai")
from city import ANSWER
from judged import check_both_calls
from with_pydantic_ai import answer, answer_streamed

APIS = pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])


@APIS
def test_both_functions_are_called(jsbench: JSBench, api: str) -> None:
    assert answer(api) == ANSWER
    check_both_calls(jsbench)


@APIS
def test_both_functions_are_called_in_a_stream(jsbench: JSBench, api: str) -> None:
    assert asyncio.run(answer_streamed(api)) == ANSWER
    check_both_calls(jsbench)
