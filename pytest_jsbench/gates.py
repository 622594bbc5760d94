"""Gates: conditions on a summary that decide the exit status."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_jsbench.errors import GateError
from pytest_jsbench.summaries import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A least value of the pass rate over all planned attempts."""

    min_pass_rate: float

    @classmethod
    def parse(cls, text: str) -> Gate:
        """Read a rate between 0 and 1; GateError says what else was found."""
        try:
            rate = float(text)
        except ValueError:
            rate = -1.0
        if not 0 <= rate <= 1:
            message = f"a pass rate is a number from 0 to 1, such as 0.9; found {text!r}"
            raise GateError(message)
        return cls(min_pass_rate=rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """Whether a gate is met, and the line that says so."""

    gate: Gate
    met: bool
    message: str


def check(gate: Gate, summary: Summary) -> GateResult:
    """Hold a summary against a gate; missing and broken attempts count as failures, and nothing measured is not met."""
    rate = summary.total.pass_rate
    judged = summary.total.completions + summary.total.declined - summary.total.unjudged
    if rate.value is None or judged == 0:
        message = f"pass rate n/a, gate {gate.min_pass_rate:g}: NOT MET, nothing judged"
        return GateResult(gate=gate, met=False, message=message)
    met = rate.value >= gate.min_pass_rate
    message = (
        f"pass rate {rate.successes}/{rate.n} = {rate.value:.4g}, gate {gate.min_pass_rate:g}: "
        f"{'met' if met else 'NOT MET'}"
    )
    if met and not summary.total.complete:
        message += " even with every missing or failed attempt counted as a failure"
    return GateResult(gate=gate, met=met, message=message)
