from __future__ import annotations

import statistics

import pytest

from pytest_jsbench.core.arrivals import ArrivalRate


@pytest.mark.parametrize("text", ["8/s", "0.5/s", "8/s:poisson", "100/s"])
def test_rate_is_read_from_its_own_text(text: str) -> None:
    assert str(ArrivalRate.parse(text)) == text


@pytest.mark.parametrize("text", ["8", "0/s", "-1/s", "8/min", "8/s:gamma", "8/s:", "٣/s", "1e3/s", "nan/s", ""])
def test_rate_states_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a number of calls per second above 0, such as 8/s, .* found"):
        ArrivalRate.parse(text)


def test_gaps_are_equal_without_poisson() -> None:
    rate = ArrivalRate.parse("4/s")

    assert [rate.gap(number) for number in range(3)] == [0.25] * 3


def test_poisson_gaps_are_exponential_and_the_same_in_each_run() -> None:
    rate = ArrivalRate.parse("4/s:poisson")
    gaps = [rate.gap(number) for number in range(4000)]

    assert gaps == [ArrivalRate.parse("4/s:poisson").gap(number) for number in range(4000)]
    assert [statistics.mean(gaps[:count]) for count in (10, 100, 1000)] == pytest.approx([0.25] * 3, rel=0.05)
    # the mean and the standard deviation of an exponential distribution are equal
    assert statistics.mean(gaps) == pytest.approx(0.25, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(0.25, rel=0.05)
