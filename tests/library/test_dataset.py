from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench import BrokenCase, Case, CaseKey, Dataset, JSBenchError, Message
from pytest_jsbench.core.cases import Expected
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.selection import open_selected

SMALL = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
LARGE = {"type": "object", "properties": {name: {"type": "string"} for name in "abcdef"}}


def names(dataset: Dataset) -> list[str]:
    return [str(key) for key in dataset.keys()]


def two() -> Dataset:
    return Dataset.load({"small": SMALL, "large": LARGE})


def test_load_returns_the_same_cases_as_the_option() -> None:
    dataset = Dataset.load("builtin", tasks=["simple"], limit=3)
    source = open_selected(Selection(tasks=("simple",), limit=3))

    assert dataset.keys() == source.keys()
    assert list(dataset) == [source.case(key) for key in source.keys()]
    assert dataset.to_dict() == Selection(tasks=("simple",), limit=3).to_dict()


def test_single_task_name_is_one_task() -> None:
    assert Dataset.load("builtin", tasks="simple").keys() == Dataset.load("builtin", tasks=["simple"]).keys()


def test_a_path_is_a_source(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text(json.dumps(SMALL))

    (case,) = Dataset.load(tmp_path)

    assert isinstance(case, Case)
    assert case.schema == SMALL


def test_any_iterable_of_cases_rows_and_schemas_is_a_source() -> None:
    def held() -> Iterator[object]:
        yield Case(key=CaseKey(task="mine", id="first"), schema=SMALL)
        yield {"schema": json.dumps(LARGE), "id": "row", "task": "mine", "prompt": "Say it.", "tags": ["x"]}
        yield SMALL
        yield True
        yield {"schema": 7, "id": "broken"}

    dataset = Dataset.load(held())
    cases = {str(case.key): case for case in dataset}

    assert list(cases) == ["mine::first", "mine::row", "cases::row-2", "cases::row-3", "cases::broken"]
    row = cases["mine::row"]
    assert isinstance(row, Case)
    assert (row.schema, row.messages, row.tags) == (LARGE, (Message(role="user", content="Say it."),), ("x",))
    assert isinstance(cases["cases::broken"], BrokenCase)
    assert list(dataset) == list(cases.values())  # a generator can be iterated only once


def test_later_changes_of_a_row_do_not_change_its_case() -> None:
    row: dict[str, Any] = {"schema": {"type": "object"}, "id": "x"}
    dataset = Dataset.load([row])
    row["schema"]["type"] = "array"

    (case,) = dataset

    assert isinstance(case, Case)
    assert case.schema == {"type": "object"}


def test_types_and_mappings_of_schemas_are_sources() -> None:
    pytest.importorskip("pydantic", reason="needs the extra pydantic")
    import pydantic

    class Order(pydantic.BaseModel):
        total: int

    assert names(Dataset.load(Order)) == ["cases::Order"]
    assert names(Dataset.load([Order, SMALL])) == ["cases::Order", "cases::row-1"]
    assert names(two()) == ["cases::small", "cases::large"]


def test_a_table_of_the_datasets_library_is_a_source() -> None:
    datasets = pytest.importorskip("datasets", reason="needs the extra datasets")

    rows = [{"json_schema": json.dumps(schema), "unique_id": name} for name, schema in (("a", SMALL), ("b", LARGE))]
    table = datasets.Dataset.from_list(rows)

    assert names(Dataset.load(table)) == ["cases::a", "cases::b"]
    assert [case.schema for case in Dataset.load(table) if isinstance(case, Case)] == [SMALL, LARGE]
    assert names(Dataset.load(datasets.DatasetDict({"test": table, "train": table}), limit=1)) == ["cases::a"]
    with pytest.raises(JSBenchError, match=r"column schema is .*expected JSON Schemas as text"):
        Dataset.load(datasets.Dataset.from_list([{"schema": SMALL}]))
    with pytest.raises(JSBenchError, match="no column json_schema or schema; its columns are text"):
        Dataset.load(datasets.Dataset.from_list([{"text": "x"}]))


def test_streaming_dataset_is_read_by_rows() -> None:
    datasets = pytest.importorskip("datasets", reason="needs the extra datasets")
    table = datasets.Dataset.from_list([{"json_schema": json.dumps(SMALL), "unique_id": "a"}]).to_iterable_dataset()

    for held in (table, datasets.IterableDatasetDict({"test": table}), iter(table)):
        (case,) = Dataset.load(held)
        assert isinstance(case, Case)
        assert (str(case.key), case.schema) == ("cases::a", SMALL)
    with pytest.raises(JSBenchError, match="no column json_schema or schema; its columns are text"):
        Dataset.load(datasets.Dataset.from_list([{"text": "x"}]).to_iterable_dataset())


def test_data_frame_is_read_by_rows() -> None:
    pandas = pytest.importorskip("pandas", reason="needs the extra frames")
    frame = pandas.DataFrame({"schema": [SMALL, LARGE], "id": ["a", None], "prompt": [None, "Say it."], "n": [1, 2]})

    first, second = Dataset.load(frame)

    assert isinstance(first, Case)
    assert isinstance(second, Case)
    assert (str(first.key), first.schema, first.messages) == ("cases::a", SMALL, ())
    assert (str(second.key), second.schema, len(second.messages)) == ("cases::row-1", LARGE, 1)
    with pytest.raises(JSBenchError, match="no column json_schema or schema; its columns are n"):
        Dataset.load(frame[["n"]])


def test_cases_are_had_by_name_by_place_and_by_slice() -> None:
    dataset = two()

    assert dataset["cases::large"] == dataset[1] == dataset[CaseKey(task="cases", id="large")]
    assert names(dataset[1:]) == names(dataset[::-1])[:1] == ["cases::large"]
    assert dataset[:1].to_dict()["steps"] == ["slice :1"]


def test_filter_takes_a_condition_or_function_and_keeps_the_dataset() -> None:
    dataset = two()

    assert names(dataset.filter("size<120")) == ["cases::small"]
    assert names(dataset.filter(lambda case: case.key.id == "large")) == ["cases::large"]
    assert names(dataset.filter("size<120").filter("size>120")) == []
    assert len(dataset) == 2
    with pytest.raises(JSBenchError, match="unknown field"):
        dataset.filter("sise<3")


def test_a_function_sees_no_row_without_a_schema() -> None:
    dataset = Dataset.load([{"schema": 7, "id": "broken"}, SMALL])

    assert names(dataset.filter(lambda case: isinstance(case.schema, dict))) == ["cases::row-1"]
    assert [type(case) for case in dataset.map(lambda case: case)] == [BrokenCase, Case]


def test_map_changes_a_whole_case_or_its_parts() -> None:
    dataset = two().map(lambda case: replace(case, tags=("mine",)))
    dataset = dataset.map(lambda case: {"schema": {**dict(case.schema), "title": case.key.id}, "prompt": "Fill it."})  # type: ignore[arg-type]

    case = dataset[0]

    assert case == Case(
        key=CaseKey(task="cases", id="small"),
        schema={**SMALL, "title": "small"},
        messages=(Message(role="user", content="Fill it."),),
        tags=("mine",),
    )
    assert dataset.map(lambda _: {"tags": []})[0] == replace(case, tags=())
    assert isinstance(original := two()[0], Case)
    assert original.tags == ()


def test_changed_case_keeps_its_expectation_unless_the_function_sets_one() -> None:
    by_capitals = {"type": "string", "x-jsbench-compare": {"casefold": True}}
    row = {"id": "one", "schema": {"properties": {"a": by_capitals}}, "expected": {"a": "ACME"}}
    dataset = Dataset.load([row])
    assert isinstance(case := dataset[0], Case)

    assert dataset.map(lambda _: {"tags": ["x"]})[0] == replace(case, tags=("x",))
    other = dataset.map(lambda _: {"schema": {"properties": {"b": by_capitals}}, "expected": {"b": "x"}})[0]
    assert isinstance(other, Case)
    assert other.schema == {"properties": {"b": {"type": "string"}}}
    assert other.expected == Expected(
        value={"b": "x"}, comparers={f"/properties/{name}": {"casefold": True} for name in "ab"}
    )


@pytest.mark.parametrize(
    "asked",
    [
        lambda: two().prompts(shots=99),
        lambda: Dataset.load("builtin").prompts("fields", shots=-1),
        lambda: list(two().filter("size<<1")),
        lambda: two().sample(-1),
        lambda: Dataset.load("builtin", limit=-1),
    ],
)
def test_dataset_errors_use_the_names_of_arguments(asked: Callable[[], object]) -> None:
    with pytest.raises(JSBenchError) as refused:
        asked()

    assert "--jsbench" not in f"{refused.value} {refused.value.where}"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda load, _: load(7), "an int is not a dataset; expected the name of a source"),
        (lambda load, _: load("builtin", split="dev"), "remove split=dev"),
        (lambda load, _: load("builtin", sample=3), r"no argument 'sample': use Dataset.sample\(size, seed\)"),
        (lambda load, _: load("a/b", name="easy"), "no argument 'name': pass it as tasks="),
        (lambda load, _: load.__self__("builtin"), r"create a dataset with Dataset.load\('builtin'\)"),
        (lambda load, _: load("builtin", task="simple"), "Dataset.load has no argument 'task': did you mean 'tasks'"),
        (
            lambda load, _: load("builtin", limit="5"),
            "Dataset.load: limit is '5'; expected a whole number of at least 1",
        ),
        (
            lambda _, two: two.filter(5),
            "wanted is 5; expected a condition such as 'size<2000', or a function of a case",
        ),
        (lambda _, two: two.map({}), "function is a dict; expected a function of a case"),
        (lambda _, two: two.prompts(shots="x"), "shots is 'x'"),
        (
            lambda _, two: two[2],
            "no case 2 in <Dataset of 'in memory'>: expected task::id of a case, or a number below 2",
        ),
        (lambda _, two: two["cases::smal"], "no case cases::smal .*: did you mean cases::small"),
        (lambda _, two: two.filter("id:large")[CaseKey(task="cases", id="small")], "no case cases::small in .*filter"),
    ],
)
def test_invalid_use_of_a_dataset_is_one_line(call: Callable[[Any, Any], object], message: str) -> None:
    with pytest.raises(JSBenchError, match=message) as refused:
        call(Dataset.load, two())
    assert refused.value.where == "split" or "split" not in message


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (lambda _: None, "returned a NoneType for cases::small"),
        (lambda _: {"scheme": {}}, "returned scheme for cases::small; expected a changed case, or a mapping of any"),
        (lambda _: {"schema": 7}, "cases::small: .*a JSON number is not a JSON Schema"),
        (lambda case: replace(case, key=CaseKey(task="a", id="b")), "returned the case a::b for cases::small"),
        (lambda case: case.nothing, "raised AttributeError.* for cases::small"),
    ],
)
def test_function_without_a_case_as_result_is_named(gives: Any, message: str) -> None:
    with pytest.raises(JSBenchError, match=message):
        list(two().map(gives))


