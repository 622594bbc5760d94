from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.core.generations import Completion, Usage
from pytest_jsbench.metrics.gates import Gate, check
from pytest_jsbench.metrics.prices import costs
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.records import AnsweredBy, Record
from pytest_jsbench.records.repairs import RepairPlan, Repairs, RepairTry
from pytest_jsbench.records.setting_differences import REMEMBERED
from pytest_jsbench.run.repairs import begin_tries, follow_up, wants_try
from pytest_jsbench.verdicts import FailureType, Judge, Verdict
from pytest_jsbench.verdicts.verdicts import no_instance
from tests.support import examples
from tests.support.examples import record, replace

DIGEST = "sha256:" + "ab" * 32
SCHEMA = {"type": "object", "properties": {"n": {"minimum": 0}}}
ENDS: dict[str, Verdict] = {
    "p": examples.PASSED,
    "v": examples.VIOLATED,
    "r": no_instance(FailureType.REFUSAL, None, "no"),
    "f": examples.BROKEN,
    "u": examples.UNJUDGED,
}


def tries(ends: str) -> tuple[RepairTry, ...]:
    return tuple(
        RepairTry(
            prompt_digest=DIGEST,
            message="again",
            generation=examples.failed() if end == "f" else examples.completion(),
            verdict=ENDS[end],
        )
        for end in ends
    )


@pytest.mark.parametrize(
    ("ends", "most", "passed_at"),
    [
        ("p", 3, 1),
        ("vvp", 3, 3),
        ("vv", 2, 0),
        ("v", 2, None),
        ("", 2, None),
        ("vr", 3, 0),
        ("vf", 3, None),
        ("vf", 2, None),
        ("vu", 2, None),
    ],
)
def test_repair_is_known_once_every_try_is_decided(ends: str, most: int, passed_at: int | None) -> None:
    repairs = Repairs(most=most, shows_errors=True, tries=tries(ends))

    assert repairs.passed_at == repairs.facts().passed_at == passed_at


@pytest.mark.parametrize(("ends", "wanted"), [("", True), ("v", True), ("vv", False), ("p", False), ("r", False)])
def test_next_try_follows_a_wrong_answer_only(ends: str, wanted: bool) -> None:
    wrong = record("a", schema=SCHEMA, verdict=examples.VIOLATED)

    assert wants_try(replace(wrong, repairs=Repairs(most=2, shows_errors=True, tries=tries(ends)))) is wanted


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge()


@pytest.mark.parametrize(
    "made",
    [
        record("a", schema=SCHEMA),
        record("a", schema=SCHEMA, verdict=examples.BROKEN, generation=examples.failed()),
        record("a", schema=SCHEMA, verdict=examples.UNJUDGED),
        record("a", schema=SCHEMA, verdict=examples.UNSUPPORTED, generation=examples.declined()),
    ],
    ids=["passed", "failed call", "unjudged", "declined"],
)
def test_answers_that_are_not_wrong_have_no_second_tries(judge: Judge, made: Record) -> None:
    assert begin_tries(RepairPlan(most=2), made, judge) is made


def test_tries_of_an_earlier_run_stay_if_the_follow_ups_are_the_same(judge: Judge) -> None:
    earlier = Repairs(most=3, shows_errors=True, tries=tries("vvf"))
    wrong = replace(record("a", schema=SCHEMA, verdict=examples.VIOLATED), repairs=earlier)

    begun = {
        plan: begin_tries(plan, wrong, judge).repairs
        for plan in (RepairPlan(most=5), RepairPlan(most=1), RepairPlan(most=3, shows_errors=False))
    }

    assert [(each.most, each.shows_errors, len(each.tries)) for each in begun.values() if each is not None] == [
        (5, True, 2),
        (1, True, 1),
        (3, False, 0),
    ]


def test_json_repair_is_counted_and_the_verdict_stays(judge: Judge) -> None:
    pytest.importorskip("json_repair", reason="needs the extra repair")
    rescued = {}
    for text in ('{"n": 1', '{"n": -1', "no JSON at all", '{"n": -1}'):
        generation = examples.completion(text)
        verdict = judge.judge(SCHEMA, text)
        begun = begin_tries(
            RepairPlan(most=1), record("a", schema=SCHEMA, generation=generation, verdict=verdict), judge
        )
        assert begun.verdict == verdict
        assert begun.repairs is not None
        rescued[text] = begun.repairs.json_repair

    assert rescued == {'{"n": 1': True, '{"n": -1': False, "no JSON at all": False, '{"n": -1}': None}


def test_follow_up_lists_each_finding_with_its_place(judge: Judge) -> None:
    verdict = judge.judge({**SCHEMA, "required": ["m"]}, '{"n": -1, "surplus": 1}')

    errors = follow_up(verdict, shows_errors=True)

    assert [line for line in errors.splitlines() if line.startswith("- ")] == [
        '- $: "m" is a required property',
        "- $.n: -1 is less than the minimum of 0",
        "- $.surplus: the schema has no such field",
    ]
    assert follow_up(verdict, shows_errors=False).splitlines()[-1] == errors.splitlines()[-1]
    assert "$" not in follow_up(verdict, shows_errors=False)


def test_record_with_the_last_answer_keeps_the_tries_and_skips_failed_calls() -> None:
    last = examples.completion('{"n": 7}')
    made = (*tries("v"), replace(tries("p")[0], generation=last), *tries("f"))
    wrong = replace(
        record("a", schema=SCHEMA, verdict=examples.VIOLATED), repairs=Repairs(most=3, shows_errors=True, tries=made)
    )

    assert isinstance(wrong.with_last_answer.generation, Completion)
    assert wrong.with_last_answer.generation.text == '{"n": 7}'
    assert (wrong.with_last_answer.verdict.passed, wrong.verdict.passed) == (True, False)


