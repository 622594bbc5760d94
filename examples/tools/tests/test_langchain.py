from __future__ import annotations

import pytest

from pytest_jsbench import JSBench

pytest.importorskip("langchain_openai")
from city import ANSWER
from judged import check_both_calls
from with_langchain import answer


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("responses", [False, True])
def test_both_functions_are_called(jsbench: JSBench, responses: bool, streamed: bool) -> None:
    assert answer(responses=responses, streamed=streamed) == ANSWER
    check_both_calls(jsbench)
