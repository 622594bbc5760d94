from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_jsbench.core.errors import GateError
from pytest_jsbench.metrics.gates import Ending, Gate, check, decide
from pytest_jsbench.metrics.load_terms import LoadTerms
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.call_load import CallLoad, PlainCall, PlainProblem, find_problem
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.runs import Run, RunStatus
from pytest_jsbench.reports.expectations import Expectations
from pytest_jsbench.run.plain_calls import count_plain
from tests.support import examples
from tests.support.examples import completion, record, replace

SLO: dict[str, Any] = {"slo": "ttft<=0.5,tgt<=2"}


def called(began: float, *, ttft: float = 0.2, tgt: float = 1.0, late: float | None = None, **others: Any) -> Record:
    """Return the record of a call that began this many seconds after 1,000."""
    name = str(others.pop("name", f"at{began}"))
    plain = others.pop("plain", ())
    made = record(name, schema=others.pop("schema", True), generation=completion(ttft=ttft, tgt=tgt), **others)
    load = CallLoad(began=1000 + began, ended=1000 + began + tgt, late_s=late, plain=plain)
    return replace(made, load=load)


def figures(*records: Record, **settings: Any) -> dict[str, Any]:
    return summarize(examples.run(*records, **settings)).total.to_dict()


def plain(text: str, *, began: float = 0.0, late: float | None = None) -> PlainCall:
    generation = examples.failed() if text == "fault" else completion(text, ttft=0.1, tgt=0.5)
    return PlainCall(
        line="apple 1234567",
        generation=generation,
        problem=find_problem(generation, "apple 1234567", {"7654321"}),
        repeated="apple 1234567" in text,
        began=1000 + began,
        late_s=late,
    )


def test_figures_of_the_load_are_only_in_files_of_runs_with_a_load() -> None:
    names = {"goodput", "in_time", "start_delay_p50", "plain_calls", "ttft_cold_p50", "cost_per_valid"}

    assert names & figures(record()).keys() == set()
    assert names & figures(called(0), slo="tgt<=2").keys() == {"goodput", "in_time", "cost_per_valid"}
    whole = figures(called(0), slo="tgt<=2", rate="8/s", plain_share=0.5, repeats=2)
    assert names <= whole.keys()


def test_goodput_counts_answers_that_pass_in_time() -> None:
    made = [
        called(0),
        called(1, ttft=0.6),
        called(2, tgt=2.5),
        called(3, verdict=examples.VIOLATED),
        called(3.5, tgt=1.5),
    ]

    found = figures(*made, **SLO)

    assert found["goodput"] == pytest.approx(2 / 5)  # from 0 to 5 s
    assert (found["in_time"], found["good_rate"], found["pass_rate"]) == (3 / 5, 2 / 5, 4 / 5)
    assert figures(*made, rate="1/s")["goodput"] == pytest.approx(4 / 5)  # without a service level


def test_time_counts_from_the_scheduled_start() -> None:
    found = figures(called(0, ttft=0.4, late=0.0), called(1.5, ttft=0.4, late=0.5), rate="1/s", **SLO)

    assert found["in_time"] == 0.5
    assert found["start_delay_max"] == 0.5
    late = figures(called(0.5, tgt=1.0, late=0.5), rate="1/s")
    assert late["goodput"] == pytest.approx(1 / 1.5)


def test_answers_without_the_limited_time_are_not_applicable() -> None:
    unstreamed = replace(called(0), generation=completion(ttft=None, tgt=1.0))

    found = figures(unstreamed, **SLO)

    assert (found["in_time"], found["good_rate"], found["goodput"]) == (None, None, 0.0)
    assert figures(unstreamed, slo="tgt<=2")["in_time"] == 1.0


