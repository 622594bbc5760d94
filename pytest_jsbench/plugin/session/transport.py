"""Carries the results of attempts on pytest's reports, from the process that made them to the controller."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, assert_never

import pytest

from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.records.outcomes import AttemptOutcome
from pytest_jsbench.records.records import Missing, Record
from pytest_jsbench.run.record_keeper import AttemptResult

if TYPE_CHECKING:
    from pytest_jsbench.verdicts import FailureType


#: the results of attempts: themselves where reports land in the same process, and else each as one ASCII text: execnet
#: carries builtins only, and no lone surrogate, no enum, no deep nesting can break it
_RESULTS = "jsbench_results"
_FAILURE_TYPE = "jsbench_failure_type"


def mark(report: pytest.TestReport) -> None:
    """Say that a report (setup and teardown too) is of one of the suite's cases."""
    report.__dict__.setdefault(_FAILURE_TYPE, "")


def is_marked(report: object) -> bool:
    """Whether a report is of one of the suite's cases."""
    return hasattr(report, _FAILURE_TYPE)


def attach(report: pytest.TestReport, results: Iterable[AttemptResult]) -> None:
    """Put the results of a test's attempts on its report."""
    report.__dict__[_RESULTS] = list(results)


def blame(report: pytest.TestReport, failure_type: FailureType | None) -> None:
    """Say that a test failed because of an answer that failed so."""
    report.__dict__[_FAILURE_TYPE] = "" if failure_type is None else failure_type.value


def failure_type_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The failure type of a case's call; empty for a passed one, and for any other report."""
    return str(getattr(report, _FAILURE_TYPE, ""))


def take(report: pytest.TestReport) -> list[AttemptResult]:
    """Take the results of attempts off a report, which pytest keeps for the whole session."""
    return [_read(carried) for carried in report.__dict__.pop(_RESULTS, ())]


def write_out(data: dict[str, Any]) -> None:
    """Write each result as text in a report that will be sent or stored."""
    if _RESULTS in data:
        data[_RESULTS] = [_write(result) for result in data[_RESULTS]]


def _write(made: AttemptResult | str) -> str:
    if isinstance(made, str):
        return made
    result = made.result
    match result:
        case AttemptOutcome(source=Record() as record):
            carried = {"record": record.to_dict()}
        case AttemptOutcome():
            carried = {"outcome": result.to_dict()}
        case Missing():
            carried = {"missing": to_json(result)}
        case _:
            assert_never(result)
    return json.dumps({**to_json(made), **carried}, allow_nan=False)


def _read(carried: AttemptResult | str) -> AttemptResult:
    if isinstance(carried, AttemptResult):
        return carried
    data: dict[str, Any] = json.loads(carried)
    result: AttemptOutcome | Missing
    if "missing" in data:
        result = from_json(Missing, data["missing"])
    elif "outcome" in data:
        result = AttemptOutcome.from_dict(data["outcome"])
    else:
        result = AttemptOutcome.of(Record.from_dict(data["record"]))
    return from_json(AttemptResult, data, result=result)
