"""Pass data between the processes of a run: input to xdist's workers, and results back on reports."""

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
from pytest_jsbench.records.outcomes import AttemptOutcome
from pytest_jsbench.records.records import Record
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.record_keeper import AttemptResult

if TYPE_CHECKING:
    from pytest_jsbench.verdicts import FailureType

_INPUT = "jsbench"
#: Results of attempts: objects in the single process, otherwise one ASCII text each, since execnet carries only
#: builtins, and lone surrogates, enums or deep nesting would break it.
_RESULTS = "jsbench_results"
_FAILURE_TYPE = "jsbench_failure_type"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInput:
    """The part of a run that a worker cannot determine itself."""

    handover: Handover
    #: The engine as the controller has prepared it, by variant.
    prepared: Mapping[str, EngineConfig] = field(default_factory=dict)
    #: The cases, as the controller has written them.
    selected: Mapping[str, Any] = field(default_factory=dict)
    #: Whether xdist may move a worker's tests to another, so that it must not call ahead of them.
    steals: bool = False
    #: Number of workers that make the run's calls.
    workers: int = 1

    @classmethod
    def of(cls, config: pytest.Config) -> WorkerInput | None:
        """Read the controller's input for this worker; None in any other process."""
        given = getattr(config, "workerinput", {})
        if _INPUT not in given:
            return None
        return replace(from_json(cls, json.loads(given[_INPUT])), workers=int(given.get("workercount", 1)))

    def send_to_worker(self, node: Any) -> None:
        """Pass the input to a worker as one JSON text, since xdist carries only builtins."""
        node.workerinput[_INPUT] = json.dumps(to_json(self))


def attach(
    report: pytest.TestReport, results: Iterable[AttemptResult], failure_type: FailureType | None = None
) -> None:
    """Put the results of a test's attempts on its report, with the failure type if an answer made the test fail."""
    report.__dict__[_RESULTS] = list(results)
    if failure_type is not None:
        report.__dict__[_FAILURE_TYPE] = failure_type.value


def failure_type_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the failure type of the answer that made a test fail; empty for any other report."""
    return str(getattr(report, _FAILURE_TYPE, ""))


def is_subtest(report: pytest.TestReport | pytest.CollectReport) -> bool:
    """Return whether the report is of a subtest, which pytest's own plugin labels."""
    return hasattr(report, "context")


def take(report: pytest.TestReport) -> list[AttemptResult]:
    """Remove the results of attempts from a report, which pytest keeps for the whole session, and return them."""
    carried = report.__dict__.pop(_RESULTS, ())
    return [from_json(AttemptResult, parse_json(each)) if isinstance(each, str) else each for each in carried]


def write_out(data: dict[str, Any]) -> None:
    """Convert each result to text in a report that will be sent or stored."""
    if _RESULTS in data:
        data[_RESULTS] = [_write(result) for result in data[_RESULTS]]


def _write(made: AttemptResult | str) -> str:
    if isinstance(made, str):
        return made
    result = made.result
    if isinstance(result, AttemptOutcome) and isinstance(result.source, Record):
        result = structs.replace(result, source=result.source.kept)
    return json_line(to_json(replace(made, result=result, explanation=""))).decode("ascii")
