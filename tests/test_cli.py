from __future__ import annotations

import io
from pathlib import Path

import pytest

from pytest_jsbench import journal
from pytest_jsbench.cli import main
from pytest_jsbench.verdicts import FailureType, Verdict
from tests import examples
from tests.examples import record

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}


def judged(path: Path) -> tuple[int, str]:
    out = io.StringIO()
    return main(["judge", str(path)], out=out), out.getvalue()


def test_recorded_answers_are_judged_again_and_changes_are_named(tmp_path: Path) -> None:
    wrong = Verdict(failure_type=FailureType.SYNTAX_ERROR, valid=None)
    journal.write(
        tmp_path / "records.jsonl",
        examples.metadata(),
        [record("a", schema=SCHEMA), record("b", schema=SCHEMA, verdict=wrong)],
    )

    status, shown = judged(tmp_path)

    assert status == 0
    assert "simple::b: was syntax_error, now passed" in shown
    assert "simple::a" not in shown
    assert "pass rate  2/2 = 1.000" in shown


def test_answers_that_do_not_pass_are_status_one(tmp_path: Path) -> None:
    journal.write(
        tmp_path / "records.jsonl",
        examples.metadata(),
        [record("a", schema=SCHEMA, generation=examples.completion('{"n": -1}'))],
    )

    assert judged(tmp_path / "records.jsonl")[0] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot read"), ("", "has no header line"), ('{"type": "run"}\n{}\n', "not a")],
)
def test_what_is_no_records_file_is_one_line_and_status_two(
    tmp_path: Path, content: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records.jsonl"
    if content is not None:
        path.write_text(content)

    assert main(["judge", str(path)]) == 2

    shown = capsys.readouterr().err
    assert shown.startswith("jsbench: ")
    assert message in shown or "records.jsonl:1" in shown
    assert len(shown.splitlines()) == 1
