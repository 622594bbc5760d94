from __future__ import annotations

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import GateError
from pytest_jsbench.metrics.comparison import compare
from pytest_jsbench.metrics.gates import Gate, check
from pytest_jsbench.metrics.summary import Summary, summarize
from pytest_jsbench.runs.records import Record
from tests import examples
from tests.examples import record


def summary(*records: Record) -> Summary:
    return summarize(examples.run(*records))


def broken(name: str, task: str = "simple") -> Record:
    return record(name, task=task, verdict=examples.BROKEN, generation=examples.failed())


@pytest.mark.parametrize(("text", "rate"), [("0.9", 0.9), ("1", 1.0), ("0", 0.0)])
def test_a_least_pass_rate_is_read(text: str, rate: float) -> None:
    gate = Gate.least_pass_rate(text)

    assert (gate.name.metric, gate.sign, gate.value) == ("pass_rate", ">=", rate)


@pytest.mark.parametrize("text", ["90", "-0.1", "nan", "ninety", ""])
def test_what_is_not_a_rate_is_refused(text: str) -> None:
    with pytest.raises(GateError, match="from 0 to 1, such as"):
        Gate.least_pass_rate(text)
    with pytest.raises(GateError, match="from 0 to 1, such as"):
        Gate.most_regression(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pass_rate", "expected METRIC OP VALUE, such as pass_rate>=0.9 or ttft_p95<=2, found 'pass_rate'"),
        ("pass_rate>=", "expected METRIC OP VALUE"),
        ("pass_rate=>0.9", "expected METRIC OP VALUE"),
        ("pass_rate>=nan", "expected a number after >=, found 'nan'"),
        ("pass_rate>=90", "pass_rate is a rate from 0 to 1, found 90"),
        ("pas_rate>=0.9", "no metric 'pas_rate': did you mean 'pass_rate'?"),
        ("Github_easy.pas_rate>=0.9", "no metric 'pas_rate': did you mean 'pass_rate'?"),
        ("ttft_p96<=2", "no metric 'ttft_p96': did you mean 'ttft_p9"),
        ("keywords.patern.pass_rate>=0.8", "no keyword 'patern': did you mean 'pattern'?"),
        ("baseline.diference>=0", "no figure of a baseline 'diference': did you mean 'difference'?"),
        ("ttft_p95.ci_low>=0.8", "only a rate has an interval, and ttft_p95 is none"),
    ],
)
def test_what_cannot_be_read_is_one_line_with_what_was_meant(text: str, message: str) -> None:
    with pytest.raises(GateError) as caught:
        Gate.parse(text)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_task_that_the_dataset_does_not_have_is_refused_with_the_nearest() -> None:
    gate = Gate.parse("Github_esay.pass_rate>=0.9")

    with pytest.raises(GateError, match="no task or metric 'Github_esay': did you mean 'Github_easy'"):
        gate.check_task(["Github_easy", "simple"])
    Gate.parse("Github_easy.pass_rate>=0.9").check_task(["Github_easy"])
    Gate.parse("pass_rate>=0.9").check_task([])


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("pass_rate>=0.5", True),
        ("pass_rate > 0.5", False),
        ("pass_rate==0.5", True),
        ("simple.pass_rate>=1", True),
        ("tasks.simple.pass_rate>=1", True),
        ("v1.2.pass_rate<=0", True),
        ("v1.2.failure_rates.schema_violation<0.5", False),
        ("failure_rates.schema_violation<=0.25", True),
        ("failure_rates.schema_violation.ci_high<=0.25", False),
        ("failure_counts.schema_violation<=1", True),
        ("pass_rate.ci_low>=0.2", False),
        ("pass_rate_ci_low>=0.1", True),
        ("empirical_coverage>=0.75", True),
        ("keywords.minimum.pass_rate>=0.5", True),
        ("keywords.minimum.failures<1", False),
        ("keywords.minimum.attempts==2", True),
        ("ttft_p95<=0.2", True),
        ("tgt_max<1", False),
        ("tpot_mean<=80", True),
        ("output_tokens<=44", True),
        ("error_rate<=0", True),
        ("n>=4", True),
        ("n>=5", False),
        ("pass_at_k<=0.5", True),
    ],
)
def test_any_metric_of_the_run_a_task_or_a_keyword_can_be_held_against_a_value(text: str, met: bool) -> None:
    found = summary(
        record("a", schema={"minimum": 0}),
        record("b"),
        record("c", task="v1.2", schema={"minimum": 0}, verdict=examples.VIOLATED),
        record("d", task="v1.2", verdict=examples.HALLUCINATED),
    )

    result = check(Gate.parse(text), found)

    assert result.met is met, result.message
    assert ("NOT MET" in result.message) is not met


