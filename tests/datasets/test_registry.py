"""Test how datasets are opened by name: globs, installed packages, misspelled names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.datasets import registry
from pytest_jsbench.datasets.base import Selection
from tests.support.dataset_reading import keys, opened, problem, read, write
from tests.support.packages import install

INSTALLED = """
from pytest_jsbench.core.cases import Case, CaseKey


class Numbers:
    def __init__(self, selection):
        self._keys = [CaseKey(task="numbers", id=str(n)) for n in range(selection.limit or 3)]

    def keys(self):
        return self._keys

    def case(self, key):
        return Case(key=key, schema={"const": int(key.id)})


def refuse(selection):
    raise ValueError("no\\nnumbers today")


def nothing(selection):
    return {}


count = 3
"""


PROJECT = """
[project]
name = "numbers-dataset"
version = "1.0"
[project.entry-points."pytest_jsbench.datasets"]
numbers = "numbers_dataset:Numbers"
refusing = "numbers_dataset:refuse"
empty = "numbers_dataset:nothing"
count = "numbers_dataset:count"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", {"numbers_dataset.py": INSTALLED, "pyproject.toml": PROJECT}, monkeypatch)


@pytest.mark.usefixtures("installed")
def test_an_installed_package_brings_a_dataset_by_name() -> None:
    assert keys("numbers", limit=2) == ["numbers::0", "numbers::1"]
    assert read("numbers", "2") == Case(key=CaseKey(task="numbers", id="2"), schema={"const": 2})


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "refusing",
            "dataset 'refusing' cannot be opened by numbers_dataset:refuse (package numbers-dataset 1.0): ValueE",
        ),
        (
            "empty",
            "dataset 'empty': numbers_dataset:nothing (package numbers-dataset 1.0) returned a dict without case",
        ),
        ("count", "dataset 'count': numbers_dataset:count (package numbers-dataset 1.0) is an int; expected a"),
        ("numbrs", "no dataset 'numbrs': did you mean 'numbers'? expected builtin, "),
    ],
)
def test_mistake_of_a_package_is_one_line(name: str, message: str) -> None:
    with pytest.raises(DatasetError, match=f"^{re.escape(message)}"):
        keys(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(
        tmp_path / "schemas",
        {
            "a.json": True,
            "b.txt": "no",
            "c.yaml": "true",
            "deep/d.json": True,
            "deep/er/e.json": True,
            "x.jsonl": "true",
        },
    )


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.json", ["schemas::a"]),
        ("**/*.json", ["schemas::a", "deep::d", "deep_er-4866c111::e"]),
        ("deep/?.json", ["deep::d"]),
        ("[ab].*", ["schemas::a", "schemas::b"]),
    ],
)
def test_glob_matches_expected_files(folder: Path, pattern: str, expected: list[str]) -> None:
    assert keys(folder / pattern) == expected


def test_directory_has_the_same_keys_for_each_form_of_its_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("yaml", reason="needs the extra yaml")
    expected = ["schemas::a", "schemas::c", "deep::d", "deep_er-4866c111::e", "x::line-1"]

    assert keys(folder) == expected
    monkeypatch.chdir(folder)
    assert keys(".") == expected
    assert keys("../schemas") == expected
    assert keys("a.json") == ["schemas::a"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("schemsa", "did you mean 'schemas'? expected builtin, builtin-quick, a schema file, a directory"),
        ("schemas/aa.json", "did you mean 'schemas/a.json'? expected"),
        ("biultin", "did you mean 'builtin'? expected"),
        ("builtin-quik", "did you mean 'builtin-quick'? expected"),
        ("zzzzzz", "no dataset 'zzzzzz': expected builtin"),
        ("zz\x1b[31m", "no file matches 'zz\\x1b[31m': expected"),
        ("schemas/*.xml", "no file matches 'schemas/*.xml': expected a pattern"),
    ],
)
def test_unknown_source_error_lists_all_kinds_and_the_nearest_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    monkeypatch.chdir(folder.parent)

    with pytest.raises(DatasetError, match=re.escape(message)):
        registry.open_dataset(Selection(source=source))


@pytest.mark.parametrize("source", ["builtin", "builtin-quick", "{folder}", "collections:OrderedDict"])
def test_split_of_a_source_without_splits_is_rejected(folder: Path, source: str) -> None:
    source = source.format(folder=folder)

    with pytest.raises(DatasetError, match=r"^dataset '.*' has no splits; remove --jsbench-split=nope, "):
        registry.open_dataset(Selection(source=source, split="nope"))


def test_all_splits_of_a_source_without_splits_are_all_cases() -> None:
    assert keys("builtin", split="all") == keys("builtin")


def test_files_that_are_no_files_are_not_waited_for(tmp_path: Path) -> None:
    import os

    write(tmp_path, {"a.json": True, "dir.json/b.json": True})
    os.mkfifo(tmp_path / "pipe.json")

    assert [key.rpartition("::")[2] for key in keys(tmp_path)] == ["a", "b"]


def test_a_link_to_nothing_is_a_case_that_cannot_be_read(tmp_path: Path) -> None:
    root = tmp_path / "schemas"
    write(root, {"a.json": {"$ref": "loop.json"}})
    (root / "gone.json").symlink_to("nowhere.json")
    (root / "loop.json").symlink_to("loop.json")

    assert keys(root) == ["schemas::a", "schemas::gone", "schemas::loop"]
    for name in ("gone", "loop"):
        assert "cannot be read: " in problem(root, name)
    assert "which does not exist" in problem(root, "a")


def test_several_sources_are_one_suite_with_tasks_by_source(tmp_path: Path) -> None:
    write(tmp_path, {"one/schemas/x.json": True, "two/schemas/x.json": False, "two/schemas/y.json": True})
    tools = [{"name": "t", "input_schema": {"type": "object"}}, {"type": "web_search"}]
    write(tmp_path, {"tools.json": {"tools": tools}})
    sources = tuple(str(tmp_path / name) for name in ("one/schemas", "tools.json", "two/schemas"))

    dataset = opened(" + ".join(sources), sources=sources)

    names = [str(key) for key in dataset.keys()]
    assert names == ["one.schemas::x", "tools::t", "two.schemas::x", "two.schemas::y"]
    cases = {str(key): dataset.case(key) for key in dataset.keys()}
    assert all(str(case.key) == name for name, case in cases.items())
    case = cases["two.schemas::x"]
    assert isinstance(case, Case)
    assert case.schema is False
    assert "web_search" in dataset.notes[0]
    limited = opened(" + ".join(sources), sources=sources, tasks=("two.schemas",), limit=1)
    assert [str(key) for key in limited.keys()] == ["two.schemas::x"]
