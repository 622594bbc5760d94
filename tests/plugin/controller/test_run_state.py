from __future__ import annotations

from dataclasses import replace

from pytest_jsbench.plugin.controller.run_state import RunState
from pytest_jsbench.runner.record_keeper import AttemptResult
from pytest_jsbench.runs.outcomes import AttemptOutcome
from pytest_jsbench.runs.records import Missing, MissingReason
from tests import examples
from tests.examples import record


def test_what_was_taken_over_is_counted_once_however_often_its_test_runs() -> None:
    known = AttemptOutcome.of(record("a", verdict=examples.VIOLATED))
    reported = RunState([known.key])
    reported.plan([known.attempt])

    news = [reported.take(AttemptResult(result=known, resumed=True)) for _ in range(3)]

    assert news == [known, None, None]
    assert reported.to_run(examples.metadata()).resumed == 1


def test_a_test_that_broke_is_why_its_attempt_is_missing_and_a_record_on_disk_speaks_against_it() -> None:
    first, second = record("a"), record("b")
    reported = RunState([first.key, second.key])
    reported.plan([second.attempt, first.attempt])
    for one in (first, second):
        reported.miss(f"jsbench::{one.key}", MissingReason.ERROR)
    reported.miss("tests/test_other.py::test_it", MissingReason.ERROR)

    reported.add(map(AttemptOutcome.of, [second, record("unplanned")]))

    run = reported.to_run(examples.metadata())
    assert list(run.records) == [second]
    assert [(missing.key, missing.reason) for missing in run.missing] == [(first.key, MissingReason.ERROR)]
    assert run.planned == (first.key, second.key)


def test_own_tests_that_never_asked_are_missing_and_those_that_did_are_not() -> None:
    asked = AttemptOutcome.of(replace(record("asked"), repeat=1))
    reported = RunState([])
    reported.take(AttemptResult(result=asked), of_project=True)
    never = Missing(key=record("never").key, repeat=0, reason=MissingReason.STOPPED)

    reported.miss_project_tests([Missing(key=asked.key, repeat=0, reason=MissingReason.STOPPED), never, never])

    assert reported.attempts == (asked.attempt, never.attempt)
    assert reported.to_run(examples.metadata()).missing == (never,)
