from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_jsbench.core.generations import Completion
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.journal import Journal
from pytest_jsbench.records.records import MissingReason, Record
from pytest_jsbench.records.resumption import Recorded
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.limits import Refused
from pytest_jsbench.run.plan import Plan
from pytest_jsbench.run.record_keeper import RecordKeeper
from pytest_jsbench.settings.options import OutputOptions
from pytest_jsbench.settings.spec import RunSpec
from pytest_jsbench.verdicts import Judge
from tests.support import examples
from tests.support.examples import replace

if TYPE_CHECKING:
    from pathlib import Path


def keeping(journal: Journal, refused: list[Refused]) -> RecordKeeper:
    """Create a keeper of a run with --jsbench-output, and the list of its refusals."""
    folder = journal.path.parent
    return RecordKeeper(
        journal,
        Plan(variants={}, spec=RunSpec(outputs=OutputOptions({"output": folder}))),
        Handover(metadata=examples.metadata(), folder=folder, shared=folder),
        recorded=Recorded(),
        judge=Judge,
        refuse=refused.append,
    )


def test_a_record_that_no_json_can_hold_is_missed_and_stops_no_other(tmp_path: Path) -> None:
    journal, refused = Journal(tmp_path / "records.jsonl", examples.metadata()), list[Refused]()
    keeper = keeping(journal, refused)

    lost, _ = keeper.keep(examples.record("a", schema={"const": math.nan}))
    kept, _ = keeper.keep(examples.record("b"))
    journal.close()

    assert "not JSON compliant" in str(lost.journal_error)
    assert kept.journal_error == ""
    assert refused == []


def test_a_disk_that_takes_no_more_stops_the_run(tmp_path: Path) -> None:
    refused = list[Refused]()

    keeping(Journal(tmp_path / "none" / "records.jsonl", examples.metadata()), refused).keep(examples.record("a"))

    assert [one.reason for one in refused] == [MissingReason.DISK]


def test_result_keeps_the_explanation_and_not_the_record(tmp_path: Path) -> None:
    generation = examples.completion()
    assert isinstance(generation, Completion)
    passed = examples.record("a", generation=replace(generation, text="x" * 1_000))
    violated = replace(passed, verdict=examples.VIOLATED)
    journal = Journal(tmp_path / "records.jsonl", examples.metadata())
    keeper = keeping(journal, [])

    results = [keeper.keep(record) for record in (passed, violated)]
    journal.close()

    assert [written for _, written in results] == [passed, violated]
    assert [result.explanation for result, _ in results] == ["", violated.explanation]
    outcomes = [result.result for result, _ in results if isinstance(result.result, AttemptFacts)]
    assert [outcome.source for outcome in outcomes if isinstance(outcome.source, Record)] == []
    assert [outcome.read() for outcome in outcomes] == [passed, violated]