def test_missing_and_broken_attempts_count_as_failures() -> None:
    planned = tuple(CaseKey(task="simple", id=name) for name in "abcd")
    found = summarize(examples.run(record("a"), record("b"), broken("c"), planned=planned))

    assert check(Gate.least_pass_rate("0.5"), found).met
    result = check(Gate.least_pass_rate("0.6"), found)
    assert not result.met
    assert result.message == "pass_rate 2/4 = 0.5, gate >= 0.6: NOT MET"


@pytest.mark.parametrize(
    "text",
    [
        # one of four is broken: it might have violated its schema, been slow, or cost anything
        "empirical_coverage>=0.8",
        "failure_rates.schema_violation<=0.2",
        "failure_counts.truncated<=0",
        "tgt_max<=10",
        "declared_coverage_excluding_errors>=0.9",
        "keywords.minimum.failures<=0",
        "output_tokens<=100",
    ],
)
def test_an_incomplete_run_meets_a_gate_only_if_it_would_whatever_was_lost(text: str) -> None:
    complete = summary(*(record(name, schema={"minimum": 0}) for name in "abc"))
    incomplete = summary(*(record(name, schema={"minimum": 0}) for name in "abc"), broken("d"))

    assert check(Gate.parse(text), complete).met
    result = check(Gate.parse(text), incomplete)
    assert not result.met
    assert "the run is incomplete" in result.message


@pytest.mark.parametrize("text", ["pass_rate>=0.75", "empirical_coverage>=0.75", "failure_rates.truncated<=0.25"])
def test_what_was_lost_does_not_matter_where_the_gate_holds_without_it(text: str) -> None:
    result = check(Gate.parse(text), summary(record("a"), record("b"), record("c"), broken("d")))

    assert result.met
    assert result.message.endswith("met whatever the broken or missing attempts would have been")


@pytest.mark.parametrize(
    "records",
    [
        (),
        (record("a", verdict=examples.EXCLUDED),),
        (broken("a"),),
        (record("a", verdict=examples.UNJUDGED),),
    ],
    ids=["no records", "all excluded", "all broken", "all unjudged"],
)
@pytest.mark.parametrize(
    "text", ["pass_rate>=0", "failure_rates.truncated<=1", "error_rate<=1", "keywords.type.failures<=9"]
)
def test_a_gate_on_nothing_judged_is_never_met(records: tuple[Record, ...], text: str) -> None:
    result = check(Gate.parse(text), summary(*records))

    assert not result.met
    assert "nothing judged" in result.message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ttft_p95<=9", "nothing measured"),
        ("output_tokens<=9", "nothing reported"),
        ("cost<=9", "nothing reported"),
        ("hard.pass_rate>=0", "nothing judged"),
        ("baseline.difference>=-1", "nothing to compare"),
    ],
)
def test_what_was_not_measured_is_never_met(text: str, reason: str) -> None:
    result = check(Gate.parse(text), summary(record("a", generation=examples.completion(ttft=None, tokens=None))))

    assert not result.met
    assert result.message.endswith(f"NOT MET, {reason}")


def test_a_run_is_held_against_its_baseline() -> None:
    before = summary(*(record(name) for name in "abcd"))
    now = summary(record("a"), record("b"), record("c"), record("d", verdict=examples.VIOLATED))
    comparison = compare(before.outcomes, now.outcomes)

    met = [
        check(gate, now, comparison).met
        for gate in (
            Gate.most_regression("0.25"),
            Gate.most_regression("0.2"),
            Gate.parse("baseline.newly_failing<=0"),
            Gate.parse("baseline.newly_failing<=1"),
            Gate.parse("baseline.p_value>=0.05"),
            Gate.parse("baseline.difference.ci_low>=-0.2"),
        )
    ]

    assert met == [True, False, False, True, True, False]


def test_a_broken_call_counts_as_a_regression() -> None:
    before = summary(*(record(name) for name in "abcd"))
    now = summary(record("a"), record("b"), record("c"), broken("d"))
    comparison = compare(before.outcomes, now.outcomes)

    assert check(Gate.most_regression("0.25"), now, comparison).met
    result = check(Gate.most_regression("0.2"), now, comparison)
    assert not result.met
    assert "the run is incomplete" in result.message
