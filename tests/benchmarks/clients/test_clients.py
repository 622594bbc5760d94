"""The table of clients in docs/judging.md."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from benchmarks.clients import parsers
from benchmarks.clients.__main__ import NODE_PINS, PINS
from benchmarks.clients.answers import ANSWERS
from benchmarks.clients.tables import PAGE, PART, RESULTS, judge_answer, table
from benchmarks.pages import read_part
from pytest_jsbench import FailureType

STORED = json.loads(RESULTS.read_text("utf-8"))


def test_page_has_the_table_of_stored_results_and_judge() -> None:
    assert read_part(PAGE, PART) == table(STORED)


def test_stored_results_cover_pinned_clients_and_all_answers() -> None:
    pins = PINS | {"ai": NODE_PINS["ai"]}

    assert list(STORED) == [f"{name} {version}" for name, version in pins.items()]
    assert {len(values) for values in STORED.values()} == {len(ANSWERS)}


def test_judge_and_clients_differ_in_both_directions() -> None:
    accepted, rejected = [], []
    for number, answer in enumerate(ANSWERS):
        values = {results[number] for results in STORED.values()}
        if judge_answer(answer).passed and None in values:
            rejected.append(answer.title)
        if not judge_answer(answer).passed and values != {None}:
            accepted.append(answer.title)

    assert "JSON without its end" in accepted
    assert "`12.0` for an integer" in rejected


@pytest.mark.parametrize("client", PINS)
def test_installed_client_gives_the_stored_results(client: str) -> None:
    try:
        version = importlib.metadata.version(client)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{client} is not installed")
    if version != PINS[client]:
        pytest.skip(f"{client} {version} is installed, and the table is of {PINS[client]}")

    assert [parsers.read(client, answer) for answer in ANSWERS] == STORED[f"{client} {version}"]


def test_reader_raises_errors_other_than_rejections(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pydantic")

    def broken(model: object, text: str) -> object:
        raise RuntimeError("not the answer's fault")

    monkeypatch.setitem(parsers.READERS, "pydantic", broken)

    with pytest.raises(RuntimeError):
        parsers.read("pydantic", ANSWERS[0])


def test_failure_types_of_the_table_are_model_failures() -> None:
    kinds = {judge_answer(answer).failure_type for answer in ANSWERS}

    assert kinds == {None, FailureType.SYNTAX_ERROR, FailureType.SCHEMA_VIOLATION, FailureType.HALLUCINATION}
