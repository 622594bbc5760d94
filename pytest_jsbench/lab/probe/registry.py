"""Find the checks of a probe by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_jsbench.lab.probe.check import Bench, Check, CheckFinding, CheckPlan, undecided
from pytest_jsbench.lab.probe.load_checks import LOAD_CHECKS
from pytest_jsbench.lab.probe.parameter_checks import PARAMETER_CHECKS
from pytest_jsbench.lab.probe.probe import INTERRUPTED
from pytest_jsbench.lab.probe.stream_check import STREAM_CHECKS
from pytest_jsbench.lab.probe.tool_checks import TOOL_CHECKS

#: Checks by name, in the order in which they are made; those of the load come last.
CHECKS: Mapping[str, Check] = {
    check.name: check for check in (*TOOL_CHECKS, *STREAM_CHECKS, *PARAMETER_CHECKS, *LOAD_CHECKS)
}


def make_checks(bench: Bench) -> Iterator[CheckFinding]:
    """Make the checks of the plan, in order, and yield their findings; after Ctrl-C, they are undecided."""
    for name in bench.plan.names:
        finding = undecided(name, INTERRUPTED) if bench.interrupted else CHECKS[name].run(bench)
        yield undecided(name, INTERRUPTED) if bench.interrupted else finding


def find_obstacles(plan: CheckPlan) -> Mapping[str, str]:
    """Return the checks of the plan that cannot be made with the engine, each with the reason."""
    obstacles = {name: CHECKS[name].obstacle(plan) for name in plan.names}
    return {name: why for name, why in obstacles.items() if why}


def count_calls(plan: CheckPlan) -> int:
    """Return the number of calls of the checks, without retries, if there are no faults."""
    return sum(CHECKS[name].calls(plan) for name in plan.names)
