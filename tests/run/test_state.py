from __future__ import annotations

from pathlib import Path

from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.journal import Journal, gather
from pytest_jsbench.records.records import Missing, MissingReason
from pytest_jsbench.run.record_keeper import AttemptResult
from pytest_jsbench.run.state import RunState
from tests.support import examples
from tests.support.examples import record, replace


def test_what_was_taken_over_is_counted_once_however_often_its_test_runs() -> None:
    known = AttemptFacts.of(record("a", verdict=examples.VIOLATED))
    reported = RunState([known.key])
    reported.plan([known.attempt])

    news = [reported.take(AttemptResult(result=known, resumed=True)) for _ in range(3)]

    assert news == [known, None, None]
    assert reported.to_run(examples.metadata()).resumed == 1


def test_record_on_disk_overrides_an_attempt_reported_as_missing() -> None:
    first, second = record("a"), record("b")
    reported = RunState([first.key, second.key])
    reported.plan([second.attempt, first.attempt])
    for one in (first, second):
        reported.add_missing(one.attempt, MissingReason.ERROR)

    reported.add(map(AttemptFacts.of, [second, record("unplanned")]))

    run = reported.to_run(examples.metadata())
    assert list(run.records) == [second]
    assert [(missing.key, missing.reason) for missing in run.missing] == [(first.key, MissingReason.ERROR)]
    assert run.planned == (first.key, second.key)


def test_own_tests_that_never_asked_are_missing_and_those_that_did_are_not() -> None:
    asked = AttemptFacts.of(replace(record("asked"), repeat=1))
    reported = RunState([])
    reported.take(AttemptResult(result=asked), from_project_test=True)
    never = Missing(key=record("never").key, repeat=0, reason=MissingReason.STOPPED)

    reported.add_missing_project_tests([Missing(key=asked.key, repeat=0, reason=MissingReason.STOPPED), never, never])

    assert reported.attempts == (asked.attempt, never.attempt)
    assert reported.to_run(examples.metadata()).missing == (never,)


def test_unreadable_records_are_renamed_with_a_warning(tmp_path: Path) -> None:
    good, torn = tmp_path / "records.gw0.jsonl", tmp_path / "records.gw1.jsonl"
    journal = Journal(good, examples.metadata())
    journal.append(record("a"))
    journal.close()
    torn.write_text('{"type": "rec\n{}\n')
    reported = RunState([record("a").key])
    reported.plan([record("a").attempt])

    reported.add_from(tmp_path)

    (said,) = reported.warnings
    assert reported.complete
    assert said.startswith(f"{torn}:1: ")
    assert said.endswith("; it is kept as records.gw1.jsonl.unreadable")
    assert [path.name for path in sorted(tmp_path.iterdir())] == [good.name, "records.gw1.jsonl.unreadable"]


def test_what_was_reported_of_a_file_that_is_put_aside_is_read_there(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "records.gw0.jsonl", examples.metadata())
    place = journal.append(record("a"))
    journal.close()
    with journal.path.open("a") as file:
        file.write('{"type": "rec\n{}\n')
    reported = RunState([record("a").key])
    reported.plan([record("a").attempt])
    reported.take(AttemptResult(result=AttemptFacts.of(record("a"), place)))

    reported.add_from(tmp_path)
    written = gather(tmp_path / "records.jsonl", reported.to_run(examples.metadata()))

    assert len(reported.warnings) == 1

    assert list(written.records) == [record("a")]
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["records.gw0.jsonl.unreadable", "records.jsonl"]
