from __future__ import annotations

import pytest

from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.records import AskedBy
from pytest_jsbench.records.runs import RunStatus, RunVerdict
from pytest_jsbench.reports.markdown import workflow_commands
from pytest_jsbench.reports.run_report import summary_markdown
from tests.support import examples
from tests.support.examples import record, replace
from tests.support.hostile_texts import HOSTILE_VERDICT


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
        *(record(f"c{at}", verdict=HOSTILE_VERDICT) for at in range(12)),
    )

    verdict_command, *commands = workflow_commands(replace(run, verdict=verdict))

    assert (verdict_command, len(commands)) == (first, room)
    assert commands[0].startswith(f"::{level} title=jsbench simple%3A%3Ac0::schema_violation: `</td>")
    assert all("\n" not in command and "\x1b" not in command and "%250A" in command for command in commands)


def test_first_of_several_attempts_has_its_number_in_every_list() -> None:
    run = examples.run(replace(record("c", verdict=HOSTILE_VERDICT), variant="fast"), repeats=2)

    (command,) = workflow_commands(run)

    assert "jsbench simple%3A%3Ac[fast-1]::" in command
    assert "`simple::c[fast-1]`" in summary_markdown(run, summarize(run))


def test_a_project_s_own_test_is_named_by_file_and_line() -> None:
    asked_by = AskedBy(test="deep/test_a.py::test_it", terms="sha256:0", line=7)
    run = examples.run(replace(record("c", verdict=HOSTILE_VERDICT), asked_by=asked_by))

    (command,) = workflow_commands(run, folder="sub")

    assert command.startswith("::warning file=sub/deep/test_a.py,line=7,title=jsbench simple%3A%3Ac::")
