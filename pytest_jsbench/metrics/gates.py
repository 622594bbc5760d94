"""Gates: conditions on a summary that decide the exit status."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import GateError
from pytest_jsbench.metrics.metric_names import Figure, MetricName, figure
from pytest_jsbench.metrics.summary import Summary

if TYPE_CHECKING:
    from pytest_jsbench.metrics.comparison import Comparison

_HOLDS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_EXPRESSION = re.compile(r"\s*([^\s<>=]+)\s*(>=|<=|==|>|<)\s*([^\s<>=]+)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A condition on one figure: `Github_easy.pass_rate.ci_low>=0.85`."""

    name: MetricName
    sign: str
    value: float

    @property
    def text(self) -> str:
        """The condition as it is written."""
        return f"{self.name.text}{self.sign}{self.value:.12g}"

    @classmethod
    def parse(cls, text: str) -> Gate:
        """Read `METRIC OP VALUE`; GateError says what else was found."""
        found = _EXPRESSION.fullmatch(text)
        if found is None:
            message = f"expected METRIC OP VALUE, such as pass_rate>=0.9 or ttft_p95<=2, found {text!r}"
            raise GateError(message)
        name, sign, number = MetricName.parse(found.group(1)), found.group(2), found.group(3)
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            message = f"{text!r}: expected a number after {sign}, found {number!r}"
            raise GateError(message)
        if name.is_rate and not -1 <= value <= 1:
            message = f"{text!r}: {name.metric} is a rate from 0 to 1, found {number}"
            raise GateError(message)
        return cls(name=name, sign=sign, value=value)

    @classmethod
    def least_pass_rate(cls, text: str) -> Gate:
        """The gate on the pass rate over all planned attempts; GateError where the text is no rate."""
        rate = _rate(text, f"a pass rate is a number from 0 to 1, such as 0.9; found {text!r}")
        return cls(name=MetricName.parse("pass_rate"), sign=">=", value=rate)

    @classmethod
    def most_regression(cls, text: str) -> Gate:
        """The gate on how much fewer of the baseline's cases may pass; GateError where the text is no rate."""
        rate = _rate(text, f"a regression is a number from 0 to 1, such as 0.02; found {text!r}")
        return cls(name=MetricName.parse("baseline.difference"), sign=">=", value=-rate)

    def check_task(self, tasks: Iterable[str]) -> None:
        """GateError where the gate is on a task that is none of these."""
        self.name.check_task(tasks)


def _rate(text: str, message: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise GateError(message)
    return rate


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """Whether a gate is met, and the line that says so."""

    gate: Gate
    met: bool
    message: str
    #: whether it is not met for want of what is missing alone
    undecided: bool = False


def check(gate: Gate, summary: Summary, comparison: Comparison | None = None) -> GateResult:
    """
    Hold a summary against a gate; what was not measured is never met.

    A run in which calls broke or attempts are missing meets it only if it would whatever those had said.
    """
    found = figure(gate.name, summary, comparison)
    condition = f"gate {gate.sign} {gate.value:g}"
    if found.value is None:
        message = f"{gate.name.text} n/a, {condition}: NOT MET, {found.shown}"
        return GateResult(gate=gate, met=False, message=message, undecided=True)
    said = f"{gate.name.text} {found.shown}, {condition}"
    holds = _HOLDS[gate.sign]
    if not holds(found.value, gate.value):
        open_end = any(holds(end, gate.value) for end in (found.low, found.high) if end is not None)
        return GateResult(gate=gate, met=False, message=f"{said}: NOT MET", undecided=open_end)
    if not all(holds(end, gate.value) for end in _ends(gate, found)):
        problem = "the run is incomplete, and broken or missing attempts may have changed it"
        return GateResult(gate=gate, met=False, message=f"{said}: NOT MET, {problem}", undecided=True)
    certain = "" if found.certain else " whatever the broken or missing attempts would have been"
    return GateResult(gate=gate, met=True, message=f"{said}: met{certain}")


def _ends(gate: Gate, found: Figure) -> tuple[float, ...]:
    """The ends of the figure's range that speak against the gate."""
    low, high = found.low, found.high
    assert low is not None
    assert high is not None
    return {">": (low,), "<": (high,), "=": (low, high)}[gate.sign[0]]
