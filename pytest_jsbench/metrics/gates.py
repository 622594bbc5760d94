"""
Check the gates of a run, which are conditions on its figures, and decide the run verdict.

The module `metric_names` is imported only if a run has gates.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import GateError
from pytest_jsbench.core.text import format_count, list_names
from pytest_jsbench.metrics.summary import Summary
from pytest_jsbench.records.runs import RunStatus, RunVerdict

if TYPE_CHECKING:
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.metric_names import MetricName
    from pytest_jsbench.metrics.metrics import Metrics

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_EXPRESSION = re.compile(r"\s*([^\s<>=]+)(?:\s+-\s+([^\s<>=]+))?\s*(>=|<=|==|>|<)\s*([^\s<>=]+)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A condition on a metric (`Github_easy.pass_rate.ci_low>=0.85`) or on a difference (`a.cost - b.cost<=0.1`)."""

    name: MetricName
    sign: str
    value: float
    #: Metric that is subtracted from the first metric.
    less: MetricName | None = None

    @property
    def subject(self) -> str:
        """The metric, or the difference between two metrics, that the condition is about."""
        return self.name.text if self.less is None else f"{self.name.text} - {self.less.text}"

    @property
    def text(self) -> str:
        """The condition as a user writes it."""
        return f"{self.subject}{self.sign}{self.value:.12g}"

    @classmethod
    def parse(cls, text: str, own: Collection[object] = ()) -> Gate:
        """Parse `METRIC OP VALUE`; raise GateError if invalid. `own` are custom metrics, which an error may suggest."""
        from pytest_jsbench.metrics.metric_names import MetricName

        parts = _EXPRESSION.fullmatch(text)
        if parts is None:
            message = f"expected METRIC OP VALUE, such as pass_rate>=0.9 or ttft_p95<=2, found {text!r}"
            raise GateError(message, found=text, expected="METRIC OP VALUE")
        name = MetricName.parse(parts.group(1), own)
        sign = parts.group(3)
        number = parts.group(4)
        less = None if parts.group(2) is None else MetricName.parse(parts.group(2), own)
        if less is not None and (less.metric, less.bound) != (name.metric, name.bound):
            message = f"{text!r}: a difference needs the same metric on both sides, such as a.pass_rate - b.pass_rate"
            raise GateError(message, found=less.text, expected=name.metric, where=text)
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            message = f"{text!r}: expected a number after {sign}, found {number!r}"
            raise GateError(message, found=number, expected="a number", where=text)
        if name.is_rate and not -1 <= value <= 1:
            message = f"{text!r}: {name.metric} is a rate from 0 to 1, found {number}"
            raise GateError(message, found=value, expected="a rate from 0 to 1", where=text)
        return cls(name=name, sign=sign, value=value, less=less)

    @classmethod
    def least(cls, metric: str, text: str, factor: int = 1) -> Gate:
        """Return the gate `metric >= factor * text`; raise GateError if the text is not a number from 0 to 1."""
        from pytest_jsbench.metrics.metric_names import MetricName

        try:
            rate = float(text)
        except ValueError:
            rate = math.nan
        if not 0 <= rate <= 1:
            expected = "a number from 0 to 1"
            raise GateError(f"expected {expected}, such as 0.9; found {text!r}", found=text, expected=expected)
        return cls(name=MetricName.parse(metric), sign=">=", value=factor * rate)

    def resolve(self, tasks: Collection[str] | None, variants: Collection[str]) -> Gate:
        """
        Return the gate for a run with these tasks and variants; raise GateError for unknown names.

        `tasks` is None if the tasks are unknown.
        """
        less = None if self.less is None else self.less.resolve(tasks, variants)
        return replace(self, name=self.name.resolve(tasks, variants), less=less)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """Result of a gate, with a message of one line."""

    gate: Gate
    met: bool
    message: str
    #: Whether the gate is not met only because attempts are missing.
    undecided: bool = False

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"<{self.message}>"


