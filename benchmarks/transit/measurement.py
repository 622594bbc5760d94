"""Compare the schemas that clients send with the declared ones, and print the results as JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.transit.requests import SENDERS
from benchmarks.transit.shapes import SHAPES
from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.fixture.application_call import ApplicationCall
from pytest_jsbench.fixture.contract import Contract
from pytest_jsbench.fixture.endpoint import Endpoint, EndpointServer
from pytest_jsbench.records.transit import Transit

#: What became of a schema: the fields of a SchemaInTransit, or the client's error in `error`.
Measured = dict[str, Any]


@contextlib.contextmanager
def endpoint_of(server: EndpointServer, declared: Schema) -> Iterator[tuple[str, list[Transit | None]]]:
    """Open an endpoint that rejects each call; yield its URL and the comparisons so far."""
    seen: list[Transit | None] = []

    def reject(call: ApplicationCall) -> Any:
        seen.append(call.transit)
        raise EngineError("no answer is needed")

    endpoint: Endpoint[Any] = Endpoint(
        reject, contract=Contract(schema=declared), serve=lambda one: (server.open(one), "m")
    )
    yield endpoint.url, seen
    endpoint.close()


def measure(server: EndpointServer, send: Callable[[str], object], declared: Schema) -> Measured:
    """Return what became of a schema on its way from a client to the endpoint."""
    with endpoint_of(server, declared) as (url, seen):
        error = _error_of(send, url)
    if not seen or seen[0] is None:
        return {"error": error}
    values: Measured = to_json(seen[0].schemas[0])
    return values


def _error_of(send: Callable[[str], object], url: str) -> str:
    try:
        send(url)
    except Exception as error:  # noqa: BLE001  a client rejects a type, or reports that its call was rejected
        return type(error).__name__
    return ""


def measure_clients(server: EndpointServer, clients: list[str]) -> Iterator[tuple[str, dict[str, Measured]]]:
    """Yield what became of each type's schema, by client."""
    for client in clients:
        cells = {}
        for title, shape in SHAPES.items():
            declared = shape.model_json_schema()

            def send(url: str, client: str = client, shape: Any = shape) -> object:
                return SENDERS[client](url, shape)

            cells[title] = measure(server, send, declared)
            print(client, title, cells[title].get("relation", cells[title]), sep=" | ", file=sys.stderr, flush=True)
        yield client, cells


def measure_node(server: EndpointServer, program: Path) -> Iterator[tuple[str, dict[str, Measured]]]:
    """Yield what became of the schemas of zod's types with the AI SDK in Node.js."""
    command = ["node", str(program)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    declared = json.loads(done.stdout)
    cells: dict[str, Measured] = {}
    for name, (title, shape) in zip(declared, SHAPES.items(), strict=True):
        assert name == shape.__name__, f"the program's types are in another order: {name}"

        def send(url: str, name: str = name) -> object:
            return subprocess.run([*command, url, name], check=True, capture_output=True)

        cells[title] = measure(server, send, declared[name])
        print("ai", title, cells[title].get("relation", cells[title]), sep=" | ", file=sys.stderr, flush=True)
    yield "ai", cells


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transit.measurement", description=__doc__)
    parser.add_argument("clients", nargs="*", help="the installed clients")
    parser.add_argument("--program", type=Path, help="the program that uses the AI SDK, next to its node_modules")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    server = EndpointServer()
    with contextlib.redirect_stdout(sys.stderr):  # clients print hints about errors
        measured = dict(measure_clients(server, args.clients))
        if args.program is not None:
            measured |= measure_node(server, args.program)
    server.close()
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