@pytest.mark.parametrize(
    ("text", "met", "undecided"),
    [
        ("in_time>=0.9", False, True),
        ("in_time<=1", True, False),
        ("good_rate>=0.9", False, True),
        ("good_rate<=0.2", False, True),
        ("good_rate>=0.1", True, False),
        ("goodput<=0.2", False, True),
        ("goodput>=0.05", True, False),
    ],
)
def test_gate_counts_answers_whose_limited_times_were_not_measured(text: str, met: bool, undecided: bool) -> None:
    untimed = [replace(called(began), generation=completion(ttft=None)) for began in range(1, 10)]

    result = check(Gate.parse(text), summarize(examples.run(called(0), *untimed, **SLO)))

    assert (result.met, result.undecided) == (met, undecided)


def test_failed_answer_without_the_limited_time_cannot_be_good() -> None:
    untimed = replace(called(1, verdict=examples.VIOLATED), generation=completion(ttft=None))
    summary = summarize(examples.run(called(0), untimed, **SLO))

    assert [check(Gate.parse(text), summary).met for text in ("good_rate<=0.5", "goodput<=1")] == [True, True]


def test_goodput_without_a_service_level_needs_no_times() -> None:
    untimed = replace(called(1), generation=completion(ttft=None))

    assert check(Gate.parse("goodput<=2"), summarize(examples.run(called(0), untimed, rate="1/s"))).met


def test_achieved_rate_includes_plain_calls() -> None:
    made = [called(0, late=0.0), called(1, late=0.01, plain=(plain("fault", began=0.5, late=0.3),))]

    found = figures(*made, rate="2/s", plain_share=0.3)

    assert found["achieved_rate"] == pytest.approx(2.0)
    assert (found["start_delay_count"], found["start_delay_max"]) == (3, 0.3)


def test_goodput_leaves_out_answers_of_the_resumed_run() -> None:
    made = [called(0), called(5000), called(5001)]
    later = {"started_at": "1970-01-01T01:00:00+00:00", "resumed_from": "before"}

    assert figures(*made, **SLO, **later)["goodput"] == pytest.approx(2 / 2)
    assert figures(*made, **SLO, **later)["in_time"] == 1.0


@pytest.mark.parametrize(("merged", "goodput"), [(0, 1.0), (1, 1.0), (2, None)])
def test_goodput_is_that_of_one_run(merged: int, goodput: float | None) -> None:
    assert figures(called(0), called(1), merged=merged, **SLO)["goodput"] == goodput


def schema_of(number: int) -> dict[str, Any]:
    return {"type": "object", "title": str(number)}


def test_first_call_of_a_schema_is_apart_from_those_after_its_first_token() -> None:
    made = [
        called(0, ttft=0.9, schema=schema_of(1)),
        called(0.5, ttft=0.6, schema=schema_of(1)),  # waits for the same grammar
        called(2, ttft=0.1, schema=schema_of(1)),
        called(3, ttft=0.8, schema=schema_of(2)),
        called(5, ttft=0.2, schema=schema_of(2)),
        called(6, ttft=0.3, schema=schema_of(3)),  # no later call
    ]

    found = figures(*made, rate="8/s", repeats=2)

    assert (found["ttft_cold_count"], found["ttft_cold_max"], found["ttft_cold_mean"]) == (2, 0.9, pytest.approx(0.85))
    assert (found["ttft_warm_count"], found["ttft_warm_mean"]) == (2, pytest.approx(0.15))


def test_schema_whose_first_call_was_retried_or_failed_is_left_out() -> None:
    failed = replace(called(0, schema=schema_of(1), verdict=examples.BROKEN), generation=examples.failed())
    retried = replace(called(0, schema=schema_of(2)), retries=1)

    found = figures(
        failed, retried, called(2, schema=schema_of(1)), called(3, schema=schema_of(2)), rate="8/s", repeats=2
    )

    assert (found["ttft_cold_count"], found["ttft_warm_count"]) == (0, 0)


