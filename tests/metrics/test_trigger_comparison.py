"""Decisions to call a tool, compared with those of a reference run."""

from __future__ import annotations

import pytest
from msgspec import structs

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import GateError, RecordError
from pytest_jsbench.core.generations import CalledTool, Completion, FinishReason, GenerationParams
from pytest_jsbench.metrics.case_outcomes import CaseOutcome, outcomes
from pytest_jsbench.metrics.comparison import compare
from pytest_jsbench.metrics.metric_names import MetricName, read_metric
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.metrics.trigger_comparison import TriggerComparison, Triggers, compare_triggers
from pytest_jsbench.records.records import Record
from tests.support import examples

BOTH: tuple[Triggers, Triggers] = ((True,), (True,))
MISSED: tuple[Triggers, Triggers] = ((True,), (False,))
SURPLUS: tuple[Triggers, Triggers] = ((False,), (True,))
NEITHER: tuple[Triggers, Triggers] = ((False,), (False,))


def compared(*cases: tuple[Triggers, Triggers]) -> TriggerComparison:
    found = compare_triggers(cases)
    assert found is not None
    return found


def test_the_first_run_is_the_reference() -> None:
    found = compared(BOTH, BOTH, BOTH, MISSED, SURPLUS, SURPLUS, NEITHER)
    assert (found.precision.successes, found.precision.n) == (3, 5)
    assert (found.recall.successes, found.recall.n) == (3, 4)
    assert found.f1.value == pytest.approx(2 * (3 / 5) * (3 / 4) / (3 / 5 + 3 / 4))
    figures = found.to_dict()
    assert [figures[name] for name in ("n", "both", "missed", "surplus")] == [7, 3, 1, 2]
    assert figures["sentence"].startswith("decisions to call a tool: F1 0.667 (95 % interval 0.")
    assert found.sentence.endswith("), precision 3/5, recall 3/4 over 7 answers")


def test_a_rate_over_nothing_is_unknown() -> None:
    found = compared(NEITHER, NEITHER)
    assert (found.precision.value, found.recall.value, found.f1.value) == (None, None, None)
    assert found.sentence == "decisions to call a tool: neither run calls one in 2 answers"


def test_only_answers_with_a_decision_in_both_runs_are_compared() -> None:
    found = compared(((True, None, True), (None, True, True)), ((None,), (None,)))
    assert (found.n, found.undecided_now) == (1, 1)
    assert compare_triggers([((True,), (None,)), ((), ())]) is None


def answer(case_id: str, *called: str, choice: str | None = None) -> Record:
    calls = tuple(CalledTool(name=name, arguments="{}") for name in called)
    generation = Completion(
        text="" if calls else "Hello.", finish_reason=FinishReason.STOP, timing=None, calls=calls, reasoning=""
    )
    record = examples.record(case_id, generation=generation)
    params = GenerationParams(max_tokens=9, tool_choice=choice)
    return structs.replace(record, offer=examples.offer("find", "count", expected=None), params=params)


def outcomes_of(*records: Record) -> dict[CaseKey, CaseOutcome]:
    made = examples.run(*records).outcomes
    return outcomes([attempt.key for attempt in made], made)


def test_the_outcome_of_a_case_has_the_decisions_of_the_model() -> None:
    found = outcomes_of(answer("a", "find"), answer("b"), answer("c", "find", choice="required"))
    assert [outcome.triggers for outcome in found.values()] == [(True,), (False,), ()]
    assert outcomes_of(examples.record("a"))[CaseKey(task="simple", id="a")].triggers == ()


def test_the_outcome_keeps_its_decisions_in_a_file() -> None:
    (outcome,) = outcomes_of(answer("a", "find")).values()
    assert CaseOutcome.from_dict(outcome.to_dict()) == outcome
    with pytest.raises(RecordError, match="triggers of a case: found 1; expected 2"):
        CaseOutcome.from_dict({"attempts": ["passed", "passed"], "triggers": [True]})
    assert CaseOutcome(attempts=("passed", "passed"), triggers=(True, False)).first(1).triggers == (True,)


def test_runs_are_compared_also_if_no_case_expects_calls() -> None:
    before = outcomes_of(answer("a", "find"), answer("b"), answer("c", "count"))
    now = outcomes_of(answer("a", "count"), answer("b", "find"), answer("c"))
    found = compare(before, now)
    assert found.triggers is not None
    assert found.to_dict(source="x")["triggers"]["f1"] == 0.5
    assert compare(outcomes_of(examples.record("a")), outcomes_of(examples.record("a"))).triggers is None


@pytest.mark.parametrize(("name", "value"), [("f1", 2 / 3), ("precision", 1 / 2), ("recall", 1.0), ("n", 2)])
def test_a_gate_reads_the_agreement_with_the_baseline(name: str, value: float) -> None:
    summary = summarize(examples.run(answer("a", "find")))
    before = outcomes_of(answer("a", "find"), answer("b"), answer("c", "find"))
    now = outcomes_of(answer("a", "find"), answer("b", "find"))
    planned = {**now, CaseKey(task="simple", id="c"): CaseOutcome(attempts=("missing",))}
    reading = read_metric(MetricName.parse(f"baseline.triggers.{name}"), summary, {"": compare(before, planned)})
    assert reading.value == pytest.approx(value)
    assert not reading.certain
    shared = {key: outcome for key, outcome in before.items() if key in now}
    assert read_metric(MetricName.parse(f"baseline.triggers.{name}"), summary, {"": compare(shared, now)}).certain


def test_a_gate_reads_a_bound_of_the_agreement() -> None:
    runs = outcomes_of(answer("a", "find"), answer("b"))
    summary = summarize(examples.run(answer("a", "find")))
    reading = read_metric(MetricName.parse("baseline.triggers.f1.ci_low"), summary, {"": compare(runs, runs)})
    assert reading.value is not None
    assert 0 < reading.value < 1
    with pytest.raises(GateError, match="only a rate has an interval"):
        MetricName.parse("baseline.triggers.n.ci_low")


def test_a_gate_without_decisions_has_no_value() -> None:
    summary = summarize(examples.run(examples.record("a")))
    plain = outcomes_of(examples.record("a"))
    silent = outcomes_of(answer("a"))
    name = MetricName.parse("baseline.triggers.f1")
    assert read_metric(name, summary, {"": compare(plain, plain)}).shown == "no decisions to call a tool to compare"
    assert read_metric(name, summary, {"": compare(silent, silent)}).shown == "no answer calls a tool"
