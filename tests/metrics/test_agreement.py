"""Check the agreement of repeated answers: its figures, its gates, and its comparison between runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import GateError, RecordError
from pytest_jsbench.core.generations import CalledTool
from pytest_jsbench.metrics.case_outcomes import CaseOutcome
from pytest_jsbench.metrics.comparison import adjust_together, compare
from pytest_jsbench.metrics.gates import Gate, check
from pytest_jsbench.metrics.statistics import clustered
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.answer_digests import add_digest
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports.expectations import Expectations
from pytest_jsbench.reports.repeats import find_differing_fields, table_of_agreement
from pytest_jsbench.reports.run_report import facts
from tests.support import examples
from tests.support.examples import record, replace

KEY = CaseKey(task="simple", id="a")


def answered(case: str, *values: Any, variant: str = "", task: str = "simple") -> list[Record]:
    """Return the attempts at a case with these values as conforming answers; a verdict stands for another end."""
    records = []
    for repeat, value in enumerate(values):
        verdict = value if isinstance(value, type(examples.PASSED)) else replace(examples.PASSED, instance=value)
        generation = examples.failed() if verdict is examples.BROKEN else examples.completion()
        made = replace(record(case, task=task, verdict=verdict, generation=generation), repeat=repeat, variant=variant)
        records.append(add_digest(made, is_repeated=len(values) > 1))
    return records


def run(*records: Record, **changes: Any) -> Run:
    return examples.run(*records, repeats=3, **changes)


STEADY = answered("a", {"n": 1, "m": "x"}, {"m": "x", "n": 1.0}, {"n": 1, "m": "x"})
CHANGING = answered("b", {"n": 1, "m": "x"}, {"n": 2, "m": "x"}, {"n": 1, "m": "x"})


def test_agreement_counts_pairs_of_a_case_with_an_interval_over_cases() -> None:
    total = summarize(run(*STEADY, *CHANGING)).total

    assert (total.agreement.successes, total.agreement.n) == (4, 6)
    assert total.agreement == clustered([(3, 3), (1, 3)])
    assert {name: (rate.successes, rate.n) for name, rate in total.field_agreement.items()} == {
        "n": (4, 6),
        "m": (6, 6),
    }


def test_agreement_over_nothing_is_not_applicable() -> None:
    for records in (
        answered("a", {"n": 1}),  # a single attempt
        answered("a", {"n": 1}, examples.VIOLATED),  # a single conforming answer
        [*answered("a", {"n": 1}, examples.BROKEN), *answered("b", {"n": 1}, examples.BROKEN)],
    ):
        summary = summarize(run(*records))
        assert summary.total.agreement.value is None
        assert summary.total.field_agreement == {}
        assert all(outcome.agreement is None for outcome in summary.outcomes.values())
        assert "agreement" not in [label for label, _ in facts(run(*records), summary)]


def test_answers_that_do_not_conform_are_in_no_pair() -> None:
    total = summarize(run(*answered("a", {"n": 1}, examples.VIOLATED, {"n": 1}))).total

    assert (total.agreement.successes, total.agreement.n) == (1, 1)


def test_answers_of_different_variants_are_in_no_pair() -> None:
    variants = examples.variants(small={"model": "s"}, large={"model": "l"})
    records = [
        *answered("a", {"n": 1}, {"n": 1}, variant="small"),
        *answered("a", {"n": 2}, {"n": 3}, variant="large"),
    ]

    summary = summarize(examples.run_of_variants(variants, *records))

    assert (summary.total.agreement.successes, summary.total.agreement.n) == (1, 2)
    assert {name: one.total.agreement.value for name, one in summary.variants.items()} == {"small": 1.0, "large": 0.0}
    assert summary.outcomes[KEY].agreement == (1, 2)
    lines = [text for label, text in facts(examples.run_of_variants(variants, *records), summary)]
    assert "large: 1 field with different values: n 0/1" in lines


def test_calls_of_tools_are_compared_in_order_with_their_arguments() -> None:
    offer = examples.offer("find", "book")

    def called(*arguments: str) -> Record:
        calls = tuple(CalledTool(name="find", arguments=text) for text in arguments)
        verdict = replace(examples.PASSED, tool="find", conforming_calls=len(calls), instance={"n": 1})
        made = replace(record("a", verdict=verdict), offer=offer)
        return replace(made, generation=replace(examples.completion(""), calls=calls))

    calls = [called('{"n": 1}', "{}"), called('{"n": 1.0}', ""), called("{}", '{"n": 1}'), called("no JSON")]
    made = [add_digest(replace(each, repeat=at), is_repeated=True) for at, each in enumerate(calls)]

    total = summarize(run(*made)).total

    assert made[3].value_digest is None
    assert (total.agreement.successes, total.agreement.n) == (1, 3)
    assert set(total.field_agreement) == {"*.name", "*.arguments", "*.arguments.n"}


def test_gate_on_agreement_is_checked_and_cannot_be_met_by_an_incomplete_run() -> None:
    summary = summarize(run(*STEADY, *CHANGING))
    incomplete = summarize(run(*STEADY, *answered("c", {"n": 1}, {"n": 1}, examples.BROKEN)))

    assert check(Gate.parse("agreement>=0.6"), summary).met
    assert not check(Gate.parse("agreement>=0.9"), summary).met
    assert check(Gate.parse("field_agreement.m>=1"), summary).met
    assert not check(Gate.parse("field_agreement.n>=1"), summary).met
    assert not check(Gate.parse("agreement.ci_low>=0.5"), summary).met
    result = check(Gate.parse("agreement>=0.9"), incomplete)
    assert (result.met, result.undecided) == (False, True)


@pytest.mark.parametrize("field", ["scores.total", "baseline.value", "fields.accuracy"])
def test_gate_may_name_a_field_that_looks_like_another_metric(field: str) -> None:
    outer, inner = field.split(".")
    summary = summarize(run(*answered("a", *[{outer: {inner: 1}}] * 3)))
    gate = Gate.parse(f"simple.field_agreement.{field}.ci_low>=0").resolve(["simple"], ())

    assert (gate.name.task, gate.name.metric, gate.name.bound) == ("simple", f"field_agreement.{field}", "ci_low")
    assert check(Gate.parse(f"field_agreement.{field}>=1"), summary).met


def test_gate_may_name_a_field_that_files_leave_out() -> None:
    changing = [
        record
        for case in range(5)
        for record in answered(str(case), *[{f"f{case}_{at}": value for at in range(49)} for value in (1, 2, 3)])
    ]
    summary = summarize(run(*STEADY, *changing))

    written = summary.total.to_dict()["field_agreement"]

    assert len({name.removesuffix("_ci_low").removesuffix("_ci_high") for name in written}) == 200
    assert "m" not in written
    assert check(Gate.parse("field_agreement.m>=1"), summary).met


def test_gate_on_agreement_without_pairs_is_not_met() -> None:
    summary = summarize(run(*answered("a", {"n": 1}, examples.VIOLATED)))

    for gate in ("agreement>=0", "field_agreement.n>=0"):
        result = check(Gate.parse(gate), summary)
        assert not result.met
        assert "no case has two conforming answers" in result.message


@pytest.mark.parametrize("gate", ["agreement>=0.9", "field_agreement.n>=0.9"])
def test_gate_on_agreement_needs_repeats(gate: str) -> None:
    options: dict[str, Any] = {"keys": [KEY], "variants": (), "metrics": ()}

    with pytest.raises(GateError, match="needs 2 attempts per case: found 1; use --jsbench-repeats=2"):
        Expectations.read([Gate.parse(gate)], None, repeats=1, **options)
    assert Expectations.read([Gate.parse(gate)], None, repeats=2, **options).gates


@pytest.mark.parametrize(
    ("temperature", "words"),
    [
        (0, "; at temperature 0, this is the determinism of the server"),
        (0.7, "; answers are sampled at temperature 0.7"),
        (None, "have equal values"),
    ],
)
def test_fact_states_the_cause_of_differences(temperature: float | None, words: str) -> None:
    made = run(*STEADY, *CHANGING, params={"temperature": temperature}, engine="openai")

    lines = facts(made, summarize(made))

    at = [label for label, _ in lines].index("agreement")
    assert lines[at][1].startswith("4/6 = 0.667 (95 % interval ")
    assert lines[at][1].endswith(words)
    assert lines[at + 1 : at + 3] == [
        ("", "1 field with different values: n 4/6"),
        ("", "1 case with different answers: simple::b 1/3"),
    ]


def test_differing_fields_are_listed_by_case_and_in_a_table() -> None:
    made = run(*STEADY, *CHANGING)

    assert find_differing_fields(made.outcomes) == {(CaseKey(task="simple", id="b"), ""): ("n",)}
    assert [name for name, _ in table_of_agreement(summarize(made).total).rows] == ["n"]
    assert table_of_agreement(summarize(run(*STEADY)).total).rows == ()


def test_outcome_keeps_its_pairs_and_rejects_more_equal_pairs_than_pairs() -> None:
    outcome = summarize(run(*CHANGING)).outcomes[CaseKey(task="simple", id="b")]

    assert outcome.agreement == (1, 3)
    assert CaseOutcome.from_dict(json.loads(json.dumps(outcome.to_dict()))) == outcome
    with pytest.raises(RecordError, match="agreement of a case: found 4 equal pairs of 3"):
        CaseOutcome.from_dict({"attempts": ["passed"], "agreement": [4, 3]})


def test_runs_are_compared_by_the_agreement_of_each_case() -> None:
    before = summarize(run(*STEADY, *answered("b", *[{"n": 1}] * 3))).outcomes
    after = summarize(run(*STEADY, *CHANGING)).outcomes

    agreement = compare(before, after).agreement

    assert agreement is not None
    assert agreement.difference.value == pytest.approx(-1 / 3)
    assert agreement.worse == (CaseKey(task="simple", id="b"),)
    assert agreement.sentence.startswith("the share of pairs of answers that have equal values is 0.333 lower over 2")
    (adjusted,) = adjust_together([compare(before, after)])
    assert adjusted.agreement == agreement
    assert "agreement" in adjusted.to_dict(source="x")


def test_runs_without_pairs_have_no_comparison_of_agreement() -> None:
    single = summarize(run(*answered("a", {"n": 1}))).outcomes

    assert compare(single, summarize(run(*STEADY)).outcomes).agreement is None
    assert "agreement" not in compare(single, single).to_dict(source="x")


def test_gate_on_the_difference_in_agreement() -> None:
    before = summarize(run(*STEADY, *answered("b", *[{"n": 1}] * 3))).outcomes
    summary = summarize(run(*STEADY, *CHANGING))
    comparisons = {"": compare(before, summary.outcomes)}

    assert check(Gate.parse("baseline.agreement.difference>=-0.4"), summary, comparisons).met
    assert not check(Gate.parse("baseline.agreement.difference>=-0.3"), summary, comparisons).met
    assert not check(Gate.parse("baseline.agreement.worse<=0"), summary, comparisons).met