def test_plain_calls_are_no_attempts_and_their_problems_are_counted() -> None:
    texts = ["apple 1234567", '{"n": 1}', "", "fault", "I cannot"]
    made = [called(0, plain=tuple(map(plain, texts))), called(1, verdict=examples.VIOLATED)]

    found = figures(*made, plain_share=0.7)

    assert (found["planned"], found["pass_rate"], found["completions"]) == (2, 0.5, 2)
    assert (found["plain_calls"], found["plain_ok"], found["plain_repeated"]) == (5, 2 / 5, 1 / 4)
    assert {name for name, count in found["plain_problems"].items() if count} == {"json", "empty", "failed"}
    assert (found["plain_ttft_count"], found["plain_tgt_p50"]) == (4, 0.5)


def test_tokens_and_cost_are_per_passed_answer() -> None:
    found = figures(called(0), called(1), called(2, verdict=examples.VIOLATED), **SLO)

    assert found["output_tokens_per_valid"] == pytest.approx(33 / 2)
    assert found["cost_per_valid"] is None
    assert figures(called(0, verdict=examples.VIOLATED), **SLO)["output_tokens_per_valid"] is None


def test_costs_of_plain_calls_are_apart() -> None:
    pytest.importorskip("genai_prices", reason="needs genai-prices")
    paid: dict[str, Any] = {"engine": "openai", "model": "gpt-4o-mini", "provider": "openai", "plain_share": 0.5}

    found = figures(called(0, plain=(plain("apple 1234567"),)), called(1), **paid)

    assert found["plain_cost"] == pytest.approx(found["cost"] / 2)
    assert found["cost_per_valid"] == pytest.approx(found["cost"] / 2)


def test_gates_read_the_figures_of_a_load() -> None:
    made = called(0), called(1, ttft=0.6, plain=(plain('{"n": 1}'),))
    summary = summarize(examples.run(*made, plain_share=0.3, rate="1/s", slo=SLO["slo"]))

    texts = ("goodput>=0.4", "in_time>=0.5", "good_rate.ci_low>=0.9", "plain_problems.json<=0", "start_delay_p50<=1")
    assert [check(Gate.parse(text), summary).met for text in texts] == [True, True, False, False, False]


def silent(began: float) -> Record:
    """Return the record of an answer without token counts, so that its cost is unknown."""
    return replace(called(began), generation=completion(tokens=None))


@pytest.mark.parametrize("text", ["cost<=1", "cost_per_valid<=1", "plain_cost<=1"])
def test_gate_on_a_partial_cost_is_not_met(text: str) -> None:
    pytest.importorskip("genai_prices", reason="needs genai-prices")
    paid: dict[str, Any] = {"engine": "openai", "model": "gpt-4o-mini", "provider": "openai", "plain_share": 0.5}
    answer = plain("apple 1234567")
    priced = called(0, plain=(answer,))
    partial = {
        "plain_cost<=1": called(1, plain=(replace(answer, generation=completion(tokens=None)), answer)),
    }.get(text, silent(1))

    results = [
        check(Gate.parse(text), summarize(examples.run(priced, other, **paid))) for other in (called(1), partial)
    ]

    assert [(result.met, result.undecided) for result in results] == [(True, False), (False, True)]


def test_gate_on_the_cost_of_plain_calls_is_not_met_if_one_failed() -> None:
    pytest.importorskip("genai_prices", reason="needs genai-prices")
    paid: dict[str, Any] = {"engine": "openai", "model": "gpt-4o-mini", "provider": "openai", "plain_share": 0.5}

    summary = summarize(examples.run(called(0, plain=(plain("apple 1234567"), plain("fault"))), **paid))

    assert not check(Gate.parse("plain_cost<=1"), summary).met


def test_gate_on_tokens_per_passed_answer_needs_the_tokens_of_all_answers() -> None:
    gate = Gate.parse("output_tokens_per_valid<=100")

    results = [
        check(gate, summarize(examples.run(called(0), other, slo=SLO["slo"]))) for other in (called(1), silent(1))
    ]

    assert [result.met for result in results] == [True, False]


