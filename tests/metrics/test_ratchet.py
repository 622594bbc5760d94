"""Check the cases that vanished, arrived failing or broke since a baseline, and the gates on their numbers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.metrics.case_outcomes import CaseOutcome
from pytest_jsbench.metrics.comparison import Comparison, compare
from pytest_jsbench.metrics.gates import Gate, GateResult, check, check_all
from pytest_jsbench.metrics.ratchet import Ratchet
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports.comparison_report import facts_of_comparison
from tests.support import examples
from tests.support.examples import replace

ENDS = {"p": "passed", "v": "schema_violation", "e": "api_error", "m": "missing"}


def outcomes(schema: str = "", **ends: str) -> dict[CaseKey, CaseOutcome]:
    """Return the outcomes of cases, each given by a letter for each attempt."""
    return {
        CaseKey(task="t", id=name): CaseOutcome(schema=schema, attempts=tuple(ENDS[letter] for letter in letters))
        for name, letters in ends.items()
    }


def names(keys: tuple[CaseKey, ...]) -> str:
    return " ".join(key.id for key in keys)


def compared(before: Mapping[CaseKey, CaseOutcome], now: Mapping[CaseKey, CaseOutcome]) -> Comparison:
    return replace(compare(before, now), ratchet=Ratchet.of(before, now))


BEFORE = outcomes(kept="p", broke="p", failed="v", fixed="v", gone="p", gone_failing="v", changed="p")
NOW = {
    **outcomes(kept="p", broke="v", failed="v", fixed="p", new="p", new_failing="v"),
    **outcomes(schema="bbb", changed="v"),
}
BEFORE |= outcomes(schema="aaa", changed="p")


def test_cases_vanish_arrive_failing_and_break() -> None:
    ratchet = Ratchet.of(BEFORE, NOW)

    assert names(ratchet.vanished) == "gone gone_failing"
    assert names(ratchet.arrived_failing) == "new_failing changed"
    assert names(ratchet.broken) == "broke"
    assert ratchet.to_dict()["vanished"] == ["t::gone", "t::gone_failing"]


@pytest.mark.parametrize(
    ("before", "now", "broken"),
    [("ppp", "ppv", True), ("ppv", "pvv", False), ("ppp", "ppe", False), ("ppe", "vvv", False), ("p", "ppv", True)],
)
def test_case_breaks_if_every_attempt_passed_and_any_fails(before: str, now: str, broken: bool) -> None:
    assert bool(Ratchet.of(outcomes(a=before), outcomes(a=now)).broken) is broken


def test_schema_that_is_unknown_counts_as_the_same() -> None:
    assert names(Ratchet.of(outcomes(schema="aaa", a="p"), outcomes(a="v")).broken) == "a"


def results(before: Mapping[CaseKey, CaseOutcome], now: Mapping[CaseKey, CaseOutcome]) -> dict[str, GateResult]:
    summary = summarize(examples.run(examples.record("a")))
    gates = ("vanished<=0", "arrived_failing<=0", "baseline.broken<=0")
    return {gate: check(Gate.parse(gate), summary, {"": compared(before, now)}) for gate in gates}


def test_gates_count_each_kind_of_case() -> None:
    assert not any(result.met for result in results(BEFORE, NOW).values())
    assert all(result.met for result in results(BEFORE, BEFORE).values())
    assert [result.met for result in results(outcomes(a="p", b="p"), outcomes(a="p")).values()] == [False, True, True]


def test_gates_stay_open_while_attempts_are_undecided() -> None:
    arrived = results(outcomes(a="p"), outcomes(a="p", b="e"))
    broken = results(outcomes(a="p"), outcomes(a="m"))

    assert [(result.met, result.undecided) for result in arrived.values()] == [
        (True, False),
        (False, True),
        (True, False),
    ]
    assert [(result.met, result.undecided) for result in broken.values()] == [
        (True, False),
        (True, False),
        (False, True),
    ]


def test_gates_apply_to_runs_without_a_common_case_and_need_a_comparison() -> None:
    assert [result.met for result in results(outcomes(a="p"), outcomes(b="v")).values()] == [False, False, True]
    summary = summarize(examples.run(examples.record("a")))
    assert not check(Gate.parse("vanished<=0"), summary, {}).met
    assert not check(Gate.parse("vanished<=0"), summary, {"": compare(BEFORE, NOW)}).met


def test_gate_applies_to_each_variant_and_can_name_one() -> None:
    summary = summarize(examples.compared(small="pp", large="pv"))
    comparisons = {"small": compared(BEFORE, BEFORE), "large": compared(BEFORE, NOW)}

    found = check_all(
        [Gate.parse("vanished<=0"), Gate.parse("small.vanished<=0").resolve(None, ["small", "large"])],
        summary,
        comparisons,
    )

    assert [(result.gate.text, result.met) for result in found] == [
        ("small.vanished<=0", True),
        ("large.vanished<=0", False),
        ("small.vanished<=0", True),
    ]


def test_names_of_own_metrics_and_fields_are_not_taken_for_counts() -> None:
    assert Gate.parse("scores.broken>=1").name.metric == "scores.broken"
    assert Gate.parse("fields.vanished.accuracy>=1").name.field == "vanished"


def test_facts_name_the_cases() -> None:
    facts = dict(facts_of_comparison(compared(BEFORE, NOW), "base"))
    repeated = [*facts_of_comparison(compared(outcomes(a="pp", b="pp"), outcomes(a="pv", b="pp")), "base")]

    assert facts["broke"] == "1: t::broke"
    assert facts["arrived"] == "2 failing cases: t::new_failing, t::changed (not in the baseline with this schema)"
    assert facts["vanished"] == "no longer in this run: 2 cases: t::gone, t::gone_failing"
    assert ("broke", "not every attempt passed again in 1 case: t::a") in repeated


def test_comparison_with_a_run_that_is_no_baseline_has_no_ratchet() -> None:
    assert "vanished" not in compare(BEFORE, NOW).to_dict(source="x")
    assert "vanished" not in dict(facts_of_comparison(compare(BEFORE, NOW), ""))
    assert compared(BEFORE, NOW).to_dict(source="x")["broken"] == ["t::broke"]
