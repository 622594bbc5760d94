from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.errors import DatasetError, JSBenchError
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.sources.folder import open_files
from pytest_jsbench.verdicts import Judge
from tests.datasets.reading import keys, opened
from tests.datasets.reading import problem as read_problem
from tests.datasets.reading import schema as read_schema


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "schemas"
    for name in ("b.json", "a.json", "orders/one.json", "orders/two.json", "deep/er/three.json"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"title": name}))
    return root


def test_folders_are_tasks_and_files_are_cases_in_the_order_of_their_paths(folder: Path) -> None:
    found = keys(folder)

    assert sorted(found) == sorted(
        ["schemas::a", "schemas::b", f"{found[2].split('::')[0]}::three", "orders::one", "orders::two"]
    )
    assert found == keys(folder)


def test_a_case_is_read_when_it_is_asked_for(folder: Path) -> None:
    dataset = opened(folder, tasks=("orders",))
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

    found = read_problem(path)

    assert found.startswith(f"{path}: ")
    assert problem in found


def test_a_folder_without_schemas_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"no schemas in .*: expected \*\.json files"):
        opened(tmp_path)


def test_a_file_of_fifty_megabytes_is_not_read(folder: Path) -> None:
    with (folder / "huge.json").open("wb") as file:
        file.truncate(50_000_000)

    found = read_problem(folder, "huge")

    assert found == f"{folder / 'huge.json'}: cannot be read: 50,000,000 bytes; expected at most 10,000,000"


@pytest.mark.parametrize("levels", [900, 100_000])
@pytest.mark.parametrize(
    "top", ['{"$ref": "b.json", "not": ', '{"openapi": "3.0.0", "info": {}, "components": {"schemas": {"A": ']
)
def test_a_deep_schema_ends_no_process_and_none_is_judged_by_it(folder: Path, top: str, levels: int) -> None:
    open_braces = levels + top.count("{") - top.count("}")
    (folder / "deep.json").write_text(top + '{"not": ' * levels + "{}" + "}" * open_braces)
    dataset = opened(folder / "deep.json")

    case = dataset.case(dataset.keys()[0])

    if isinstance(case, BrokenCase):
        assert "nested too deeply" in case.problem
    else:
        with Judge() as judge:
            problem = judge.inspect(case.schema)
        assert problem is not None
        assert problem.reason == "too_deep"


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "a\nb",
        "名前",
        "-x",
        "a::b",
        "a[1]",
        "\x1b[31m",
        "a" * 240,
        b"\xff\xfe".decode("utf-8", "surrogateescape"),
    ],
)
def test_any_file_name_is_a_safe_node_id(tmp_path: Path, name: str) -> None:
    root = tmp_path / "schemas"
    root.mkdir()
    (root / f"{name}.json").write_text("{oops")

    (key,) = keys(root)

    assert key.startswith("schemas::")
    assert not set(key.removeprefix("schemas::")) & set(" /:\n[]\x1b")
    assert key.encode()
    found = read_problem(root, key.removeprefix("schemas::"))
    assert found.isprintable()
    found.encode()


def test_two_files_of_one_name_stay_two_cases(folder: Path) -> None:
    pytest.importorskip("yaml", reason="needs the extra yaml")
    (folder / "a.yaml").write_text("title: other")

    assert keys(folder)[:3] == ["schemas::a", "schemas::a.2", "schemas::b"]
    assert read_schema(folder, "a.2") == {"title": "other"}


def test_the_order_is_of_names_and_not_of_a_disk_or_a_language(tmp_path: Path) -> None:
    root = tmp_path / "schemas"
    root.mkdir()
    for name in ("b", "a10", "Z", "é", "a", "a2", "a-b"):
        (root / f"{name}.json").write_text("true")
    expected = [f"schemas::{name}" for name in ("Z", "a-b", "a", "a10", "a2", "b", "é")]
    paths = list(root.iterdir())

    for order in (paths, paths[::-1]):
        dataset = open_files(Selection(source=str(root)), order, root=root)
        assert [str(key) for key in dataset.keys()] == expected


def test_a_machine_without_open_files_makes_no_case_a_broken_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = opened(folder)
    key = dataset.keys()[0]

    def exhausted(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", exhausted)
        with pytest.raises(JSBenchError, match=r"cannot be read: this machine has no more open files \(ulimit -n\)"):
            dataset.case(key)

    assert isinstance(dataset.case(key), Case)
