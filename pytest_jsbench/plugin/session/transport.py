"""Carries the results of attempts on pytest's reports, from the process that made them to the controller."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, assert_never

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.runner.record_keeper import AttemptResult
from pytest_jsbench.runs.outcomes import AttemptOutcome
from pytest_jsbench.runs.records import Missing, MissingReason, Record

if TYPE_CHECKING:
    from pytest_jsbench.verdicts import FailureType


#: itself where reports land in the same process, and else one ASCII text: execnet carries builtins only, and no lone
#: surrogate, no enum, no deep nesting can break it
_OUTCOME = "jsbench_outcome"
_FAILURE_TYPE = "jsbench_failure_type"
#: the results of all attempts that a test of the project made
_OUTCOMES = "jsbench_own_outcomes"


def mark(report: pytest.TestReport) -> None:
    """Say that a report (setup and teardown too) is of one of the suite's cases."""
    report.__dict__.setdefault(_FAILURE_TYPE, "")


def is_marked(report: object) -> bool:
    """Whether a report is of one of the suite's cases."""
    return hasattr(report, _FAILURE_TYPE)


def attach(report: pytest.TestReport, outcome: AttemptResult) -> None:
    """Put the result of a case's attempt on the report of its call."""
    if isinstance(outcome.result, AttemptOutcome):
        report.__dict__[_FAILURE_TYPE] = _text(outcome.result.failure_type)
    report.__dict__[_OUTCOME] = outcome


def failure_type_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The failure type of a case's call; empty for a passed one, and for any other report."""
    return str(getattr(report, _FAILURE_TYPE, ""))


def take(report: pytest.TestReport) -> AttemptResult | None:
    """Take the result of a case's attempt off its report, which pytest keeps for the whole session."""
    carried = report.__dict__.pop(_OUTCOME, None)
    return None if carried is None else _read(carried)


def attach_all(report: pytest.TestReport, outcomes: Iterable[AttemptResult]) -> None:
    """Put the results of all attempts of a project's test on its report."""
    report.__dict__[_OUTCOMES] = list(outcomes)


def blame(report: pytest.TestReport, record: Record) -> None:
    """Say that a project's test failed because of this answer."""
    report.__dict__[_FAILURE_TYPE] = _text(record.verdict.failure_type)


def take_all(report: pytest.TestReport) -> list[AttemptResult]:
    """Take the results of all attempts of a project's test off its report."""
    return [_read(carried) for carried in report.__dict__.pop(_OUTCOMES, ())]


def write_out(data: dict[str, Any]) -> None:
    """Write each result as text in a report that will be sent or stored."""
    if _OUTCOME in data:
        data[_OUTCOME] = _write(data[_OUTCOME])
    if _OUTCOMES in data:
        data[_OUTCOMES] = [_write(outcome) for outcome in data[_OUTCOMES]]


def _text(failure_type: FailureType | None) -> str:
    return "" if failure_type is None else failure_type.value


def _write(outcome: AttemptResult | str) -> str:
    if isinstance(outcome, str):
        return outcome
    result, made, record, missing = outcome.result, None, None, None
    match result:
        case AttemptOutcome():
            if isinstance(result.source, Record):
                record = result.read().to_dict()
            else:
                made = result.to_dict()
        case Missing():
            missing = asdict(result)
        case _:
            assert_never(result)
    data = {
        "outcome": made,
        "record": record,
        "missing": missing,
        "resumed": outcome.resumed,
        "journal_error": outcome.journal_error,
        "classifier_errors": outcome.classifier_errors,
        "recording_error": outcome.recording_error,
    }
    return json.dumps(data, allow_nan=False)


def _read(carried: AttemptResult | str) -> AttemptResult:
    if isinstance(carried, AttemptResult):
        return carried
    data: dict[str, Any] = json.loads(carried)
    return AttemptResult(
        result=_result(data),
        resumed=data["resumed"],
        journal_error=data["journal_error"],
        classifier_errors=tuple(data["classifier_errors"]),
        recording_error=data["recording_error"],
    )


def _result(data: Mapping[str, Any]) -> AttemptOutcome | Missing:
    if data["missing"] is not None:
        return _missing(**data["missing"])
    if data["outcome"] is not None:
        return AttemptOutcome.from_dict(data["outcome"])
    return AttemptOutcome.of(Record.from_dict(data["record"]))


def _missing(*, key: dict[str, str], reason: str, **others: Any) -> Missing:
    return Missing(key=CaseKey(**key), reason=MissingReason(reason), **others)
