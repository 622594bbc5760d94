from __future__ import annotations

import pytest

from pytest_jsbench.cases import CaseKey
from pytest_jsbench.errors import GateError
from pytest_jsbench.gates import Gate, check
from pytest_jsbench.records import Record
from pytest_jsbench.summaries import summarize
from tests import examples
from tests.examples import record


@pytest.mark.parametrize(("text", "rate"), [("0.9", 0.9), ("1", 1.0), ("0", 0.0)])
def test_a_rate_is_read(text: str, rate: float) -> None:
    assert Gate.parse(text).min_pass_rate == rate


@pytest.mark.parametrize("text", ["90", "-0.1", "nan", "ninety", ""])
def test_what_is_not_a_rate_is_refused(text: str) -> None:
    with pytest.raises(GateError, match="from 0 to 1, such as"):
        Gate.parse(text)


def test_a_gate_is_met_at_its_own_value() -> None:
    summary = summarize(examples.run(record("a"), record("b", verdict=examples.VIOLATED)))

    assert check(Gate(min_pass_rate=0.5), summary).met
    assert not check(Gate(min_pass_rate=0.51), summary).met


def test_missing_and_broken_attempts_count_as_failures() -> None:
    planned = tuple(CaseKey(task="simple", id=name) for name in "abcd")
    summary = summarize(
        examples.run(
            record("a"),
            record("b"),
            record("c", verdict=examples.BROKEN, generation=examples.failed()),
            planned=planned,
        )
    )

    assert check(Gate(min_pass_rate=0.5), summary).met
    result = check(Gate(min_pass_rate=0.6), summary)
    assert not result.met
    assert result.message == "pass rate 2/4 = 0.5, gate 0.6: NOT MET"


@pytest.mark.parametrize(
    "records",
    [
        (),
        (record("a", verdict=examples.EXCLUDED),),
        (record("a", verdict=examples.BROKEN, generation=examples.failed()),),
        (record("a", verdict=examples.UNJUDGED),),
    ],
    ids=["no records", "all excluded", "all broken", "all unjudged"],
)
def test_a_gate_on_nothing_judged_is_never_met(records: tuple[Record, ...]) -> None:
    result = check(Gate(min_pass_rate=0.0), summarize(examples.run(*records)))

    assert not result.met
    assert "nothing judged" in result.message
