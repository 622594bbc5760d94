"""Records on pytest's reports, which reach where reports land the same way with and without xdist."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from pytest_jsbench.records import Record

#: ASCII texts: execnet carries builtins only, and no lone surrogate, no enum, no deep nesting can break it
_RECORDS = "jsbench_records"
_FAILURE_TYPE = "jsbench_failure_type"
_JOURNAL_ERROR = "jsbench_journal_error"


def mark(report: pytest.TestReport, record: Record | None = None) -> None:
    """Say that a report (setup and teardown too) is of one of the suite's cases, or what an answer failed it of."""
    failure_type = None if record is None else record.verdict.failure_type
    report.__dict__[_FAILURE_TYPE] = failure_type.value if failure_type else ""


def is_marked(report: object) -> bool:
    """Whether a report is of one of the suite's cases."""
    return hasattr(report, _FAILURE_TYPE)


def attach(report: pytest.TestReport, records: Iterable[Record], *, journal_error: str) -> None:
    """Put the records of a test's attempts on its report, and what went wrong with writing them down."""
    report.__dict__[_RECORDS] = [json.dumps(record.to_dict(), allow_nan=False) for record in records]
    report.__dict__[_JOURNAL_ERROR] = journal_error


def failure_type_of(report: pytest.TestReport) -> str:
    """The failure type of a case's call; empty for a passed one, and for any other report."""
    return str(getattr(report, _FAILURE_TYPE, ""))


def take(report: pytest.TestReport) -> tuple[list[Record], str]:
    """The records off a report, which pytest keeps for the whole session, and what went wrong with writing them."""
    texts = report.__dict__.pop(_RECORDS, ())
    return [Record.from_dict(json.loads(text)) for text in texts], str(report.__dict__.pop(_JOURNAL_ERROR, ""))
