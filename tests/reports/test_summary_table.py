from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_jsbench.core.cases import Expected, safe_name
from pytest_jsbench.core.generations import FaultKind
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports.summary_table import detail, details, facts, fitted, keyword_table, table_of_tasks
from pytest_jsbench.reports.variant_table import tables, tokens_of_one
from pytest_jsbench.runs.records import Record
from pytest_jsbench.values import Match
from tests import examples
from tests.examples import record


def lines(*records: Record) -> list[str]:
    run = examples.run(*records)
    return [*table_of(*records), *details(run, summarize(run))]


def table_of(*records: Record, **said: object) -> list[str]:
    run = replace(examples.run(*records), metadata=examples.metadata(dataset=said))
    return table_of_tasks(run, summarize(run))


def test_there_is_a_row_per_task_and_a_total() -> None:
    shown = table_of(record("a"), record("b", task="hard"))

    assert [line.split()[0] for line in shown if line[0] not in " -"] == ["Task", "simple", "hard", "total"]
    assert shown[-3].split() == ["hard", "1.00", "±0.40", "1.00", "±0.40", "0.20", "80.00", "1.00", "0.80"]


def test_a_long_task_name_keeps_its_place() -> None:
    shown = lines(record(task=safe_name("\x1b[31m" + "x" * 500)))

    assert all(len(line) <= 80 for line in shown)


def test_two_tasks_are_never_cut_to_the_same() -> None:
    names = ["exclusiveMaximum.of.all.numbers.in.it", "exclusiveMinimum.of.all.numbers.in.it"]
    broken = record("b", verdict=examples.BROKEN, generation=examples.failed())
    numbered = [f"{'x' * 60}{number}{'y' * 60}" for number in range(12)]

    for tasks in (names, [f"{name}.and.more" for name in names], numbered):
        shown = table_of(*(record(task=task) for task in tasks), broken)[3:-2]
        assert all(len(line) <= 80 for line in shown)
        assert len({line.split()[0] for line in shown}) == len(tasks) + 1


def test_a_word_that_wrapping_puts_at_a_line_s_start_is_no_command() -> None:
    for width in range(80):
        shown = detail("warning", f"{'w' * width} ::error::x")
        assert not [line for line in shown if line.lstrip().startswith("::")]


def test_a_task_s_name_is_whole_where_there_is_room_and_else_cut_by_what_is_too_much() -> None:
    task = "tests.test_invoices_of_all"
    broken = record("b", verdict=examples.BROKEN, generation=examples.failed())

    assert f"{task[:24]}…" in table_of(record(task=task))[3]
    assert f"{task[:23]} " in table_of(record(task=task[:23]))[3]
    crowded = table_of(record(task=task), broken)
    assert crowded[3].startswith(f"{task[:14]}… ")
    assert {len(line) for line in crowded[2:]} == {80}


def test_every_line_fits_eighty_columns_whatever_went_wrong() -> None:
    shown = lines(
        record("a" * 100, task="JsonSchemaStore"),
        record("b", task="WashingtonPost", verdict=examples.BROKEN, generation=examples.failed()),
        record("c", verdict=examples.VIOLATED),
        record("d", verdict=examples.HALLUCINATED),
        record("e", verdict=examples.UNJUDGED),
        record("f", verdict=examples.UNSUPPORTED, generation=examples.declined()),
        record("g", verdict=examples.EXCLUDED),
    )

    assert max(map(len, shown)) <= 80


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((), "pass rate  n/a (nothing was judged)"),
        ((record(),), "failures   none"),
        ((record(),), "tokens     30 in, 11 out"),
        ((record(generation=examples.completion(tokens=None)),), "tokens     n/a in, n/a out"),
        ((record(verdict=examples.EXCLUDED),), "excluded   1 case whose own schema is broken (skipped)"),
        (
            (record(verdict=examples.EXCLUDED), replace(record(verdict=examples.EXCLUDED), repeat=1)),
            "excluded   1 case whose own schema is broken (skipped)",
        ),
        (
            (record(verdict=examples.BROKEN, generation=examples.failed()),),
            "errors     1 of 1 attempt (timeout 1): the figures are incomplete",
        ),
        (
            (record(verdict=examples.UNJUDGED),),
            "unjudged   1 answer that could not be judged: the figures are incomplete",
        ),
    ],
)
def test_what_the_table_does_not_say_is_said_below(records: tuple[Record, ...], expected: str) -> None:
    assert expected in lines(*records)


def test_a_comparer_of_a_field_that_nobody_expects_is_named() -> None:
    said = {"totl": "casefold", "items": "unordered", "items.*.n": "tolerance:1", "id": "ignore", "$": "sob"}
    matched = replace(record(), match=Match(fields={"total": (1, 1), "items.*.n": (1, 1)}, invented=0))
    run = replace(examples.run(matched), metadata=examples.metadata(comparers=said))

    assert ("comparers", "no value is expected of totl") in facts(run, summarize(run))


def test_values_of_which_none_could_be_compared_are_said_with_where_the_reason_stands() -> None:
    problem = Match(fields={}, invented=0, problem="the comparer same raised ValueError")
    run = examples.run(replace(record("a"), expected=Expected(value=1), match=problem))

    said = " ".join(line.strip() for line in details(run, summarize(run)))

    assert "1 answer that could not be compared: match.problem in records.jsonl says why" in said
    assert "None" not in said


