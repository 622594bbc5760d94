"""Let the applications of some clients meet each fault, and print how they coped as JSON."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.coping.applications import PYTHON_APPLICATIONS, Application, Invoice, read_with_node
from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.fixture.conformance import shared_judge
from pytest_jsbench.fixture.endpoint import Endpoint, EndpointServer, Injecting
from pytest_jsbench.fixture.faults import DEFAULTS, FaultDoesNotApply, InjectedFault
from pytest_jsbench.records.fault_reports import Coping, FaultName
from pytest_jsbench.verdicts import JudgePolicy

#: Faults of tool calls.
OF_TOOLS = (FaultName.BROKEN_ARGUMENTS, FaultName.WRONG_TOOL)
NOT_MEASURED = ""


def _way(application: Application, fault: FaultName, *, streamed: bool) -> Callable[[str], Any] | None:
    if fault in OF_TOOLS:
        return application.streamed_tool if streamed else application.whole_tool
    return application.streamed if streamed else application.whole


def _shown(value: Any) -> str:
    """Return how a value that an application returned compares with the invoice that the server has sent."""
    if value is None:
        return "nothing"
    data = value.model_dump() if isinstance(value, Invoice) else value
    if hasattr(data, "model_dump"):
        data = data.model_dump()
    if data == {"name": "example", "total": 1.0}:
        return "the invoice"
    return f"`{json.dumps(data, default=str)}`"


def measure(server: EndpointServer, read: Callable[[str], Any], fault: InjectedFault) -> str:
    """Return how an application copes with a fault, in a few words."""

    def refuse(_: object) -> NoReturn:
        raise AssertionError("there is no engine")

    def does_not_apply(error: FaultDoesNotApply) -> BaseException:
        return error

    injecting = Injecting(
        key=CaseKey(task="coping", id=fault.name.value),
        marked=(fault,),
        judge=lambda: shared_judge(JudgePolicy()),
        stands_in=True,
        does_not_apply=does_not_apply,
    )
    endpoint: Endpoint[Any] = Endpoint(
        refuse, contract=None, serve=lambda one: (server.open(one), "m"), injecting=injecting
    )
    value: Any = None
    try:
        with endpoint.faults.watch() as watched:
            value = read(endpoint.url)
    except FaultDoesNotApply:
        return NOT_MEASURED
    finally:
        endpoint.close()
    (report,) = watched.reports
    retries = f" after {len(report.waits)} retries" if len(report.waits) > 1 else " after 1 retry" * len(report.waits)
    raised = "" if watched.error is None else type(watched.error).__name__
    ends = f"raises {raised}" if raised else f"returns {_shown(value)}"
    match report.coping:
        case Coping.HUNG:
            return f"waits, {ends}{retries}"
        case Coping.RETURNED:
            return f"**{ends}**{retries}"
        case _:
            return f"{ends}{retries}"


def measure_all(applications: Iterable[Application]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield for each application its cells by fault, whole and streamed."""
    server = EndpointServer()
    for application in applications:
        cells: dict[str, list[str]] = {}
        for name, fault in DEFAULTS.items():
            ways = [_way(application, name, streamed=streamed) for streamed in (False, True)]
            cells[name.value] = [NOT_MEASURED if way is None else measure(server, way, fault) for way in ways]
            print(application.client, name.value, *cells[name.value], sep=" | ", file=sys.stderr, flush=True)
        yield application.client, cells
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coping.measurement", description=__doc__)
    parser.add_argument("clients", nargs="*", help="the installed clients")
    parser.add_argument("--program", type=Path, help="the program that uses the AI SDK, next to its node_modules")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    applications = [one for one in PYTHON_APPLICATIONS if one.client.partition(" ")[0] in args.clients]
    if args.program is not None:
        ways = {way: partial(read_with_node, program=args.program, way=way) for way in ("whole", "streamed")}
        applications.append(Application(client="ai", **ways))
    print(json.dumps(dict(measure_all(applications))))


if __name__ == "__main__":
    main()
