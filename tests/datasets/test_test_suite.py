from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.labelled import LabelledDataset
from pytest_jsbench.datasets.registry import open_labelled
from pytest_jsbench.verdicts import Judge
from tests.verdicts.data import DATA, needs_suite

URI = "http://localhost:1234"
TESTS = [
    {"description": "a whole number", "data": 1, "valid": True},
    {"description": "a text", "data": "x", "valid": False},
]


def case(schema: Any, description: str = "an integer", tests: Any = TESTS) -> dict[str, Any]:
    return {"description": description, "schema": schema, "tests": tests}


def suite(root: Path, draft: str = "draft7", **files: Any) -> Path:
    folder = root / "tests" / draft
    folder.mkdir(parents=True)
    for name, cases in files.items():
        (folder / f"{name}.json").write_text(json.dumps(cases))
    remotes = root / "remotes" / "nested"
    remotes.mkdir(parents=True)
    (remotes / "integer.json").write_text('{"type": "integer"}')
    return folder


def opened(folder: Path, **selection: Any) -> LabelledDataset:
    return open_labelled(Selection(source=str(folder), labelled=True, **selection))


def test_a_file_is_a_task_and_its_cases_have_the_descriptions_as_names(tmp_path: Path) -> None:
    folder = suite(tmp_path, type=[case({}), case(True)], ref=[case({"$ref": "#"}, "root (pointer) $ref")])

    dataset = opened(folder)

    assert [str(key) for key in dataset.keys()] == [
        "ref::root_pointer_ref",
        "type::an_integer",
        "type::an_integer-2",
    ]
    (right, wrong) = dataset.instances(dataset.keys()[1])
    assert (right.id, right.valid, right.text) == ("a whole number", True, "1")
    assert (wrong.id, wrong.valid, wrong.text) == ("a text", False, '"x"')
    assert [str(key) for key in opened(folder, tasks=("type",), limit=1).keys()] == ["type::an_integer"]


def test_a_schema_is_of_the_draft_of_its_folder_unless_it_says_another(tmp_path: Path) -> None:
    other = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "integer"}
    dataset = opened(suite(tmp_path, draft="draft4", type=[case({"type": "integer"}), case(other), case(False)]))

    schemas = [found.schema for key in dataset.keys() if isinstance(found := dataset.case(key), Case)]

    assert schemas == [{"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}, other, False]


def test_what_a_schema_refers_to_in_remotes_is_brought_into_it(tmp_path: Path) -> None:
    dataset = opened(suite(tmp_path, ref=[case({"$ref": f"{URI}/nested/integer.json"})]))
    (key,) = dataset.keys()
    found = dataset.case(key)

    assert isinstance(found, Case)
    assert URI not in json.dumps(found.schema)
    judge = Judge()
    assert [judge.judge(found.schema, one.text).valid for one in dataset.instances(key)] == [True, False]


@pytest.mark.parametrize("path", ["../secret.json", "{root}/secret.json"])
def test_a_reference_out_of_remotes_brings_nothing_in(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.json").write_text('{"type": "integer"}')
    reference = f"{URI}/{path.format(root=tmp_path)}"

    dataset = opened(suite(tmp_path, ref=[case({"$ref": reference})]))

    found = dataset.case(dataset.keys()[0])
    assert isinstance(found, Case)
    assert isinstance(found.schema, dict)
    assert found.schema == {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": reference}


def test_what_is_no_schema_is_a_broken_case(tmp_path: Path) -> None:
    dataset = opened(suite(tmp_path, type=[case("integer")]))

    assert isinstance(dataset.case(dataset.keys()[0]), BrokenCase)


@pytest.mark.parametrize(
    ("draft", "cases", "message"),
    [
        ("draft3", [case({})], "is of no draft that is judged: expected a folder of draft4"),
        ("draft7", [{"tests": []}], "case 1 is none of the test suite: expected description, schema and tests"),
        ("draft7", [case({}, tests=[{"data": 1}])], "a test of case 1 is none: expected description, data and valid"),
    ],
)
def test_a_folder_that_is_none_of_the_suite_says_what_was_expected(
    tmp_path: Path, draft: str, cases: Any, message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        opened(suite(tmp_path, draft=draft, type=cases))


@needs_suite
@pytest.mark.parametrize(
    ("draft", "cases", "broken"),
    [("draft4", 160, 0), ("draft6", 232, 0), ("draft7", 257, 0), ("draft2019-09", 372, 3), ("draft2020-12", 383, 8)],
)
def test_the_official_suite_is_read_whole_and_the_judge_agrees_with_each_label(
    draft: str, cases: int, broken: int
) -> None:
    judge = Judge()
    dataset = opened(DATA / "JSON-Schema-Test-Suite" / "tests" / draft)
    found = {key: case for key in dataset.keys() if isinstance(case := dataset.case(key), Case)}
    asked = {key: case.schema for key, case in found.items() if judge.inspect(case.schema) is None}

    # references that lead to what depends on the way there, and metaschemas of one's own that stand elsewhere
    assert (len(dataset.keys()), len(dataset.keys()) - len(asked)) == (cases, broken)
    wrong = [
        str(key)
        for key, schema in list(asked.items())[::7]
        for one in dataset.instances(key)
        if key.task != "format" and judge.judge(schema, one.text).valid is not one.valid
    ]
    assert wrong == []
