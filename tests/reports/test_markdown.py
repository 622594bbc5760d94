from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_jsbench.core.timing import Timing
from pytest_jsbench.metrics.comparison import compare
from pytest_jsbench.metrics.gates import Gate, check
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports.markdown import summary_markdown, workflow_commands
from pytest_jsbench.runs.outcomes import Run, RunStatus, RunVerdict
from pytest_jsbench.runs.records import AskedBy
from pytest_jsbench.verdicts import FailureType, Verdict
from tests import examples
from tests.examples import record

HOSTILE = "`</td><script>alert(1)</script> | **x** ``` \x1b[31m\u202e\n::error::x %0A [a](javascript:1)"


def hostile(case_id: str = "a") -> Verdict:
    return Verdict(failure_type=FailureType.SCHEMA_VIOLATION, valid=False, message=HOSTILE)


def test_the_table_the_gates_and_the_comparison_are_said() -> None:
    before = summarize(examples.run(record("a"), record("b"))).outcomes
    run = examples.run(record("a"), record("b", verdict=examples.VIOLATED), record("c", task="hard"))
    summary = summarize(run)
    gate = check(Gate.parse("pass_rate>=0.9"), summary)

    text = summary_markdown(run, summary, [gate], {"": compare(before, summary.outcomes)})

    assert text.startswith("### jsbench: `scripted` `m`\n\n| Task |")
    assert "| `hard` | 1.000 (0.207 to 1.000) | 1.000 (0.207 to 1.000) |" in text
    assert "- passed 2 of 3;" in text
    assert "- gate **NOT MET**: `pass_rate 2/3 = 0.6667, gate >= 0.9: NOT MET`" in text
    assert "- broke: `simple::b`" in text
    assert "| `simple::b` | schema_violation | `-1 is less than 0` |" in text


def test_a_rate_over_nothing_is_not_applicable() -> None:
    run = examples.run(record("a", verdict=examples.EXCLUDED))

    assert "| **total** | n/a | n/a | n/a | n/a | n/a | n/a | 0 |" in summary_markdown(run, summarize(run))


def test_a_run_in_which_a_model_reasoned_has_a_column_for_its_time() -> None:
    timing = Timing(tgt=3.0, ttft=2.0, reasoning_time=1.5)
    run = examples.run(record("a", generation=replace(examples.completion(), timing=timing)), record("b", task="hard"))
    head, _, *rows = summary_markdown(run, summarize(run)).split("\n\n")[1].splitlines()
    assert head.endswith("| TGT (s) | Reasoning (s) | Errors |")
    assert [row.split(" | ")[-2] for row in rows] == ["1.50", "n/a", "1.50"]


def test_hostile_text_stays_in_its_code_span() -> None:
    run = examples.run(record("a", verdict=hostile()))
    run = Run(metadata=examples.metadata(model=HOSTILE), planned=run.planned, outcomes=run.outcomes)

    lines = summary_markdown(run, summarize(run)).splitlines()

    assert "\x1b" not in "".join(lines)
    for line in lines:
        # what is left when code spans are taken out, as CommonMark takes them: runs of backticks of one length
        outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
        assert "script" not in outside
        assert "**x**" not in outside
        if line.startswith("| ") and not line.startswith(("| Case", "| Task")):
            assert len(re.findall(r"(?<!\\)\|", line)) in {4, 9}


@pytest.mark.parametrize(
    ("verdict", "first", "level", "room"),
    [
        (RunVerdict.of(RunStatus.FAILED, 1, ["50% of it"]), "::error title=jsbench::FAILED: 50%25 of it", "error", 9),
        (RunVerdict.of(RunStatus.PASSED, 0, ["met"]), "::notice title=jsbench::PASSED: met", "warning", 10),
    ],
)
def test_the_verdict_and_failing_cases_are_workflow_commands_up_to_a_limit(
    verdict: RunVerdict, first: str, level: str, room: int
) -> None:
    run = examples.run(
        record("passed"),
        record("excluded", verdict=examples.EXCLUDED),
        *(record(f"c{at}", verdict=hostile()) for at in range(12)),
    )

    said, *commands = workflow_commands(replace(run, verdict=verdict))

    assert (said, len(commands)) == (first, room)
    assert commands[0].startswith(f"::{level} title=jsbench simple%3A%3Ac0::schema_violation: `</td>")
    assert all("\n" not in one and "\x1b" not in one and "%250A" in one for one in commands)


def test_a_project_s_own_test_is_named_by_file_and_line() -> None:
    asked_by = AskedBy(test="deep/test_a.py::test_it", terms="sha256:0", line=7)
    run = examples.run(replace(record("c", verdict=hostile()), asked_by=asked_by))

    (command,) = workflow_commands(run, folder="sub")

    assert command.startswith("::warning file=sub/deep/test_a.py,line=7,title=jsbench simple%3A%3Ac::")


def test_a_run_of_variants_has_a_row_for_each_and_the_cases_in_which_they_differ() -> None:
    run = examples.compared(a="pv" + "v" * 60, b="pp" + "p" * 60)

    text = summary_markdown(run, summarize(run))

    assert text.startswith("### jsbench: 2 variants\n")
    assert text.index("| `b` | 1.00 ±0.03 |") < text.index("| `a` | 0.02 ±0.04 |")
    assert "| 11 | `model b` |" in text
    assert "- compared: `b against a: 61 more of 62 cases pass" in text
    assert "61 cases that some variants pass and others fail, the first 50</summary>" in text
    assert "| `simple::case01` | passed | schema_violation |" in text
    assert "| `simple::case01[a]` | schema_violation |" in text


def test_the_rates_of_variants_are_told_by_task_where_there_are_several() -> None:
    found = examples.variants(a={}, b={"model": "n"})
    records = [replace(record("x", task=task), variant=name) for task in ("one", "two") for name in "ab"][:3]
    run = examples.run_of_variants(found, *records)

    text = summary_markdown(run, summarize(run))

    assert "| Task | `a` | `b` |" in text
    assert "| `two` | 1.000 (0.207 to 1.000) | n/a |" in text


def test_no_two_cases_and_attempts_look_alike_however_long_their_names_are() -> None:
    task = "t" * 120
    failing = [record(f"{'i' * 119}{end}", task=task, verdict=examples.VIOLATED) for end in "ab"]
    again = [replace(one, repeat=1) for one in failing]
    run = examples.run(*failing, *again)

    lines = summary_markdown(run, summarize(run)).splitlines()

    rows = [line for line in lines if "schema_violation | `-1" in line]
    assert len(set(rows)) == 4