def test_a_sample_is_that_of_the_option() -> None:
    dataset = Dataset.load("builtin").sample(5, seed=3)

    assert len(dataset) == 5
    assert dataset.keys() == Dataset.load("builtin").sample(5, seed=3).keys()
    assert dataset.keys() != Dataset.load("builtin").sample(5, seed=4).keys()


def test_dataset_reads_nothing_before_it_is_accessed() -> None:
    read: list[str] = []

    def noted(case: Case) -> Case:
        read.append(case.key.id)
        return case

    dataset = two().map(noted).filter("size>120")
    assert read == []

    assert names(dataset) == names(dataset) == ["cases::large"]
    assert read == ["small", "large"]


def test_prompts_come_from_a_preset_a_function_or_the_case_itself() -> None:
    dataset = Dataset.load([{"schema": 7}, SMALL])

    ((case, prompt),) = dataset.prompts("schema")
    assert case.schema == SMALL
    assert "integer" in prompt.messages[-1].content

    ((_, own),) = dataset.prompts(lambda case: f"Fill {case.key.id}.")
    assert own.messages == (Message(role="user", content="Fill row-1."),)
    ((_, prompt),) = dataset.map(lambda _: {"prompt": "Word for word."}).prompts("fields")
    assert prompt.messages == (Message(role="user", content="Word for word."),)
    ((_, with_shot),) = dataset.prompts("schema", shots=1)
    assert len(with_shot.messages) > len(prompt.messages)


def test_dataset_lists_its_steps() -> None:
    def short(case: Case) -> bool:
        return True

    dataset = two().filter("size<200").filter(short).map(lambda case: case).sample(1, seed=2)

    assert dataset.to_dict()["steps"] == ["filter size<200", "filter short()", "map <lambda>()", "sample 1 seed 2"]
    assert repr(dataset) == "<Dataset of 'in memory', filter size<200, filter short(), map <lambda>(), sample 1 seed 2>"
    assert "steps" not in two().to_dict()


def test_dataset_of_several_sources_has_the_cases_of_each(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.json").write_text("{}")

    dataset = Dataset.load([str(tmp_path / "a"), tmp_path / "b"])

    assert [str(key) for key in dataset.keys()] == ["a::x", "b::x"]
    assert dataset.to_dict()["sources"] == [str(tmp_path / "a"), str(tmp_path / "b")]
