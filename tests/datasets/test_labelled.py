from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.labelled import Instance, LabelledDataset
from pytest_jsbench.datasets.registry import open_labelled
from pytest_jsbench.verdicts import Judge, JudgePolicy

SCHEMAS = [
    {"schema_id": "o1", "task": "easy", "schema": {"type": "integer"}, "aliases": ["o1", "old/1"]},
    {"schema_id": "o2", "task": "easy", "schema": True},
    {"schema_id": "h1", "task": "hard", "schema": "no schema"},
    {"schema_id": "silent", "task": "hard", "schema": {}},
]
INSTANCES = [
    {"id": "o1#0", "schema_id": "o1", "valid": True, "data": 1},
    {"id": "o1#1", "schema_id": "old/1", "valid": False, "data": {"ü": [1, None]}},
    {"id": "o2#0", "schema_id": "o2", "valid": True, "data": "x"},
    {"id": "h1#0", "schema_id": "h1", "valid": True, "data": None},
    {"id": "else#0", "schema_id": "elsewhere", "valid": True, "data": 1},
]


def opened(folder: Path, **selection: Any) -> LabelledDataset:
    return open_labelled(Selection(source=str(folder), labelled=True, **selection))


def write(folder: Path, name: str, rows: list[Any]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path = folder / name
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


@pytest.fixture(params=["", ".gz"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write(tmp_path, f"schemas.jsonl{request.param}", SCHEMAS)
    write(tmp_path, f"instances.jsonl{request.param}", INSTANCES)
    return tmp_path


def test_the_schemas_that_have_answers_are_the_cases(folder: Path) -> None:
    dataset = opened(folder)
    keys = dataset.keys()
    assert [str(key) for key in keys] == ["easy::o1", "easy::o2", "hard::h1"]
    assert dataset.case(keys[0]) == Case(key=keys[0], schema={"type": "integer"})
    assert isinstance(dataset.case(keys[2]), BrokenCase)


def test_answers_to_a_schemas_other_names_are_its_own(folder: Path) -> None:
    dataset = opened(folder)
    assert dataset.instances(dataset.keys()[0]) == [
        Instance(id="o1#0", valid=True, text="1"),
        Instance(id="o1#1", valid=False, text='{"ü": [1, null]}'),
    ]


def test_tasks_and_a_limit_are_chosen_as_of_any_dataset(folder: Path) -> None:
    assert [str(key) for key in opened(folder, limit=1).keys()] == ["easy::o1", "hard::h1"]
    assert [str(key) for key in opened(folder, tasks=("hard",)).keys()] == ["hard::h1"]
    with pytest.raises(DatasetError, match="has no task 'esay': did you mean 'easy'"):
        opened(folder, tasks=("esay",))


@pytest.mark.parametrize(
    ("schemas", "message"),
    [
        (None, r"no schemas\.jsonl or schemas\.jsonl\.gz in "),
        ('{"schema_id": "a"}\n', r"schemas\.jsonl:1: .*expected an object with schema_id, task, schema"),
        ("{\n", r"schemas\.jsonl:1: not JSON: Expecting property name"),
        ('{"schema_id": [], "task": "a", "schema": {}}\n', r"schemas\.jsonl:1: schema_id is a JSON array"),
        ('{"schema_id": "a", "task": "a", "schema": {"a": 1, "a": 1}}\n', r"an object has the key 'a' twice"),
        ("\n", r"no schema in .* has an answer: expected a line of schemas\.jsonl"),
    ],
)
def test_a_folder_that_is_not_such_a_one_is_said(tmp_path: Path, schemas: str | None, message: str) -> None:
    write(tmp_path, "instances.jsonl", INSTANCES)
    if schemas is not None:
        (tmp_path / "schemas.jsonl").write_text(schemas)
    with pytest.raises(DatasetError, match=message):
        opened(tmp_path)


def test_a_file_that_is_not_gzipped_though_it_says_so_is_said(tmp_path: Path) -> None:
    (tmp_path / "instances.jsonl.gz").write_text("{}")
    with pytest.raises(DatasetError, match=r"instances\.jsonl\.gz: cannot be read: Not a gzipped file"):
        opened(tmp_path)


def test_a_source_that_is_nothing_is_said_with_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"no labelled answers '.*none': expected builtin, or a folder with"):
        opened(tmp_path / "none")


def test_the_built_in_answers_are_labelled_as_the_judge_labels_them() -> None:
    dataset = open_labelled(Selection(labelled=True, limit=3))
    labels = {True: 0, False: 0}
    with Judge(JudgePolicy(extra_fields="allow")) as judge:
        for key in dataset.keys():
            case = dataset.case(key)
            assert isinstance(case, Case)
            for instance in dataset.instances(key):
                assert judge.judge(case.schema, instance.text).valid is instance.valid, (key, instance)
                labels[instance.valid] += 1
    assert min(labels.values()) > 20
