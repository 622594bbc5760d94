from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_jsbench import JSBench

pytest.importorskip("openai")
from city import ANSWER
from judged import check_both_calls
from with_openai import answer_by_chat, answer_by_responses


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("answer", [answer_by_chat, answer_by_responses])
def test_both_functions_are_called(jsbench: JSBench, answer: Callable[..., str], streamed: bool) -> None:
    assert answer(streamed=streamed) == ANSWER
    check_both_calls(jsbench)
