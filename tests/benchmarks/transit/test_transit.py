"""The table of clients and types in docs/schemas-in-transit.md."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.pages import read_part
from benchmarks.transit.__main__ import ENVIRONMENTS, versions
from benchmarks.transit.measurement import measure
from benchmarks.transit.requests import SENDERS
from benchmarks.transit.shapes import SHAPES
from benchmarks.transit.tables import PAGE, PART, RESULTS, show_cell, table
from pytest_jsbench.fixture.endpoint import EndpointServer

STORED = json.loads(RESULTS.read_text("utf-8"))


@pytest.fixture
def server() -> Iterator[EndpointServer]:
    server = EndpointServer()
    yield server
    server.close()


def test_page_has_the_table_of_stored_results() -> None:
    assert read_part(PAGE, PART) == table(STORED)


def test_stored_results_cover_pinned_clients_and_all_types() -> None:
    assert STORED["versions"] == versions()
    assert list(STORED["sent"]) == [*ENVIRONMENTS, "ai"]
    assert list(ENVIRONMENTS) == list(SENDERS)
    assert all(list(cells) == list(SHAPES) for cells in STORED["sent"].values())


@pytest.mark.parametrize(
    ("found", "cell"),
    [
        ({"relation": "equal"}, "equal"),
        ({"relation": "narrower", "lost": ["type", "oneOf"]}, "narrower"),
        ({"relation": "narrower", "lost": ["additionalProperties"]}, "narrower: `additionalProperties`"),
        ({"relation": "wider", "lost": ["title", "type", "required"]}, "**wider**: `type`"),
        ({"relation": "different", "lost": ["default", "pattern"]}, "**different**: `pattern`, `default`"),
        ({"error": "ValueError"}, "raises `ValueError`"),
        ({"error": ""}, "not sent"),
    ],
)
def test_cell_names_what_was_lost(found: dict[str, Any], cell: str) -> None:
    differences = [{"kind": "lost", "keyword": keyword} for keyword in found.get("lost", [])]
    differences.append({"kind": "added", "keyword": "not"})

    assert show_cell({**found, "differences": differences}) == cell


@pytest.mark.parametrize("client", ["openai", "anthropic"])
@pytest.mark.parametrize("title", ["`pattern`", "`dict[str, int]`"])
def test_installed_client_sends_what_is_stored(server: EndpointServer, client: str, title: str) -> None:
    for name in (client, "pydantic"):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{name} is not installed")
        if version != STORED["versions"][name]:
            pytest.skip(f"{name} {version} is installed, and the table is of {STORED['versions'][name]}")
    shape = SHAPES[title]

    measured = measure(server, lambda url: SENDERS[client](url, shape), shape.model_json_schema())

    assert measured == STORED["sent"][client][title]
