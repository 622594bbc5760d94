"""Outcomes on pytest's reports, which reach where reports land the same way with and without xdist."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import assert_never

import pytest

from pytest_jsbench.cases import CaseKey
from pytest_jsbench.missing import Missing, MissingReason
from pytest_jsbench.plugin.outcomes import Outcome
from pytest_jsbench.records import Record

#: one ASCII text: execnet carries builtins only, and no lone surrogate, no enum, no deep nesting can break it
_OUTCOME = "jsbench_outcome"
_FAILURE_TYPE = "jsbench_failure_type"


def mark(report: pytest.TestReport) -> None:
    """Say that a report (setup and teardown too) is of one of the suite's cases."""
    report.__dict__.setdefault(_FAILURE_TYPE, "")


def is_marked(report: object) -> bool:
    """Whether a report is of one of the suite's cases."""
    return hasattr(report, _FAILURE_TYPE)


def attach(report: pytest.TestReport, outcome: Outcome) -> None:
    """Put what became of an attempt on its call's report."""
    result, record, missing = outcome.result, None, None
    match result:
        case Record():
            record = result.to_dict()
            failure_type = result.verdict.failure_type
            report.__dict__[_FAILURE_TYPE] = failure_type.value if failure_type else ""
        case Missing():
            missing = asdict(result)
        case _:
            assert_never(result)
    data = {"record": record, "missing": missing, "resumed": outcome.resumed, "journal_error": outcome.journal_error}
    report.__dict__[_OUTCOME] = json.dumps(data, allow_nan=False)


def failure_type_of(report: pytest.TestReport) -> str:
    """The failure type of a case's call; empty for a passed one, and for any other report."""
    return str(getattr(report, _FAILURE_TYPE, ""))


def take(report: pytest.TestReport) -> Outcome | None:
    """What became of an attempt, off its report, which pytest keeps for the whole session."""
    text = report.__dict__.pop(_OUTCOME, None)
    if text is None:
        return None
    data = json.loads(text)
    return Outcome(
        result=Record.from_dict(data["record"]) if data["missing"] is None else _missing(**data["missing"]),
        resumed=data["resumed"],
        journal_error=data["journal_error"],
    )


def _missing(*, key: dict[str, str], repeat: int, reason: str, message: str) -> Missing:
    return Missing(key=CaseKey(**key), repeat=repeat, reason=MissingReason(reason), message=message)
