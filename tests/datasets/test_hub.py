from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pytest_jsbench.cases import BrokenCase, Case, Message
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.errors import DatasetError

REAL = Path(__file__).parents[3] / "shared" / "data" / "JSONSchemaBench"


def write_hub(root: Path, configs: Mapping[str, Mapping[str, Sequence[Mapping[str, object]]]]) -> Path:
    """A folder in the hub's layout: config -> split -> rows."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra datasets")
    import pyarrow

    lines = ["---", "configs:"]
    for config, splits in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        for split, rows in splits.items():
            (root / config).mkdir(parents=True, exist_ok=True)
            parquet.write_table(
                pyarrow.Table.from_pylist(list(rows)), root / config / f"{split}-00000-of-00001.parquet"
            )
            lines += [f"  - split: {split}", f"    path: {config}/{split}-*"]
    (root / "README.md").write_text("\n".join([*lines, "---", ""]))
    return root


def row(name: str, schema: object = True) -> dict[str, object]:
    return {"json_schema": json.dumps(schema), "unique_id": name}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the extra datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    return write_hub(
        tmp_path / "hub",
        {
            "easy": {"train": [row("t1")], "test": [row("e1", {"type": "object"}), row("e2"), row("e3")]},
            "hard": {"train": [row("t2")], "test": [row("h1")]},
        },
    )


def keys(source: Path, **selection: object) -> list[str]:
    chosen = Selection(source=str(source), **selection)  # type: ignore[arg-type]
    return [str(key) for key in open_dataset(chosen).keys()]


def test_configs_are_tasks_and_the_test_split_is_taken(hub: Path) -> None:
    assert keys(hub) == ["easy::e1", "easy::e2", "easy::e3", "hard::h1"]


def test_another_split_or_all_of_them_can_be_taken(hub: Path) -> None:
    assert keys(hub, split="train") == ["easy::t1", "hard::t2"]
    assert keys(hub, split="all", tasks=("hard",)) == ["hard::t2", "hard::h1"]


def test_a_limit_counts_within_each_task(hub: Path) -> None:
    assert keys(hub, limit=2) == ["easy::e1", "easy::e2", "hard::h1"]


def test_a_row_is_parsed_when_it_is_asked_for(hub: Path) -> None:
    dataset = open_dataset(Selection(source=str(hub)))

    case = dataset.case(dataset.keys()[0])

    assert isinstance(case, Case)
    assert case.schema == {"type": "object"}


def test_a_row_that_is_not_json_is_a_broken_case_with_its_place(tmp_path: Path) -> None:
    bad = {"json_schema": "{oops", "unique_id": "bad"}
    dataset = open_dataset(Selection(source=str(write_hub(tmp_path / "hub", {"a": {"test": [bad]}}))))

    case = dataset.case(dataset.keys()[0])

    assert isinstance(case, BrokenCase)
    assert "a row 0: not JSON" in case.problem


def test_rows_of_one_name_stay_two_cases(tmp_path: Path) -> None:
    assert keys(write_hub(tmp_path / "hub", {"a": {"test": [row("x"), row("x")]}})) == ["a::x", "a::x.2"]


def test_an_unknown_split_or_task_is_one_line(hub: Path) -> None:
    with pytest.raises(DatasetError, match=r"no split 'tets' in easy: did you mean 'test'\?"):
        open_dataset(Selection(source=str(hub), split="tets"))
    with pytest.raises(DatasetError, match=r"no task 'heard': did you mean 'hard'\?"):
        open_dataset(Selection(source=str(hub), tasks=("heard",)))


def test_another_table_is_one_line_that_names_the_columns(tmp_path: Path) -> None:
    source = write_hub(tmp_path / "hub", {"a": {"test": [{"text": "x"}]}})

    with pytest.raises(DatasetError, match="no column json_schema, unique_id in a"):
        open_dataset(Selection(source=str(source)))


def test_a_hub_that_cannot_be_reached_is_one_line_that_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    with pytest.raises(DatasetError, match=r"cannot load dataset 'nobody/nothing'.*--jsbench-dataset=PATH") as error:
        open_dataset(Selection(source="nobody/nothing"))
    assert len(str(error.value).splitlines()) == 1


def test_a_folder_of_broken_tables_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "test.parquet").write_bytes(b"PAR1 or not")

    with pytest.raises(DatasetError, match=r"^cannot load dataset ") as error:
        open_dataset(Selection(source=str(tmp_path)))
    assert len(str(error.value).splitlines()) == 1


def test_a_hub_that_does_not_answer_is_not_asked_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    started = time.monotonic()

    with pytest.raises(
        DatasetError, match=r"^cannot reach http://127.0.0.1:9 \(.*\), and .*--jsbench-dataset=PATH"
    ) as error:
        open_dataset(Selection(source="nobody/nothing"))
    assert len(str(error.value).splitlines()) == 1
    assert time.monotonic() - started < 15
    assert not huggingface_hub.constants.HF_HUB_OFFLINE


def test_default_means_every_task_under_its_own_name(tmp_path: Path) -> None:
    rows = {"test": [row("a")]}
    parts = write_hub(tmp_path / "parts", {"default": {"test": [row("a"), row("b")]}, "easy": rows, "hard": rows})
    whole = write_hub(tmp_path / "whole", {"default": rows})

    assert keys(parts) == keys(parts, tasks=("default",)) == ["easy::a", "hard::a"]
    assert keys(whole) == keys(whole, tasks=("default",)) == ["default::a"]


def test_a_row_may_bring_its_own_messages(tmp_path: Path) -> None:
    source = write_hub(tmp_path / "hub", {"a": {"test": [{**row("x"), "prompt": "Name one.", "reference": "3"}]}})
    dataset = open_dataset(Selection(source=str(source)))

    case = dataset.case(dataset.keys()[0])

    assert isinstance(case, Case)
    assert (case.messages, case.reference) == ((Message(role="user", content="Name one."),), "3")


@pytest.mark.skipif(not REAL.is_dir(), reason="the real JSONSchemaBench is not here")
def test_the_real_benchmark_is_read() -> None:
    dataset = open_dataset(Selection(source=str(REAL), tasks=("Glaiveai2K", "Github_trivial"), limit=30))

    assert len(dataset.keys()) == 60
    assert all(isinstance(dataset.case(key), Case) for key in dataset.keys())
