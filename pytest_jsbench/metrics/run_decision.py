"""What a run is decided by: its gates, what else failed, how it ended, and what of it is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_jsbench.runs.run_verdict import RunStatus, RunVerdict

if TYPE_CHECKING:
    from pytest_jsbench.metrics.gates import GateResult
    from pytest_jsbench.metrics.metrics import Metrics

#: pytest's exit statuses
_OK, _FAILED, _STOPPED, _BROKEN, _NO_TESTS = 0, 1, 2, 3, 5
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a session ended, beside its figures."""

    #: as it would be without the plugin
    exit_status: int = _OK
    #: tests that failed of an answer, by name, which gates decide about
    answers: tuple[str, ...] = ()
    #: whatever else failed, one line each, which no gate forgives
    failures: tuple[str, ...] = ()
    #: one line each: why it is not the whole of what was to be
    lacking: tuple[str, ...] = ()
    #: tests that were not to run, and would have asked
    deselected: int = 0


def decide(ending: Ending, total: Metrics, gates: Sequence[GateResult]) -> RunVerdict:
    """
    The verdict of a run.

    Gates decide about answers, and about nothing else; without them a test that failed of one fails the run. What is
    missing makes a run incomplete, unless every gate is met with it.
    """
    wrong = [*_unmet(gates, undecided=False), *_wrong(ending, gated=bool(gates))]
    lacking = [*_unmet(gates, undecided=True), *ending.lacking]
    if not gates:
        lacking += _lacking(total)
    exit_status = _exit_status(ending, total, gates, found=bool(wrong or lacking))
    if exit_status == _OK:
        return RunVerdict.of(RunStatus.PASSED, exit_status, [*_passed(total, gates), *_beside(ending)])
    if not wrong and not lacking:
        (lacking if exit_status in {_STOPPED, _NO_TESTS} else wrong).append(_unexplained(exit_status))
    status = RunStatus.FAILED if wrong else RunStatus.INCOMPLETE
    return RunVerdict.of(status, exit_status, [*wrong, *lacking])


def _exit_status(ending: Ending, total: Metrics, gates: Sequence[GateResult], *, found: bool) -> int:
    """pytest's, where the session came to no end of its own; else as what was found has it."""
    if ending.exit_status not in {_OK, _FAILED, _NO_TESTS}:
        return ending.exit_status
    if gates:
        return _FAILED if found else _OK
    if ending.exit_status == _OK and total.planned == 0:
        return _NO_TESTS
    return _FAILED if found else ending.exit_status


def _unmet(gates: Sequence[GateResult], *, undecided: bool) -> Iterator[str]:
    """The gates that are not met, or those that might be had nothing been missing."""
    names = [result.gate.text for result in gates if not result.met and result.undecided is undecided]
    if not names:
        return
    why = ", for too little was measured" if undecided else ""
    if len(gates) == 1:
        yield f"the gate is not met{why}: {names[0]}"
    else:
        yield f"{len(names)} of {len(gates)} gates are not met{why}: {', '.join(names)}"


def _wrong(ending: Ending, *, gated: bool) -> Iterator[str]:
    yield from _some(ending.failures, "failures")
    if not gated and ending.answers:
        tests = "1 test" if len(ending.answers) == 1 else f"{len(ending.answers):,} tests"
        more = ", …" if len(ending.answers) > _MOST_NAMED else ""
        yield f"{tests} failed of what was answered: {', '.join(ending.answers[:_MOST_NAMED])}{more}"


def _some(lines: Sequence[str], noun: str) -> Iterator[str]:
    yield from lines[:_MOST_NAMED]
    if len(lines) > _MOST_NAMED:
        yield f"{len(lines) - _MOST_NAMED:,} more {noun}"


def _lacking(total: Metrics) -> Iterator[str]:
    if total.errors:
        yield f"{_attempts(total.errors)} of {total.planned:,} broken or missing"
    if total.unjudged:
        yield f"{_attempts(total.unjudged)} could not be judged"


def _passed(total: Metrics, gates: Sequence[GateResult]) -> Iterator[str]:
    if gates:
        yield "the gate is met" if len(gates) == 1 else f"all {len(gates)} gates are met"
    elif total.passed == total.planned:
        yield "the attempt passed" if total.planned == 1 else f"all {total.planned:,} attempts passed"
    else:
        yield f"{total.passed:,} of {_attempts(total.planned)} passed, and no test failed"


def _beside(ending: Ending) -> Iterator[str]:
    if ending.deselected:
        yield f"{ending.deselected:,} more {'test was' if ending.deselected == 1 else 'tests were'} deselected"


def _unexplained(exit_status: int) -> str:
    said = {
        _STOPPED: "the session was stopped",
        _BROKEN: "pytest broke: internal error",
        _NO_TESTS: "nothing was measured",
    }
    return said.get(exit_status) or f"pytest ended with exit status {exit_status}"


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count:,} attempts"
