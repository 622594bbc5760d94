from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.datasets.base import Instance, Listing, Selection
from pytest_jsbench.datasets.labelled import open_labelled, with_escaped_names
from pytest_jsbench.verdicts import Judge
from tests.support.dataset_reading import write
from tests.support.public_data import DATA, needs_suite

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


def opened(folder: Path, **selection: Any) -> Listing:
    return open_labelled(Selection(source=str(folder), labelled=True, **selection))


def lines(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture(params=["", ".gz"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    pack = gzip.compress if request.param else bytes
    files = {"schemas": pack(lines(SCHEMAS)), "instances": pack(lines(INSTANCES))}
    return write(tmp_path, {f"{name}.jsonl{request.param}": data for name, data in files.items()})


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
        ("\n", r"no schema in .* has an answer: expected schema_ids of instances\.jsonl that are in schemas"),
    ],
)
def test_directory_without_labelled_answers_is_rejected(tmp_path: Path, schemas: str | None, message: str) -> None:
    write(tmp_path, {"instances.jsonl": lines(INSTANCES)} | ({"schemas.jsonl": schemas} if schemas else {}))
    with pytest.raises(DatasetError, match=message):
        opened(tmp_path)


def test_unknown_source_of_labelled_answers_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"no labelled answers at '.*none': expected builtin, a directory with"):
        opened(tmp_path / "none")


def test_the_built_in_answers_are_labelled_as_the_judge_labels_them(judge: Judge) -> None:
    dataset = open_labelled(Selection(labelled=True, limit=3))
    labels = {True: 0, False: 0}
    for key in dataset.keys():
        case = dataset.case(key)
        assert isinstance(case, Case)
        for instance in dataset.instances(key):
            assert judge.judge(case.schema, instance.text).valid is instance.valid, (key, instance)
            labels[instance.valid] += 1
    assert min(labels.values()) > 20


URI = "http://localhost:1234"
TESTS = [
    {"description": "a whole number", "data": 1, "valid": True},
    {"description": "a text", "data": "x", "valid": False},
]


def entry(schema: Any, description: str = "an integer", tests: Any = TESTS) -> dict[str, Any]:
    return {"description": description, "schema": schema, "tests": tests}


def suite(root: Path, draft: str = "draft7", **files: Any) -> Path:
    write(root / "remotes", {"nested/integer.json": {"type": "integer"}})
    return write(root / "tests" / draft, {f"{name}.json": cases for name, cases in files.items()})


def test_a_file_is_a_task_and_its_cases_have_the_descriptions_as_names(tmp_path: Path) -> None:
    folder = suite(tmp_path, type=[entry({}), entry(True)], ref=[entry({"$ref": "#"}, "root (pointer) $ref")])

    dataset = opened(folder)

    assert [str(key) for key in dataset.keys()] == ["ref::root_pointer_ref", "type::an_integer", "type::an_integer.2"]
    (right, wrong) = dataset.instances(dataset.keys()[1])
    assert (right.id, right.valid, right.text) == ("a whole number", True, "1")
    assert (wrong.id, wrong.valid, wrong.text) == ("a text", False, '"x"')
    assert [str(key) for key in opened(folder, tasks=("type",), limit=1).keys()] == ["type::an_integer"]


