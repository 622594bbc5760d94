from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import JSBenchError, RecordError
from pytest_jsbench.metrics.case_outcomes import CaseOutcome
from pytest_jsbench.metrics.comparison import compare
from pytest_jsbench.records import journal
from pytest_jsbench.reports.breakdown import Grouping, break_down, keywords_of_cases
from pytest_jsbench.reports.run_json import Evaluation, parse
from pytest_jsbench.reports.terminal import table_lines
from tests.support import examples
from tests.support.examples import replace


def evaluation(**tasks: str) -> Evaluation:
    """Return a run with these outcomes of each task's cases: `p` passed, `f` failed, `?` was never judged."""
    verdicts = {"p": examples.PASSED, "f": examples.VIOLATED, "?": examples.UNJUDGED}
    records = [
        examples.record(f"c{at}", task=task, verdict=verdicts[end], schema={"minimum": 1})
        for task, ends in tasks.items()
        for at, end in enumerate(ends)
    ]
    return examples.evaluation(examples.run(*records))


def cells(breakdown: Any, columns: list[str]) -> dict[str, list[str]]:
    rows = [line.split("  ") for line in table_lines(breakdown.table(columns))[2:]]
    return {row[0]: [part.strip() for part in row[1:] if part.strip()] for row in rows}


def test_breakdown_has_rows_of_tasks_and_marks_significant_differences() -> None:
    first, second = evaluation(simple="p" * 12, hard="pppf"), evaluation(simple="f" * 12, hard="ffff")

    breakdown = break_down([first, second], Grouping.TASK)

    assert cells(breakdown, ["a", "b"]) == {
        "simple": ["12", "1.00 (.74-1)", "0.00 (0-.26) *"],
        "hard": ["4", "0.75 (.19-.99)", "0.00 (0-.60)"],
        "-" * 6: cells(breakdown, ["a", "b"])["-" * 6],
        "total": ["0.94 (.70-1)", "0.00 (0-.21)"],
    }
    assert "adjusted for 2 tests, Holm" in breakdown.note(["a", "b"])


def test_p_values_are_adjusted_for_every_test_of_the_table() -> None:
    """Check that six cases are significant alone (p = 0.031), but not as one of three tasks."""
    alone = break_down([evaluation(a="pppppp"), evaluation(a="ffffff")], Grouping.TASK)
    among = break_down([evaluation(a="pppppp", b="pp", c="ff"), evaluation(a="ffffff", b="pf", c="pf")], Grouping.TASK)

    real = [[one.real for one in breakdown.groups[0].against_first if one] for breakdown in (alone, among)]
    assert real == [[True], [False]]
    assert among.tests == 3


def test_breakdown_agrees_with_run_json_and_with_a_comparison() -> None:
    first, second = evaluation(a="ppf?", b="p"), evaluation(a="pfff", b="f")
    assert first.outcomes is not None
    assert second.outcomes is not None

    group = break_down([first, second], Grouping.TASK).groups[0]

    known = first.tasks["a"]
    assert (group.rates[0].value, group.rates[0].ci_low) == (known["pass_rate"], known["pass_rate_ci_low"])
    (none, one) = group.against_first
    assert none is None
    assert one is not None

    def only(outcomes: Mapping[CaseKey, Any]) -> dict[CaseKey, Any]:
        return {key: value for key, value in outcomes.items() if key.task == "a"}

    alone = compare(only(first.outcomes), only(second.outcomes))
    adjusted = replace(alone.difference, p_adjusted=one.difference.p_adjusted, comparisons=2)
    assert one == replace(alone, difference=adjusted)


def test_a_task_that_only_one_run_has_is_not_applicable_in_the_other() -> None:
    breakdown = break_down([evaluation(a="p"), evaluation(b="p")], Grouping.TASK)

    assert cells(breakdown, ["x", "y"])["a"] == ["1", "1.00 (.03-1)", "n/a"]
    assert breakdown.note(["x", "y"]) == "rates with 95 % intervals"


