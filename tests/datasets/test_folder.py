from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_jsbench.cases import BrokenCase, Case
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.errors import DatasetError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "schemas"
    for name in ("b.json", "a.json", "orders/one.json", "orders/two.json", "deep/er/three.json"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"title": name}))
    return root


def keys(source: Path, **selection: object) -> list[str]:
    chosen = Selection(source=str(source), **selection)  # type: ignore[arg-type]
    return [str(key) for key in open_dataset(chosen).keys()]


def test_folders_are_tasks_and_files_are_cases_in_the_order_of_their_paths(folder: Path) -> None:
    found = keys(folder)

    assert sorted(found) == sorted(
        ["schemas::a", "schemas::b", f"{found[2].split('::')[0]}::three", "orders::one", "orders::two"]
    )
    assert found == keys(folder)


def test_a_limit_counts_within_each_task(folder: Path) -> None:
    assert [key for key in keys(folder, limit=1) if "deep" not in key] == ["schemas::a", "orders::one"]


def test_one_file_is_a_dataset_of_one(folder: Path) -> None:
    assert keys(folder / "a.json") == ["schemas::a"]


def test_a_case_is_read_when_it_is_asked_for(folder: Path) -> None:
    dataset = open_dataset(Selection(source=str(folder), tasks=("orders",)))
    (folder / "orders" / "one.json").write_text('{"type": "object"}')

    case = dataset.case(dataset.keys()[0])

    assert isinstance(case, Case)
    assert case.schema == {"type": "object"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{oops", "not JSON"),
        (b"[1]", "a JSON array is not a JSON Schema; expected an object, true or false"),
        (b"null", "a JSON null is not a JSON Schema"),
        (b'{"maximum": NaN}', "NaN is not JSON"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_holds_no_schema_is_a_broken_case_with_its_path(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    dataset = open_dataset(Selection(source=str(path)))

    case = dataset.case(dataset.keys()[0])

    assert isinstance(case, BrokenCase)
    assert case.problem.startswith(f"{path}: ")
    assert problem in case.problem


def test_a_folder_without_schemas_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"no schemas in .*: expected \*\.json files"):
        open_dataset(Selection(source=str(tmp_path)))


def test_a_source_that_is_nothing_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="expected builtin, a schema file, a folder"):
        open_dataset(Selection(source=str(tmp_path / "missing")))
