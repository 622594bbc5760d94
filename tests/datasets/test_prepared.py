from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.datasets.base import CaseSource, Row, Sample
from pytest_jsbench.datasets.prepared import PreparedDataset, prepare
from pytest_jsbench.datasets.selection import SelectedDataset, sampled

ROWS = {
    CaseKey(task="b", id="plain"): '{"type": "object"}',
    CaseKey(task="b", id="lines"): '{\n"title":\n"a"\n}',
    CaseKey(task="a", id="unicode"): '{"title": "é\U0001f600"}',
    CaseKey(task="a", id="surrogate"): '{"title": "\ud800"}',
    CaseKey(task="a", id="oops"): "{oops",
    CaseKey(task="a", id="null"): None,
}


@dataclass(frozen=True, kw_only=True)
class Keyed:
    """A dataset that says how often a case was read of it."""

    read: list[CaseKey]

    def keys(self) -> Sequence[CaseKey]:
        return tuple(ROWS)

    def case(self, key: CaseKey) -> Case | BrokenCase:
        self.read.append(key)
        return BrokenCase(key=key, problem="null") if ROWS[key] is None else Case(key=key, schema=True)


class Texts(Keyed):
    def all_rows(self) -> Iterable[tuple[CaseKey, Row]]:
        return ((key, Row(text=text, where=f"file\n{key.id}")) for key, text in ROWS.items() if text is not None)


def unopened() -> CaseSource:
    raise AssertionError("the source was opened")


def test_a_dataset_of_texts_is_read_without_its_source(tmp_path: Path) -> None:
    texts = tuple(key for key, text in ROWS.items() if text is not None)
    prepare(SelectedDataset(whole=Texts(read=[]), selected=texts), tmp_path)
    prepared = PreparedDataset.open(tmp_path, unopened)

    assert tuple(prepared.keys()) == texts
    cases = {key.id: prepared.case(key) for key in prepared.keys()}
    assert {name: case.schema for name, case in cases.items() if isinstance(case, Case)} == {
        "plain": {"type": "object"},
        "lines": {"title": "a"},
        "unicode": {"title": "é\U0001f600"},
        "surrogate": {"title": "\ud800"},
    }
    assert isinstance(cases["oops"], BrokenCase)
    assert cases["oops"].problem.startswith("file oops: not JSON: ")


def test_what_is_no_text_is_asked_of_the_source(tmp_path: Path) -> None:
    source = Texts(read=[])
    prepare(source, tmp_path)

    case = PreparedDataset.open(tmp_path, lambda: source).case(CaseKey(task="a", id="null"))

    assert isinstance(case, BrokenCase)
    assert source.read == [case.key]


@pytest.mark.parametrize("kind", [Keyed, Texts])
def test_a_source_that_will_be_asked_is_opened_before_any_test_runs(tmp_path: Path, kind: type[Keyed]) -> None:
    opened: list[CaseSource] = []
    prepare(kind(read=[]), tmp_path)

    def reopen() -> CaseSource:
        opened.append(kind(read=[]))
        return opened[0]

    PreparedDataset.open(tmp_path, reopen)
    assert opened


@pytest.mark.parametrize("kind", [Keyed, Texts])
def test_a_selection_is_handed_over_without_being_made_again(tmp_path: Path, kind: type[Keyed]) -> None:
    source = kind(read=[])
    chosen = tuple(sampled(list(ROWS), Sample(size=3)))
    prepare(SelectedDataset(whole=source, selected=chosen), tmp_path)

    prepared = PreparedDataset.open(tmp_path, lambda: source)

    assert prepared.keys() == chosen
    assert source.read == []
    assert all(prepared.case(key).key == key for key in prepared.keys())
    assert len(source.read) == (3 if kind is Keyed else sum(key.id == "null" for key in chosen))