def test_another_rate_by_task_is_that_of_the_file_and_is_not_tested() -> None:
    breakdown = break_down([evaluation(a="p?"), evaluation(a="ff")], Grouping.TASK, metric="empirical_coverage")

    assert [rate.value for rate in breakdown.groups[0].rates] == [0.5, 0.0]
    assert cells(breakdown, ["a", "b"])["a"] == ["2", "0.50 (.01-.99) of 2", "0.00 (0-.84) of 2"]
    assert breakdown.note(["a", "b"]).endswith(", each followed by its denominator: completions")
    with pytest.raises(JSBenchError, match="no rate or time 'tgt_mean': expected one of agreement, call_pass_rate, "):
        break_down([evaluation(a="p")], Grouping.TASK, metric="tgt_mean")
    with pytest.raises(JSBenchError, match="--by=keyword supports only the pass rate, found error_rate"):
        break_down([evaluation(a="p")], Grouping.KEYWORD, metric="error_rate")


def test_keywords_come_from_records_most_cases_first(tmp_path: Path) -> None:
    records = [
        examples.record("a", schema={"type": "object", "minimum": 1}),
        examples.record("b", schema={"type": "object"}, verdict=examples.VIOLATED),
    ]
    run = examples.run(*records)
    journal.write(tmp_path / "records.jsonl", run.metadata, run.records)
    for name, made in (("runs/1", [examples.record("a", schema={"enum": [1]})]), ("runs/2", run.records)):
        (tmp_path / name).mkdir(parents=True)
        journal.write(tmp_path / name / "records.jsonl", run.metadata, made)
    known = examples.evaluation(run)

    for place in (tmp_path, tmp_path / "records.jsonl", tmp_path / "run.json", tmp_path / "runs"):
        breakdown = break_down([known, known], Grouping.KEYWORD, keywords=keywords_of_cases([place]))
        assert [(group.name, group.cases, group.rates[1].value) for group in breakdown.groups] == [
            ("type", 2, 0.5),
            ("minimum", 1, 1.0),
        ]


def test_breakdown_without_records_or_cases_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(JSBenchError, match=r"--by=keyword needs records\.jsonl, which none of the runs has"):
        keywords_of_cases([tmp_path / "run.json"])
    with pytest.raises(JSBenchError, match=r"x\.json has no outcomes of cases, which --by="):
        break_down([parse({"metrics": {"n": 1}}, source="x.json")], Grouping.TASK)


def test_breakdown_has_times_by_task_and_prompt_length_with_marks() -> None:
    def measured(factor: float) -> Evaluation:
        times = [20.0 + at / 10 for at in range(40)]
        times[20:] = [time * factor for time in times[20:]]
        outcomes = {
            CaseKey(task="simple", id=f"c{at}"): CaseOutcome(
                schema="", attempts=("passed",), measures={"tpot": (time,), "input_tokens": (at + 1,)}
            )
            for at, time in enumerate(times)
        }
        return replace(parse({"metrics": {"pass_rate": 1}}, source="x"), outcomes=outcomes)

    runs = [measured(1.0), measured(2.0)]
    by_length = cells(break_down(runs, Grouping.LENGTH, metric="tpot"), ["x", "y"])
    by_task = break_down(runs, Grouping.TASK, metric="tpot")

    assert list(by_length)[:4] == ["to 11 tokens", "to 20 tokens", "to 30 tokens", "to 40 tokens"]
    assert [texts[2].endswith("*") for texts in list(by_length.values())[:4]] == [False, False, True, True]
    assert by_length["to 40 tokens"] == ["10", "23.45 (23.10-23.80) of 10", "46.90 (46.20-47.60) of 10 *"]
    assert by_task.groups[0].rates[0].value == pytest.approx(21.95)
    assert "by more than 5 %, case by case" in by_task.note(["x", "y"])
    with pytest.raises(RecordError, match="no run reports the number of prompt tokens"):
        break_down([replace(runs[0], outcomes={})], Grouping.LENGTH)
