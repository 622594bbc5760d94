"""Records on pytest's reports, which reach where reports land the same way with and without xdist."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from pytest_jsbench.records import Record

#: one ASCII text: execnet carries builtins only, and no lone surrogate, no enum, no deep nesting can break it
_RECORD = "jsbench_record"
_FAILURE_TYPE = "jsbench_failure_type"
_JOURNAL_ERROR = "jsbench_journal_error"
#: the records that a project's own test made, a list of such texts
_OWN_RECORDS = "jsbench_own_records"


def mark(report: pytest.TestReport) -> None:
    """Say that a report (setup and teardown too) is of one of the suite's cases."""
    report.__dict__.setdefault(_FAILURE_TYPE, "")


def is_marked(report: object) -> bool:
    """Whether a report is of one of the suite's cases."""
    return hasattr(report, _FAILURE_TYPE)


def attach(report: pytest.TestReport, record: Record, *, journal_error: str) -> None:
    """Put a record on its call's report, and what went wrong with writing it down."""
    failure_type = record.verdict.failure_type
    report.__dict__[_RECORD] = json.dumps(record.to_dict(), allow_nan=False)
    report.__dict__[_FAILURE_TYPE] = failure_type.value if failure_type else ""
    report.__dict__[_JOURNAL_ERROR] = journal_error


def failure_type_of(report: pytest.TestReport) -> str:
    """The failure type of a case's call; empty for a passed one, and for any other report."""
    return str(getattr(report, _FAILURE_TYPE, ""))


def take(report: pytest.TestReport) -> tuple[Record, str] | None:
    """The record off a report, which pytest keeps for the whole session, and what went wrong with writing it down."""
    text = report.__dict__.pop(_RECORD, None)
    if text is None:
        return None
    return Record.from_dict(json.loads(text)), str(report.__dict__.pop(_JOURNAL_ERROR, ""))


def attach_own(report: pytest.TestReport, records: Iterable[Record], *, journal_error: str) -> None:
    """Put the records that a project's own test made on its report, and what went wrong with writing them down."""
    report.__dict__[_OWN_RECORDS] = [json.dumps(record.to_dict(), allow_nan=False) for record in records]
    report.__dict__[_JOURNAL_ERROR] = journal_error


def blame(report: pytest.TestReport, record: Record) -> None:
    """Say that a project's own test failed of an answer."""
    failure_type = record.verdict.failure_type
    report.__dict__[_FAILURE_TYPE] = failure_type.value if failure_type else ""


def take_own(report: pytest.TestReport) -> tuple[list[Record], str]:
    """The records that a project's own test made, off its report, and what went wrong with writing them down."""
    texts = report.__dict__.pop(_OWN_RECORDS, None)
    if texts is None:
        return [], ""
    return [Record.from_dict(json.loads(text)) for text in texts], str(report.__dict__.pop(_JOURNAL_ERROR, ""))