def test_failed_call_of_a_try_is_not_the_models_failure() -> None:
    wrong = [
        replace(
            record(name, schema=SCHEMA, verdict=examples.VIOLATED),
            repairs=Repairs(most=1, shows_errors=True, tries=tries(end)),
        )
        for name, end in (("repaired", "p"), ("wrong", "v"), ("down", "f"))
    ]
    total = summarize(examples.run(*wrong)).total

    assert (total.repair_rate.successes, total.repair_rate.n) == (1, 2)
    assert (total.repairs_open, total.repair_tries, total.pass_after[1].successes) == (1, 2, 1)


def test_calls_of_an_application_after_a_wrong_answer_are_second_tries() -> None:
    ends = {"test": "v", "test@2": "f", "test@3": "v", "test@4": "p", "other": "f", "other@2": "p", "plain": "p"}
    last = {"test": "test@4", "other": "other@2"}
    made = [
        replace(
            record(
                name,
                schema=SCHEMA,
                verdict=ENDS[end],
                generation=examples.failed() if end == "f" else examples.completion(tokens=7),
            ),
            called_again=last[name.partition("@")[0]] if name != "plain" and name not in last.values() else "",
        )
        for name, end in ends.items()
    ]
    total = summarize(examples.run(*made)).total

    assert (total.passed, total.planned) == (3, 3)
    assert [rate.successes for rate in total.pass_after.values()] == [2, 2, 3]
    assert (total.repair_rate.successes, total.repair_rate.n, total.repair_tries) == (1, 1, 2)
    assert total.repair_output_tokens == 14


def test_cost_of_tries_is_known_even_if_the_first_answer_was_recorded() -> None:
    pytest.importorskip("genai_prices", reason="needs genai-prices")
    paid = examples.completion(tokens=500)
    made = replace(tries("v")[0], generation=replace(paid, usage=Usage(input_tokens=180, output_tokens=500)))
    wrong = replace(
        record("a", schema=SCHEMA, verdict=examples.VIOLATED),
        answered_by=AnsweredBy(engine=REMEMBERED, model="gpt-4o-mini"),
        repairs=Repairs(most=2, shows_errors=True, tries=(replace(made, remembered=True), made)),
    )
    run = examples.run(wrong, provider="openai", model="gpt-4o-mini", started_at="2026-11-01T00:00:00+00:00")

    assert costs(run).repairs == {wrong.attempt: pytest.approx(0.000327)}
    assert costs(examples.run(wrong)).repairs == {}


@pytest.mark.parametrize("text", ["repair_cost<=1", "repair_output_tokens<=100"])
def test_gate_on_second_tries_needs_the_tokens_of_all_tries(text: str) -> None:
    pytest.importorskip("genai_prices", reason="needs genai-prices")
    wrong = record("a", verdict=examples.VIOLATED)
    (made,) = tries("p")
    silent = replace(made, generation=examples.completion(tokens=None))
    runs = [
        examples.run(
            *(
                replace(record(name, verdict=wrong.verdict), repairs=Repairs(most=1, shows_errors=True, tries=(one,)))
                for name, one in (("a", made), ("b", other))
            ),
            engine="openai",
            model="gpt-4o-mini",
            provider="openai",
        )
        for other in (made, silent)
    ]

    assert [check(Gate.parse(text), summarize(run)).met for run in runs] == [True, False]


def with_tries(name: str, ends: str, most: int) -> Record:
    """Return the record of a wrong answer that was asked for again."""
    repairs = Repairs(most=most, shows_errors=True, tries=tries(ends))
    return replace(record(name, verdict=examples.VIOLATED), repairs=repairs)


@pytest.mark.parametrize(
    "text",
    [
        *("repair_rate>=0.9", "repair_rates.schema_violation>=0.9", "repair_tries<=1", "repair_time_max<=100"),
        *("repair_output_tokens<=100", "repair_cost<=1"),
    ],
)
def test_gate_on_second_tries_is_not_met_while_attempts_have_no_answer(text: str) -> None:
    if text.startswith("repair_cost"):
        pytest.importorskip("genai_prices", reason="needs genai-prices")
    repaired = with_tries("a", "p", 1)
    failed = record("b", verdict=examples.BROKEN, generation=examples.failed())
    whole: dict[str, Any] = {"provider": "openai", "model": "gpt-4o-mini", "started_at": "2026-11-01T00:00:00+00:00"}
    runs = [
        examples.run(repaired, **whole),
        examples.run(repaired, failed, **whole),
        examples.run(repaired, planned=(repaired.key, failed.key), **whole),
    ]

    results = [check(Gate.parse(text), summarize(run)) for run in runs]

    assert [(result.met, result.undecided) for result in results] == [(True, False), (False, True), (False, True)]


@pytest.mark.parametrize(("most", "is_met"), [(1, True), (3, False)])
def test_gate_on_the_time_of_tries_counts_each_try_that_may_follow(most: int, is_met: bool) -> None:
    made = [with_tries(f"a{number}", "p", most) for number in range(3)]
    planned = (*(each.key for each in made), replace(made[0].key, id="missing"))

    result = check(Gate.parse("repair_time_p50<=100"), summarize(examples.run(*made, planned=planned)))

    assert result.met is is_met


@pytest.mark.parametrize(
    ("ends", "most", "tries_open"), [("p", 3, 0), ("v", 3, 2), ("vf", 3, 2), ("", 3, 3), ("vu", 2, 1)]
)
def test_tries_of_an_incomplete_answer_are_open_up_to_the_most(ends: str, most: int, tries_open: int) -> None:
    assert summarize(examples.run(with_tries("a", ends, most))).total.tries_open == tries_open
