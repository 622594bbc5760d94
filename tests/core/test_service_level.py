from __future__ import annotations

import pytest

from pytest_jsbench.core.generations import Usage
from pytest_jsbench.core.service_level import ServiceLevel
from pytest_jsbench.core.timing import Timing

TEN = Usage(output_tokens=11)


def test_service_level_is_read_from_its_own_text() -> None:
    assert str(ServiceLevel.parse(" tgt <= 4.0, ttft<=0.5")) == "ttft<=0.5,tgt<=4"


@pytest.mark.parametrize(
    "text", ["tpot<=999999", "tgt<=0.00001", "ttft<=0.000001,tgt<=123456.654321", "tgt<=0", "tpot<=100"]
)
def test_service_level_of_any_size_is_read_back(text: str) -> None:
    level = ServiceLevel.parse(text)

    assert ServiceLevel.parse(str(level)) == level
    assert str(level) == text


@pytest.mark.parametrize(
    "text",
    [
        "ttft",
        "ttft<1",
        "latency<=1",
        "ttft<=1,,tgt<=2",
        "ttft<=1,ttft<=2",
        "ttft<=-1",
        "",
        "tpot<=1000000",
        "tpot<=1e3",
    ],
)
def test_service_level_states_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected limits on ttft and tgt \(seconds\) and tpot .* found"):
        ServiceLevel.parse(text)


@pytest.mark.parametrize(
    ("timing", "late", "met"),
    [
        (Timing(tgt=4.0, ttft=0.5), 0.0, True),
        (Timing(tgt=4.1, ttft=0.5), 0.0, False),
        (Timing(tgt=3.0, ttft=0.6), 0.0, False),
        (Timing(tgt=3.0, ttft=0.4), 0.2, False),
        (Timing(tgt=3.0), 0.0, None),
        (Timing(tgt=4.1), 0.0, False),
        (None, 0.0, None),
    ],
    ids=["in time", "ends late", "starts late", "sent late", "not streamed", "not streamed, and late", "not measured"],
)
def test_answer_is_in_time_if_each_limited_time_is(timing: Timing | None, late: float, met: bool | None) -> None:
    assert ServiceLevel.parse("ttft<=0.5,tgt<=4").is_met(timing, TEN, late) is met


def test_time_per_token_is_limited_in_milliseconds() -> None:
    level = ServiceLevel.parse("tpot<=100")

    assert level.is_met(Timing(tgt=1.1, ttft=0.1, gct=1.0), TEN) is True
    assert level.is_met(Timing(tgt=1.3, ttft=0.1, gct=1.2), TEN) is False
    assert level.is_met(Timing(tgt=1.3, ttft=0.1, gct=1.2), Usage()) is None
