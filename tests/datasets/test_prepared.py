from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.datasets.base import ListedCase, Listing, Sample
from pytest_jsbench.datasets.prepared import open_prepared, prepare
from pytest_jsbench.datasets.selection import draw_sample

ROWS = {
    CaseKey(task="b", id="plain"): '{"type": "object"}',
    CaseKey(task="b", id="lines"): '{\n"title":\n"a"\n}',
    CaseKey(task="a", id="unicode"): '{"title": "é\U0001f600"}',
    CaseKey(task="a", id="surrogate"): '{"title": "\ud800"}',
    CaseKey(task="a", id="oops"): "{oops",
    CaseKey(task="a", id="null"): None,
}


def dataset(reads: list[CaseKey], *, texts: bool) -> Listing:
    """Return a dataset that notes which cases are read, with or without the texts of its rows."""

    def read(key: CaseKey) -> Case | BrokenCase:
        reads.append(key)
        return BrokenCase(key=key, problem="null") if ROWS[key] is None else Case(key=key, schema=True)

    return Listing(
        entries={
            key: ListedCase(
                task=key.task,
                name=key.id,
                where=f"file\n{key.id}",
                read=read,
                text=partial(ROWS.get, key) if texts else None,
            )
            for key in ROWS
        }
    )


def unopened() -> Listing:
    raise AssertionError("the source was opened")


def test_a_dataset_of_texts_is_read_without_its_source(tmp_path: Path) -> None:
    texts = tuple(key for key, text in ROWS.items() if text is not None)
    prepare(dataset([], texts=True).only(texts), tmp_path)
    prepared = open_prepared(tmp_path, unopened)

    assert tuple(prepared.keys()) == texts
    cases = {key.id: prepared.case(key) for key in prepared.keys()}
    assert {name: case.schema for name, case in cases.items() if isinstance(case, Case)} == {
        "plain": {"type": "object"},
        "lines": {"title": "a"},
        "unicode": {"title": "é\U0001f600"},
        "surrogate": {"title": "\ud800"},
    }
    assert isinstance(cases["oops"], BrokenCase)
    assert cases["oops"].problem.startswith("file\\noops: not JSON: ")


@pytest.mark.parametrize("texts", [False, True])
def test_needed_source_is_opened_before_any_test_runs(tmp_path: Path, texts: bool) -> None:
    opened: list[Listing] = []
    prepare(dataset([], texts=texts), tmp_path)

    def reopen() -> Listing:
        opened.append(dataset([], texts=texts))
        return opened[0]

    open_prepared(tmp_path, reopen)
    assert opened


@pytest.mark.parametrize("texts", [False, True])
def test_selection_is_passed_to_workers_without_selecting_again(tmp_path: Path, texts: bool) -> None:
    reads: list[CaseKey] = []
    source = dataset(reads, texts=texts)
    chosen = tuple(draw_sample(list(ROWS), Sample(size=3)))
    prepare(source.only(chosen), tmp_path)

    prepared = open_prepared(tmp_path, lambda: source)

    assert prepared.keys() == chosen
    assert reads == []
    assert all(prepared.case(key).key == key for key in prepared.keys())
    assert len(reads) == (sum(key.id == "null" for key in chosen) if texts else 3)