def test_schema_has_the_draft_of_its_directory_by_default(tmp_path: Path) -> None:
    other = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "integer"}
    dataset = opened(suite(tmp_path, draft="draft4", type=[entry({"type": "integer"}), entry(other), entry(False)]))

    schemas = [found.schema for key in dataset.keys() if isinstance(found := dataset.case(key), Case)]

    assert schemas == [{"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}, other, False]


def test_references_to_remotes_are_bundled(tmp_path: Path, judge: Judge) -> None:
    dataset = opened(suite(tmp_path, ref=[entry({"$ref": f"{URI}/nested/integer.json"})]))
    (key,) = dataset.keys()
    found = dataset.case(key)

    assert isinstance(found, Case)
    assert URI not in json.dumps(found.schema)
    assert [judge.judge(found.schema, instance.text).valid for instance in dataset.instances(key)] == [True, False]


@pytest.mark.parametrize("path", ["../secret.json", "{root}/secret.json"])
def test_a_reference_out_of_remotes_brings_nothing_in(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.json").write_text('{"type": "integer"}')
    reference = f"{URI}/{path.format(root=tmp_path)}"

    dataset = opened(suite(tmp_path, ref=[entry({"$ref": reference})]))

    found = dataset.case(dataset.keys()[0])
    assert isinstance(found, Case)
    assert isinstance(found.schema, dict)
    assert found.schema == {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": reference}


def test_invalid_schema_is_a_broken_case(tmp_path: Path) -> None:
    dataset = opened(suite(tmp_path, type=[entry("integer")]))

    assert isinstance(dataset.case(dataset.keys()[0]), BrokenCase)


@pytest.mark.parametrize(
    ("draft", "cases", "message"),
    [
        ("draft3", [entry({})], "belongs to no supported draft: expected a directory of draft4"),
        ("draft7", [{"tests": []}], "case 1 is not a case of the suite: expected description, schema and tests"),
        (
            "draft7",
            [entry({}, tests=[{"data": 1}])],
            "a test of case 1 is invalid: expected description, data and valid",
        ),
    ],
)
def test_directory_outside_of_the_suite_is_rejected_with_expectation(
    tmp_path: Path, draft: str, cases: Any, message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        opened(suite(tmp_path, draft=draft, type=cases))


@needs_suite
@pytest.mark.parametrize(
    ("draft", "cases", "broken"),
    [("draft4", 160, 0), ("draft6", 232, 0), ("draft7", 257, 0), ("draft2019-09", 372, 3), ("draft2020-12", 383, 8)],
)
def test_judge_agrees_with_each_label_of_the_official_suite(judge: Judge, draft: str, cases: int, broken: int) -> None:
    dataset = opened(DATA / "JSON-Schema-Test-Suite" / "tests" / draft)
    whole = {key: case for key in dataset.keys() if isinstance(case := dataset.case(key), Case)}
    sound = {key: case.schema for key, case in whole.items() if judge.inspect(case.schema) is None}

    # references to dynamic targets, and schemas with their own metaschemas in other files
    assert (len(dataset.keys()), len(dataset.keys()) - len(sound)) == (cases, broken)
    wrong = [
        str(key)
        for key, schema in list(sound.items())[::7]
        for instance in dataset.instances(key)
        if key.task != "format" and judge.judge(schema, instance.text).valid is not instance.valid
    ]
    assert wrong == []


def test_invalid_answers_are_tried_with_escaped_names_of_the_schema_too() -> None:
    schema = {"properties": {"name": {"type": "string"}, "tags": {"items": {"properties": {"id": {}}}}}}
    values = [{"name": 5, "other": [{"tags": 'a"\\'}]}, {"other": 1}, 7, {"tags": [{"id": 1}]}]
    given = [Instance.from_value(value, name=f"i{number}", valid=False) for number, value in enumerate(values)]
    valid = Instance.from_value({"name": "x"}, name="valid", valid=True)

    tried = with_escaped_names(schema, [valid, *given])

    assert tried[:5] == [valid, *given]
    assert [(instance.id, instance.valid) for instance in tried[5:]] == [("i0/escaped", False), ("i3/escaped", False)]
    assert tried[5].text == '{"\\u006eame": 5, "other": [{"\\u0074ags": "a\\"\\\\"}]}'
    assert [json.loads(instance.text) for instance in tried[5:]] == [values[0], values[3]]
    assert with_escaped_names(True, given) == given


def test_at_most_three_invalid_answers_get_escaped_names() -> None:
    given = [Instance.from_value({"a": number}, name=str(number), valid=False) for number in range(9)]
    assert len(with_escaped_names({"required": ["a"]}, given)) == 12