def check_all(
    gates: Iterable[Gate], summary: Summary, comparisons: Mapping[str, Comparison] | None = None
) -> tuple[GateResult, ...]:
    """
    Check gates against the summary of a run, and against its comparisons with a baseline.

    `comparisons` are by variant, with an empty key in a run without variants. A gate on the baseline that names no
    variant applies to each variant that the baseline also has.
    """
    by_variant = comparisons or {}
    return tuple(
        check(resolved, summary, by_variant)
        for gate in gates
        for resolved in (
            [replace(gate, name=gate.name.with_variant(name)) for name in by_variant]
            if gate.name.baseline and gate.name.variant is None and by_variant and "" not in by_variant
            else [gate]
        )
    )


def check(gate: Gate, summary: Summary, comparisons: Mapping[str, Comparison] | None = None) -> GateResult:
    """
    Check a gate against the summary of a run; a gate on a metric that was not measured is not met.

    If calls failed or attempts are missing, the gate is met only if it is met for every possible outcome of these
    attempts.
    """
    from pytest_jsbench.metrics.metric_names import read_metric

    metric = read_metric(gate.name, summary, comparisons)
    if gate.less is not None:
        metric = metric.less(read_metric(gate.less, summary, comparisons))
    condition = f"gate {gate.sign} {gate.value:g}"
    if metric.value is None:
        message = f"{gate.subject} n/a, {condition}: NOT MET, {metric.shown}"
        return GateResult(gate=gate, met=False, message=message, undecided=True)
    words = f"{gate.subject} {metric.shown}, {condition}"
    holds = _OPERATORS[gate.sign]
    if not holds(metric.value, gate.value):
        open_end = any(holds(end, gate.value) for end in (metric.low, metric.high) if end is not None)
        return GateResult(gate=gate, met=False, message=f"{words}: NOT MET", undecided=open_end)
    # Limits of the metric's possible range that could violate the gate.
    ends = {">": [metric.low], "<": [metric.high], "=": [metric.low, metric.high]}[gate.sign[0]]
    if not all(end is not None and holds(end, gate.value) for end in ends):
        problem = "the run is incomplete, and attempts without an answer could change the result"
        return GateResult(gate=gate, met=False, message=f"{words}: NOT MET, {problem}", undecided=True)
    certain = "" if metric.certain else " for any outcome of the attempts without an answer"
    return GateResult(gate=gate, met=True, message=f"{words}: met{certain}")


#: Exit statuses of pytest.
_OK = 0
_FAILED = 1
_STOPPED = 2
_BROKEN = 3
_NO_TESTS = 5
_UNEXPLAINED = {
    _STOPPED: "the session was stopped",
    _BROKEN: "internal error of pytest",
}
_MOST_NAMED = 10
#: Maximum number of failed tests that are listed, since pytest lists them too.
_MOST_TESTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a pytest session ended, apart from its metrics."""

    #: Exit status that pytest would have without the plugin.
    exit_status: int = _OK
    #: Names of the tests that failed because of an answer; if the run has gates, only the gates decide about answers.
    answers: tuple[str, ...] = ()
    #: Names of the tests that failed because of a broken schema.
    broken_schemas: tuple[str, ...] = ()
    #: One line for each other failure; such a failure fails the run even if all gates are met.
    failures: tuple[str, ...] = ()
    #: One line for each reason why the run is incomplete.
    lacking: tuple[str, ...] = ()
    #: Names of the project's tests whose calls have no schema, so that no answer is judged. A run with gates and such
    #: tests is incomplete.
    not_judged: tuple[str, ...] = ()
    #: Number of deselected tests that use an engine.
    deselected: int = 0
    #: Number of quarantined cases, which are not among the attempts that decide the run.
    quarantined: int = 0


def decide(ending: Ending, total: Metrics, gates: Sequence[GateResult]) -> RunVerdict:
    """
    Return the run verdict.

    Gates decide only about answers; without gates, a test that failed because of an answer fails the run. Missing
    attempts make a run incomplete, unless all gates are met for any outcome of these attempts.
    """
    # pytest also counts the tests without an answer as failed
    by_answers = "failed by its answer" if len(ending.answers) == 1 else "failed by their answers"
    what = by_answers if total.errors or total.unjudged else "failed"
    failed = [] if gates or not ending.answers else [_list_tests(ending.answers, what)]
    wrong = [*_describe_unmet(gates, undecided=False), *_describe_failures(ending), *failed]
    lacking = [*_describe_unmet(gates, undecided=True), *ending.lacking]
    if gates and ending.not_judged:
        lacking.append(
            f"{_list_tests(ending.not_judged, 'not judged')}; their calls have no schema: set a schema in their marker"
        )
    if not gates:
        if total.errors:
            lacking.append(f"{format_count(total.errors, 'attempt')} of {total.planned:,} without an answer")
        if total.unjudged:
            lacking.append(f"{format_count(total.unjudged, 'attempt')} could not be judged")
        if total.planned and not (total.passed or wrong or lacking):  # each failure was excused by xfail or check=False
            none = f"0 of {format_count(total.planned, 'attempt')} passed, though no test failed"
            lacking.append(f"{none}; to allow this, set a gate such as pass_rate>=0")
    exit_status = _exit_status(ending, total, gates, found=bool(wrong or lacking))
    if exit_status == _OK:
        return RunVerdict.of(RunStatus.PASSED, exit_status, [*_describe_success(total, gates, ending)])
    if not wrong and not lacking:
        if exit_status == _NO_TESTS:
            unexplained = describe_nothing(ending.quarantined)
        else:
            unexplained = _UNEXPLAINED.get(exit_status) or f"pytest ended with exit status {exit_status}"
        (lacking if exit_status in {_STOPPED, _NO_TESTS} else wrong).append(unexplained)
    status = RunStatus.FAILED if wrong else RunStatus.INCOMPLETE
    return RunVerdict.of(status, exit_status, [*wrong, *lacking])


def describe_nothing(quarantined: int) -> str:
    """Return why no attempt decides a run in which this number of cases is quarantined."""
    return "nothing was measured" + (": every selected case is quarantined" if quarantined else "")


def _exit_status(ending: Ending, total: Metrics, gates: Sequence[GateResult], *, found: bool) -> int:
    """Return pytest's exit status if the session was interrupted, otherwise the exit status for the result."""
    if ending.exit_status not in {_OK, _FAILED, _NO_TESTS}:
        return ending.exit_status
    if gates:
        return _FAILED if found else _OK
    if ending.exit_status == _OK and total.planned == 0 and not total.coping:
        return _NO_TESTS
    return _FAILED if found else ending.exit_status