def test_disputed_verdicts_are_named_and_the_rest_counted() -> None:
    shown = lines(*(record(f"c{number}", verdict=examples.DISPUTED) for number in range(7)))

    at = shown.index(next(line for line in shown if line.startswith("disputed")))
    text = " ".join(line.strip() for line in shown[at : at + 3])
    assert "7 verdicts on which the two validators disagree: simple::c0, simple::c1," in text
    assert "simple::c4, and 2 more" in text
    assert "simple::c5" not in text


def test_the_breakdown_has_a_row_per_keyword_most_failures_first() -> None:
    run = examples.run(
        record("a", schema={"type": "object", "properties": {"n": {"minimum": 0}}}, verdict=examples.VIOLATED),
        record("b", schema={"type": "object"}),
    )

    shown = keyword_table(summarize(run))

    assert [line.split()[:3] for line in shown[3:]] == [
        ["minimum", "1", "1"],
        ["type", "0", "2"],
        ["properties", "0", "1"],
    ]
    assert max(map(len, shown)) <= 80


def test_the_cost_is_said_where_it_is_known_and_why_not_where_it_should_be() -> None:
    run = examples.run(record())
    summary = summarize(run)
    paid = replace(summary, total=replace(summary.total, cost=1234.5))

    assert "cost       $1,234.5000" in details(run, paid)
    assert "cost       n/a (no price)" in details(run, replace(summary, cost_problem="no price"))
    assert not any(line.startswith("cost") for line in details(run, summary))


def test_of_how_many_answers_the_tokens_and_the_cost_are_is_said_where_not_of_all() -> None:
    silent = record("c", generation=examples.completion(tokens=None))
    run = examples.run(record("a"), record("b"), silent, record("d", generation=examples.declined()))
    summary = summarize(run)
    whole = examples.run(record("a"), record("b"))

    assert "tokens     60 in, 22 out, of 2 of 3 answers" in details(run, summary)
    assert tokens_of_one(summary.total) == 11
    assert "tokens     60 in, 22 out" in details(whole, summarize(whole))
    paid = replace(summary, total=replace(summary.total, cost=0.5, priced=2, unpriced=1))
    assert "cost       $0.5000, of 2 of 3 answers" in details(run, paid)


def test_times_of_a_recording_are_said_to_be_those_of_then() -> None:
    run = examples.run(record("a"))
    again = replace(run, metadata=replace(run.metadata, engine="recorded"))

    said = "answers and times are those of the recording: nothing was asked or measured"
    assert dict(facts(again, summarize(again)))["recorded"] == said
    assert "recorded" not in dict(facts(run, summarize(run)))


def test_how_a_model_was_asked_to_reason_is_said_and_nothing_where_it_was_not() -> None:
    run = examples.run(record())
    asked = replace(run, metadata=examples.metadata(details={"reasoning_effort": "low", "reasoning_budget": 512}))
    assert "reasoning  effort low, budget 512" in details(asked, summarize(asked))
    assert not any(line.startswith("reasoning") for line in details(run, summarize(run)))


def test_decisions_have_a_table_of_their_own() -> None:
    summary = summarize(
        examples.run(
            record("a", verdict=examples.DECIDED_WRONGLY, generation=examples.decided("v0")),
            record("b", task="hard", verdict=examples.BROKEN, generation=examples.failed(FaultKind.CRASH)),
        )
    )

    labelled = replace(examples.run(), metadata=examples.metadata(dataset={"labelled": True}))
    shown = table_of_tasks(labelled, summary)

    assert max(map(len, shown)) <= 80
    assert [line.split() for line in shown if line.startswith(("simple", "hard"))] == [
        ["simple", "1.00", "±0.40", "0.00", "1/2", "=", "0.500", "0/2", "=", "0.000", "10.00", "0"],
        ["hard", "0.00", "±0.40", "0.00", "n/a", "n/a", "n/a", "1"],
    ]
    assert not [line for line in details(labelled, summary) if line.startswith("tokens")]
    assert tables(labelled, summary) == shown


def test_repeated_attempts_are_said_by_case_and_the_flakiest_come_first() -> None:
    verdicts = {
        "steady": [examples.PASSED] * 4,
        "mostly": [examples.PASSED] * 3 + [examples.VIOLATED],
        "even": [examples.PASSED, examples.VIOLATED] * 2,
        "broke": [examples.PASSED] * 3 + [examples.BROKEN],
        "never": [examples.VIOLATED] * 4,
    }
    records = [
        replace(record(name, verdict=verdict), repeat=repeat)
        for name, several in verdicts.items()
        for repeat, verdict in enumerate(several)
    ]

    text = " ".join(" ".join(lines(*records)).split())

    assert "repeats every attempt of a case passed (pass^k) 1/5 = 0.200 (0.036 to 0.624)," in text
    assert "at least one (pass@k) 4/5 = 0.800 (0.376 to 0.964)" in text
    assert "flaky 2 cases passed at times only: simple::even 2/4, simple::mostly 3/4" in text


def test_a_short_first_name_does_not_cut_the_names_below_it() -> None:
    figures = ["1.00 ±0.00"] * 5

    lines = fitted(["Task", *"abcde"], [["a", *figures], ["a_longer_name_than_that", *figures]])

    assert len(lines[-1]) == 80
    assert lines[-1].startswith("a_longer_name_than_…")


def test_tasks_with_long_names_have_counts_of_decisions_and_room_for_their_names() -> None:
    names = ("infinite-loop-detection", "unevaluatedProperties", "exclusiveMaximum", "exclusiveMinimum")
    decided = [record("a", task=name, generation=examples.decided("v0")) for name in names]

    shown = table_of(*decided, labelled=True)

    assert max(map(len, shown)) <= 80
    assert [line.split()[0] for line in shown[3:7]] == list(names)
    assert "1/2" in shown[3].split()
