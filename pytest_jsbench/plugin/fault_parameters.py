"""Read the marker `jsbench_faults`, parametrize tests over its faults, and let their endpoints inject them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.errors import ContractError

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.fixture.endpoint import Injecting
    from pytest_jsbench.fixture.faults import FaultDoesNotApply, InjectedFault
    from pytest_jsbench.records.fault_reports import FaultReport
    from pytest_jsbench.verdicts import Judge

MARKER = "jsbench_faults"
#: Parameter of a test with the fault that its endpoint injects; a test may have an argument of this name.
PARAMETER = "jsbench_fault"


def parametrize_faults(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses the fixture `jsbench` once for each fault of its marker `jsbench_faults`."""
    from pytest_jsbench.fixture.faults import faults_of_marker

    marker = next(metafunc.definition.iter_markers(MARKER))
    try:
        faults = faults_of_marker(marker.args, marker.kwargs)
    except ContractError as error:
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from None
    if PARAMETER not in metafunc.fixturenames:
        metafunc.fixturenames.append(PARAMETER)
    metafunc.parametrize(PARAMETER, faults, ids=[fault.name.value for fault in faults])


def fault_of(item: pytest.Item) -> InjectedFault | None:
    """Return the fault of the test's marker; None without a marker."""
    callspec = getattr(item, "callspec", None)
    fault: InjectedFault | None = None if callspec is None else callspec.params.get(PARAMETER)
    return fault


def set_fault_properties(item: pytest.Item, reports: Sequence[FaultReport]) -> None:
    """Set a test's properties for the JUnit file: its injected faults, and how the application coped with each."""
    names = ("jsbench.faults", "jsbench.coping", "jsbench.fault_retries")
    others = [(name, value) for name, value in item.user_properties if name not in names]
    values = (
        ", ".join(report.fault for report in reports),
        ", ".join(report.coping for report in reports),
        sum(len(report.waits) for report in reports),
    )
    item.user_properties[:] = [*others, *(zip(names, values, strict=True) if reports else ())]


def injecting_of(
    item: pytest.Item, *, key: CaseKey, judge: Callable[[], Judge], stands_in: bool, opens_late: bool = False
) -> Injecting:
    """Return what the endpoint of a test needs to inject faults."""
    from pytest_jsbench.fixture.endpoint import Injecting

    fault = fault_of(item)

    def does_not_apply(error: FaultDoesNotApply) -> BaseException:
        """Return the exception that skips a test whose fault comes from its marker; any other test fails."""
        return error if fault is None else pytest.skip.Exception(str(error), _use_item_location=True)

    return Injecting(
        key=key,
        marked=() if fault is None else (fault,),
        judge=judge,
        stands_in=stands_in,
        opens_late=opens_late,
        does_not_apply=does_not_apply,
    )
