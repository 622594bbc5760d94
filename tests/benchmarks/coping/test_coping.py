"""The table of clients and faults in docs/faults.md."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator

import pytest

from benchmarks.coping.__main__ import versions
from benchmarks.coping.applications import PYTHON_APPLICATIONS, Application
from benchmarks.coping.measurement import measure
from benchmarks.coping.tables import PAGE, PART, RESULTS, shorten, table
from benchmarks.pages import read_part
from pytest_jsbench.fixture.endpoint import EndpointServer
from pytest_jsbench.fixture.faults import DEFAULTS
from pytest_jsbench.records.fault_reports import FaultName

STORED = json.loads(RESULTS.read_text("utf-8"))


@pytest.fixture
def server() -> Iterator[EndpointServer]:
    server = EndpointServer()
    yield server
    server.close()


def test_page_has_the_table_of_stored_results() -> None:
    assert read_part(PAGE, PART) == table(STORED)


def test_stored_results_cover_pinned_clients_and_all_faults() -> None:
    assert STORED["versions"] == versions()
    assert list(STORED["coped"]) == [*(one.client for one in PYTHON_APPLICATIONS), "ai"]
    assert all(list(cells) == list(FaultName) for cells in STORED["coped"].values())


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("returns the invoice after 2 retries", "recovers (2)"),
        ("waits, returns the invoice after 1 retry", "recovers (1)"),
        ("raises ValidationError", "raises"),
        ("raises ValidationError after 1 retry", "raises"),
        ("**returns nothing**", "**None**"),
        ("**returns the invoice**", "**accepts**"),
        ('**returns `{"name": "e"}`**', "**a part**"),
        ("", ""),
    ],
)
def test_cell_of_the_table_is_short(cell: str, shown: str) -> None:
    assert shorten(cell) == shown


def _installed() -> list[Application]:
    """Return the applications of OpenAI's SDK if its version is the measured one."""
    try:
        version = importlib.metadata.version("openai")
    except importlib.metadata.PackageNotFoundError:
        return []
    same = version == STORED["versions"]["openai"]
    return [one for one in PYTHON_APPLICATIONS if same and one.client.startswith("openai")]


@pytest.mark.parametrize("fault", ["truncate", "refuse", "extra_field", "not_json"])
@pytest.mark.parametrize("application", _installed(), ids=lambda one: one.client)
def test_installed_client_copes_as_stored(server: EndpointServer, application: Application, fault: str) -> None:
    assert application.streamed is not None
    measured = [measure(server, read, DEFAULTS[FaultName(fault)]) for read in (application.whole, application.streamed)]
    assert measured == STORED["coped"][application.client][fault]