def _describe_unmet(gates: Sequence[GateResult], *, undecided: bool) -> Iterator[str]:
    """Describe the unmet gates: with `undecided`, those that missing attempts could decide, otherwise the others."""
    names = [result.gate.text for result in gates if not result.met and result.undecided is undecided]
    if not names:
        return
    why = ", because too little was measured" if undecided else ""
    if len(gates) == 1:
        yield f"the gate is not met{why}: {names[0]}"
    else:
        yield f"{len(names)} of {len(gates)} gates are not met{why}: {', '.join(names)}"


def _describe_failures(ending: Ending) -> Iterator[str]:
    if ending.broken_schemas:
        yield _list_tests(ending.broken_schemas, "with a broken schema")
    yield from ending.failures[:_MOST_NAMED]
    if len(ending.failures) > _MOST_NAMED:
        yield f"{len(ending.failures) - _MOST_NAMED:,} more failures"


def _list_tests(tests: Sequence[str], what: str) -> str:
    return f"{format_count(len(tests), 'test')} {what}: {list_names(tests, _MOST_TESTS)}"


def _describe_success(total: Metrics, gates: Sequence[GateResult], ending: Ending) -> Iterator[str]:
    deselected = ending.deselected
    if gates:
        yield "the gate is met" if len(gates) == 1 else f"all {len(gates)} gates are met"
        if ending.answers:
            yield _list_tests(
                ending.answers, "failed, which the gate allows" if len(gates) == 1 else "failed, which the gates allow"
            )
    elif total.planned == 0 and total.coping:
        faults = format_count(sum(total.coping.values()), "injected fault")
        yield f"no attempt was made, and no test failed with {faults}"
    elif total.passed == total.planned:
        yield "the attempt passed" if total.planned == 1 else f"all {total.planned:,} attempts passed"
    else:
        yield f"{total.passed:,} of {format_count(total.planned, 'attempt')} passed, and no test failed"
    if ending.quarantined:
        yield f"{format_count(ending.quarantined, 'quarantined case')} left out"
    if deselected:
        yield f"{deselected:,} more {'test was' if deselected == 1 else 'tests were'} deselected"