def test_gate_on_runaway_tokens_needs_the_tokens_of_all_answers() -> None:
    runaway = called(0, verdict=replace(examples.PASSED, runaway_share=0.5))
    gate = Gate.parse("runaway_tokens<=100")

    results = [check(gate, summarize(examples.run(runaway, other))) for other in (called(1), silent(1))]

    assert [result.met for result in results] == [True, False]


def test_gate_on_a_time_counts_the_calls_without_this_time() -> None:
    failed = replace(called(1, verdict=examples.BROKEN, late=0.1), generation=examples.failed())
    answer = plain("apple 1234567", late=0.1)
    load: dict[str, Any] = {"rate": "1/s", "plain_share": 0.3}
    failing_call = summarize(examples.run(called(0, late=0.1, plain=(answer,)), failed, **load))
    failing_plain = summarize(examples.run(called(0, late=0.1, plain=(answer, plain("fault", late=0.1))), **load))

    for name in ("start_delay_max", "plain_ttft_max", "plain_tgt_max", "tgt_max"):
        results = [check(Gate.parse(f"{name}<=2"), summary).met for summary in (failing_call, failing_plain)]
        assert results == [name != "tgt_max", not name.startswith("plain_")], name


def test_gate_on_the_delay_of_starts_is_not_met_while_calls_are_missing() -> None:
    made = called(0, late=0.1)

    result = check(Gate.parse("start_delay_max<=2"), summarize(run_with_missing(1, made, rate="1/s")))

    assert (result.met, result.undecided) == (False, True)


@pytest.mark.parametrize("text", ["goodput>=0.5", "achieved_rate>=0.5", "output_tokens_per_valid>=1"])
def test_gate_on_a_sum_per_something_is_not_met_if_missing_attempts_can_lower_it(text: str) -> None:
    made = called(0), called(1)

    results = [
        check(Gate.parse(text), summarize(run_with_missing(missing, *made, rate="1/s", **SLO))) for missing in (0, 1)
    ]

    assert [(result.met, result.undecided) for result in results] == [(True, False), (False, True)]


def run_with_missing(missing: int, *made: Record, **settings: Any) -> Run:
    """Return a run in which this number of planned attempts have no record."""
    absent = (replace(made[0].key, id=f"missing{number}") for number in range(missing))
    return examples.run(*made, planned=(*(each.key for each in made), *absent), **settings)


@pytest.mark.parametrize(
    "text",
    [
        *("plain_ok>=0.9", "plain_repeated>=0.9", "plain_calls<=1"),
        *("plain_problems.json<=0", "plain_problems.failed<=0"),
    ],
)
def test_gate_on_plain_calls_is_not_met_while_attempts_are_missing(text: str) -> None:
    made = called(0, plain=(plain("apple 1234567"),))
    gate = Gate.parse(text)

    results = [check(gate, summarize(run_with_missing(missing, made, plain_share=0.5))) for missing in (0, 9)]

    assert [(result.met, result.undecided) for result in results] == [(True, False), (False, True)]


def test_run_with_missing_plain_calls_is_incomplete() -> None:
    summary = summarize(run_with_missing(9, called(0, plain=(plain("apple 1234567"),)), plain_share=0.5))

    verdict = decide(Ending(), summary.total, [check(Gate.parse("plain_ok>=0.9"), summary)])

    assert verdict.status is RunStatus.INCOMPLETE


@pytest.mark.parametrize("name", ["plain_ttft_p50", "start_delay_p50"])
def test_missing_attempt_leaves_out_as_many_plain_calls_as_the_share_allows(name: str) -> None:
    answers = [plain("apple 1234567", late=0.1)] * 9
    gate = Gate.parse(f"{name}<=2")

    results = [
        check(
            gate,
            summarize(run_with_missing(5, called(0, late=0.1, plain=tuple(answers)), rate="1/s", plain_share=share)),
        )
        for share in (0.1, 0.9)
    ]

    assert [result.met for result in results] == [name == "plain_ttft_p50", False]


