from __future__ import annotations

from pathlib import Path

from pytest_jsbench.plugin.controller.outputs import RunFolder
from pytest_jsbench.plugin.controller.run_state import RunState
from pytest_jsbench.runs.journal import Journal
from tests import examples
from tests.examples import record


def test_records_that_cannot_be_read_are_put_aside_and_said_and_the_others_count(tmp_path: Path) -> None:
    good, torn = tmp_path / "records.gw0.jsonl", tmp_path / "records.gw1.jsonl"
    journal = Journal(good, examples.metadata())
    journal.append(record("a"))
    journal.close()
    torn.write_text('{"type": "rec\n{}\n')
    reported = RunState([record("a").key])
    reported.plan([record("a").attempt])

    (said,) = RunFolder(tmp_path).add_to(reported)

    assert reported.complete
    assert said.startswith(f"{torn}:1: ")
    assert said.endswith("; it is kept as records.gw1.jsonl.unreadable")
    assert [path.name for path in sorted(tmp_path.iterdir())] == [good.name, "records.gw1.jsonl.unreadable"]
