"""Pass data between the processes of a run: input to xdist's workers, and results to the controller."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from pytest_jsbench.core.files import json_line, parse_json
from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.fault_reports import FaultReport
from pytest_jsbench.records.records import Record
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.record_keeper import AttemptResult

if TYPE_CHECKING:
    from pytest_jsbench.verdicts import FailureType

_INPUT = "jsbench"
#: Attribute of a report with the results of attempts. Between processes, each result is an ASCII text: execnet sends
#: only builtin types, and fails for lone surrogates, enums and deep nesting.
_RESULTS = "jsbench_results"
_FAILURE_TYPE = "jsbench_failure_type"
#: Attribute of a report with the faults that the test's endpoints injected, as JSON values.
_FAULTS = "jsbench_faults"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInput:
    """The data about the run that the controller passes to each worker."""

    handover: Handover
    #: Engine configurations that the controller has prepared, by variant.
    prepared: Mapping[str, EngineConfig] = field(default_factory=dict)
    #: Arguments with which `context.select` reads the selected cases; empty if the worker selects the cases.
    selected: Mapping[str, Any] = field(default_factory=dict)
    #: Reasons why the failures of quarantined cases are excused, by case.
    excuses: Mapping[str, str] = field(default_factory=dict)
    #: Whether xdist may move a worker's tests to another worker, so that no calls may be made ahead of the tests.
    steals: bool = False
    #: Number of workers that make the run's calls.
    workers: int = 1

    @classmethod
    def of(cls, config: pytest.Config) -> WorkerInput | None:
        """Read the input that the controller passed to this worker; return None in any other process."""
        given = getattr(config, "workerinput", {})
        if _INPUT not in given:
            return None
        return replace(from_json(cls, json.loads(given[_INPUT])), workers=int(given.get("workercount", 1)))

    def send_to_worker(self, node: Any) -> None:
        """Pass the input to a worker as JSON text, since xdist sends only builtin types."""
        node.workerinput[_INPUT] = json.dumps(to_json(self))


def attach(
    report: pytest.TestReport, results: Iterable[AttemptResult], failure_type: FailureType | None = None
) -> None:
    """Add the results of attempts to a test's report, and the failure type if an answer made the test fail."""
    report.__dict__[_RESULTS] = list(results)
    if failure_type is not None:
        report.__dict__[_FAILURE_TYPE] = failure_type.value


def attach_faults(report: pytest.TestReport, faults: Iterable[FaultReport]) -> None:
    """Add the faults that the endpoints of a test injected to the test's report."""
    if values := [to_json(fault) for fault in faults]:
        report.__dict__[_FAULTS] = values


def take_faults(report: pytest.TestReport) -> list[FaultReport]:
    """Remove the injected faults from a report, and return them."""
    return [from_json(FaultReport, value) for value in report.__dict__.pop(_FAULTS, ())]


def failure_type_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the failure type if the test failed because of an answer; otherwise an empty text."""
    return str(getattr(report, _FAILURE_TYPE, ""))


def is_subtest(report: pytest.TestReport | pytest.CollectReport) -> bool:
    """Return whether the report belongs to a subtest, by the attribute that only reports of subtests have."""
    return hasattr(report, "context")


def take(report: pytest.TestReport) -> list[AttemptResult]:
    """
    Remove the results of attempts from a report, because pytest keeps the report for the whole session, and return the
    results.
    """
    carried = report.__dict__.pop(_RESULTS, ())
    return [from_json(AttemptResult, parse_json(each)) if isinstance(each, str) else each for each in carried]


def write_out(data: dict[str, Any]) -> None:
    """Convert each result on a report to text before the report is sent or stored."""
    if _RESULTS in data:
        data[_RESULTS] = [_write(result) for result in data[_RESULTS]]


def _write(made: AttemptResult | str) -> str:
    if isinstance(made, str):
        return made
    result = made.result
    if isinstance(result, AttemptFacts) and isinstance(result.source, Record):
        result = structs.replace(result, source=result.source.kept)
    return json_line(to_json(replace(made, result=result, explanation=""))).decode("ascii")