def test_gate_on_repeated_lines_is_not_met_if_a_plain_call_failed() -> None:
    made = called(0, plain=(plain("apple 1234567"), plain("fault")))

    result = check(Gate.parse("plain_repeated>=0.9"), summarize(examples.run(made, plain_share=0.7)))

    assert (result.met, result.undecided) == (False, True)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.25, 0.3, 0.5, 0.7, 0.75, 0.8, 0.9])
def test_most_plain_calls_next_to_a_call_are_those_that_are_made(share: float) -> None:
    terms = LoadTerms.of(examples.metadata(plain_share=share))

    made = [count_plain(calls, share) for calls in range(1001)]

    assert terms is not None
    assert terms.plain_per_call == max(after - before for before, after in itertools.pairwise(made))


def test_share_of_a_file_without_other_calls_is_limited() -> None:
    terms = LoadTerms.of(examples.metadata(plain_share=1.0))

    assert terms is not None
    assert terms.plain_per_call == 9


@pytest.mark.parametrize(
    ("text", "options", "needed"),
    [
        ("good_rate>=0.9", ("rate", "plain_share"), "--jsbench-slo"),
        ("start_delay_p99<=1", ("slo",), "--jsbench-rate"),
        ("simple.plain_problems.empty<=0", ("slo", "rate"), "--jsbench-plain-share"),
        ("plain_calls<=0", ("slo",), "--jsbench-plain-share"),
        ("goodput>=1", (), "--jsbench-rate or --jsbench-plain-share or --jsbench-slo"),
        ("ttft_cold_p50 - ttft_cold_p50<=1", (), "--jsbench-rate or --jsbench-plain-share or --jsbench-slo"),
    ],
)
def test_gate_on_a_load_that_the_run_does_not_have_is_rejected(text: str, options: Sequence[str], needed: str) -> None:
    given: dict[str, Any] = {"keys": [record().key], "variants": (), "metrics": (), "repeats": 2}

    with pytest.raises(GateError, match=f"only a run with {needed} has this metric"):
        Expectations.read([Gate.parse(text)], None, load=options, **given)
    assert Expectations.read([Gate.parse(text)], None, load=("rate", "plain_share", "slo"), **given).gates


def test_gate_on_problems_of_plain_calls_needs_a_plain_call() -> None:
    gate = Gate.parse("plain_problems.empty<=0")
    runs = [examples.run(called(0, plain=made), plain_share=0.1) for made in ((), (plain("apple 1234567"),))]

    results = [check(gate, summarize(run)) for run in runs]

    assert [result.met for result in results] == [False, True]
    assert results[0].message.endswith("NOT MET, no plain call was made")


def test_gate_on_later_calls_needs_repeats() -> None:
    given: dict[str, Any] = {"keys": [record().key], "variants": (), "metrics": (), "load": ("rate",)}

    with pytest.raises(GateError, match="needs 2 attempts per case: found 1; use --jsbench-repeats=2"):
        Expectations.read([Gate.parse("ttft_warm_p50<=1")], None, repeats=1, **given)


def test_variants_have_service_levels_of_their_own_answers() -> None:
    metadata = replace(examples.variants(fast={"model": "f"}, slow={"model": "s"}), slo="tgt<=2")
    made = [replace(called(0), variant="fast"), replace(called(1, tgt=3.0), variant="slow")]

    summary = summarize(examples.run_of_variants(metadata, *made))

    assert [part.total.in_time.value for part in summary.variants.values()] in ([1.0, 0.0], [0.0, 1.0])
    assert summary.variants["fast"].total.goodput == pytest.approx(1.0)


def test_problem_names_are_written_as_in_records(tmp_path: Any) -> None:
    run: Run = examples.run(called(0, plain=(plain("[1"),)), plain_share=0.3)

    line = run.outcomes[0].read().to_dict()

    assert line["load"]["plain"][0]["problem"] == "json"
    assert Record.from_dict(line).load == run.outcomes[0].read().load
    assert PlainProblem("json") is PlainProblem.JSON
