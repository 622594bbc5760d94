from __future__ import annotations

from dataclasses import replace

from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports.summary_table import details
from pytest_jsbench.reports.variant_table import heading, tables
from pytest_jsbench.runs.outcomes import Run
from tests import examples


def shown(run: Run) -> str:
    return "\n".join(tables(run, summarize(run)))


def test_there_is_a_row_for_each_variant_the_best_first_and_none_for_what_nobody_measured() -> None:
    lines = shown(examples.compared(worse="pvvv", better="pppp", broken="ppbm")).splitlines()

    assert [line.split()[0] for line in lines[3:6]] == ["better", "broken", "worse"]
    assert lines[3].split()[1:] == ["1.00", "±0.24", "1.00", "1.00", "0.20", "1.00", "11", "0"]
    assert lines[4].split()[-1] == "2"
    assert "Cost" not in lines[0]


def test_what_is_more_than_chance_is_said_of_each_pair_and_corrected_for_their_number() -> None:
    text = shown(examples.compared(a="p" * 16, b="p" * 16, c="v" * 12 + "p" * 4))

    assert "b against a: the same verdict on each of 16 cases" in text
    assert text.count("a real difference") == 2
    assert "p-values   adjusted for 3 comparisons (Holm)" in text


def test_a_difference_that_chance_explains_is_not_called_real() -> None:
    words = " ".join(shown(examples.compared(a="ppp", b="ppv")).split())

    assert "not distinguishable from no change (exact test: p = 1)" in words


def test_the_cases_in_which_variants_differ_are_named_and_no_more_than_ten() -> None:
    text = shown(examples.compared(a="p" * 12 + "v", b="v" * 12 + "p", c="v" * 12 + "v"))

    assert "13 cases that some variants pass and others fail" in text
    assert "simple::case00  passed: a; schema_violation: b, c" in text
    assert text.count("simple::") == 10
    assert "… and 3 more" in text


def test_a_broken_call_is_not_a_difference_between_variants() -> None:
    assert "differ " not in shown(examples.compared(a="pp", b="pb"))


def test_names_that_are_long_are_cut_within_80_columns_and_stay_different() -> None:
    run = examples.compared(**{f"{'n' * 60}-{end}": "pvb" for end in ("one", "two")})
    text = shown(run)

    assert all(len(line) <= 80 for line in [*text.splitlines(), *details(run, summarize(run))])
    assert len({line.split()[0] for line in text.splitlines()[3:5]}) == 2


def test_few_variants_have_room_for_their_names_above_the_tasks() -> None:
    metadata = examples.variants(**{"bounded-false": {}, "bounded-true": {}})
    records = [
        replace(examples.record("a", task=task), variant=name)
        for task in ("one", "two")
        for name in ("bounded-false", "bounded-true")
    ]

    lines = shown(examples.run_of_variants(metadata, *records)).splitlines()

    assert ["Pass", "rate", "bounded-false", "bounded-true"] in [line.split() for line in lines]


def test_variants_of_a_run_about_labelled_answers_have_its_columns() -> None:
    metadata = examples.variants(a={"dataset": {"source": "s", "cases": 1, "labelled": True}})
    made = examples.record("x", verdict=examples.DECIDED_WRONGLY, generation=examples.decided("v0"))
    lines = shown(examples.run_of_variants(metadata, replace(made, variant="a"))).splitlines()

    assert lines[0].split() == ["Variant", "Pass", "rate", "Decl.", "Valid,", "Invalid,", "Comp."]
    assert "1/2 = 0.500" in lines[3]


def test_the_facts_are_of_all_variants_and_no_variant_is_a_repeat() -> None:
    run = examples.compared(a="pp", b="pv")
    facts = "\n".join(details(run, summarize(run)))

    assert "3/4 = 0.750 (95 % interval 0.198 to 0.973) over all variants" in facts
    assert "repeats" not in facts
    assert heading(run.metadata) == "2 variants"
    assert heading(examples.metadata()) == "scripted m"


def test_rates_by_task_have_a_column_for_each_variant_where_there_is_room() -> None:
    def run(names: str) -> Run:
        metadata = examples.variants(**{name: {} for name in names})
        made = [replace(examples.record("x", task=task), variant=name) for name in names for task in ("one", "two")]
        return examples.run_of_variants(metadata, *made[:-1])

    lines = shown(run("ab")).splitlines()

    assert [line.split() for line in lines[6:10]] == [
        ["Pass", "rate", "a", "b"],
        ["-----------", "----------", "----------"],
        ["one", "1.00", "±0.40", "1.00", "±0.40"],
        ["two", "1.00", "±0.40"],
    ]
    assert "two" not in shown(run("abcdef"))


def test_of_repeats_the_share_of_cases_that_passed_each_time_is_shown() -> None:
    metadata = examples.variants(a={"repeats": 2}, b={"repeats": 2})
    passed, failed = (
        replace(examples.record("x", verdict=verdict), variant=name)
        for name, verdict in (("a", examples.PASSED), ("b", examples.VIOLATED))
    )
    second = [replace(passed, repeat=1), replace(failed, repeat=1, verdict=examples.PASSED)]
    lines = shown(examples.run_of_variants(metadata, passed, failed, *second)).splitlines()

    assert lines[0].split()[:4] == ["Variant", "Pass", "rate", "Pass^k"]
    assert [line.split()[3] for line in lines[3:5]] == ["1.00", "0.00"]
    assert "x  passed: a; 1/2 passed, schema_violation: b" in " ".join(lines)
