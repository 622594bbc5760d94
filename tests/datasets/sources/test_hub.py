from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import revision_of
from pytest_jsbench.datasets.sources.hub import open_folder, open_hub
from tests.support.dataset_reading import keys, opened

REAL = Path(__file__).parents[3] / "shared" / "data" / "JSONSchemaBench"


def write_hub(
    root: Path, configs: Mapping[str, Mapping[str, Sequence[Mapping[str, object]]]], *, files: str = "-*"
) -> Path:
    """Write a directory in the hub's layout: config -> split -> rows. With other file names, it is another layout."""
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
            lines += [f"  - split: {split}", f"    path: {config}/{split}{files}"]
    (root / "README.md").write_text("\n".join([*lines, "---", ""]))
    return root


def row(name: str, schema: object = True) -> dict[str, object]:
    return {"json_schema": json.dumps(schema), "unique_id": name}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the extra datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture(params=["-*", "-*.parquet", "-[0-9]*"], ids=["as published", "with a suffix", "another layout"])
def files(request: pytest.FixtureRequest) -> str:
    """
    Return how the card names the files: as published or with a suffix (read by pyarrow alone), or in another way (read
    by the library).
    """
    names: str = request.param
    return names


@pytest.fixture
def hub(tmp_path: Path, files: str) -> Path:
    return write_hub(
        tmp_path / "hub",
        {
            "easy": {"train": [row("t1")], "test": [row("e1", {"type": "object"}), row("e2"), row("e3")]},
            "hard": {"train": [row("t2")], "test": [row("h1")]},
        },
        files=files,
    )


def test_missing_path_is_distinguished_from_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(DatasetError, match=r"'pytest-jsbench\[datasets\]' \(no local file or directory has this name"):
        opened("nothing/here")


def test_a_card_that_no_package_can_read_is_one_line(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(DatasetError, match=r"needs the package datasets: pip install 'pytest-jsbench\[datasets\]'$"):
        opened(str(hub))


def test_configs_are_tasks_and_split_selects_the_rows(hub: Path) -> None:
    assert keys(hub) == ["easy::e1", "easy::e2", "easy::e3", "hard::h1"]
    assert keys(hub, split="train") == ["easy::t1", "hard::t2"]
    assert keys(hub, split="all", tasks=("hard",)) == ["hard::t2", "hard::h1"]


def test_a_row_that_is_not_json_is_a_broken_case_with_its_place(tmp_path: Path, files: str) -> None:
    rows: list[dict[str, object]] = [
        {"json_schema": "{oops", "unique_id": "bad"},
        {"json_schema": None, "unique_id": "null"},
    ]
    dataset = opened(write_hub(tmp_path / "hub", {"a": {"test": rows}}, files=files))

    bad, null = (dataset.case(key) for key in dataset.keys())

    assert isinstance(bad, BrokenCase)
    assert "row 0: not JSON" in bad.problem
    assert isinstance(null, BrokenCase)
    assert "row 1: a JSON null is not a JSON Schema" in null.problem


def test_every_row_is_given_as_text(hub: Path) -> None:
    dataset = opened(hub)

    assert [(str(key), text) for key, text in dataset.texts()] == [
        ("easy::e1", '{"type": "object"}'),
        ("easy::e2", "true"),
        ("easy::e3", "true"),
        ("hard::h1", "true"),
    ]
    assert [entry.where[-5:] for entry in dataset.entries.values()] == ["row 0", "row 1", "row 2", "row 0"]


def test_a_row_that_is_more_or_less_than_a_schema_is_not_given_as_text(tmp_path: Path, files: str) -> None:
    tables: dict[str, dict[str, list[dict[str, object]]]] = {
        "asked": {"test": [row("x") | {"prompt": "p"}]},
        "empty": {"test": [{"json_schema": None, "unique_id": "n"}, row("y")]},
    }
    dataset = opened(write_hub(tmp_path / "hub", tables, files=files))

    assert [str(key) for key, _ in dataset.texts()] == ["empty::y"]


@pytest.mark.parametrize("change", ["a file more", "a file less", "no card"])
def test_other_layouts_are_left_to_the_library(tmp_path: Path, change: str) -> None:
    folder = write_hub(tmp_path / "hub", {"a": {"test": [row("x")], "train": [row("y")]}})
    selection = Selection(source=str(folder))
    assert open_folder(selection, folder) is not None

    if change == "a file more":
        shutil.copy(folder / "a" / "test-00000-of-00001.parquet", folder / "b.parquet")
    elif change == "a file less":
        (folder / "a" / "train-00000-of-00001.parquet").unlink()
    elif change == "no card":
        (folder / "README.md").unlink()
    assert open_folder(selection, folder) is None


def test_an_unknown_split_or_task_is_one_line(hub: Path) -> None:
    with pytest.raises(DatasetError, match=r"no split 'tets' in easy: did you mean 'test'\?") as split:
        opened(hub, split="tets")
    with pytest.raises(DatasetError, match=r"no task 'heard': did you mean 'hard'\?") as task:
        opened(hub, tasks=("heard",))
    assert (split.value.found, split.value.where) == ("tets", str(hub))
    assert sorted(split.value.expected) == ["test", "train"]  # type: ignore[call-overload]
    assert (task.value.found, task.value.where) == ("heard", str(hub))
    assert sorted(task.value.expected) == ["easy", "hard"]  # type: ignore[call-overload]


def test_another_table_is_one_line_that_names_the_columns(tmp_path: Path, files: str) -> None:
    source = write_hub(tmp_path / "hub", {"a": {"test": [{"text": "x"}]}}, files=files)

    with pytest.raises(DatasetError, match="no column json_schema"):
        opened(source)


def test_unreachable_hub_is_one_line_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    with pytest.raises(DatasetError, match=r"cannot load dataset 'no-user/nothing'.*--jsbench-dataset=PATH"):
        opened("no-user/nothing")


class StandInForTheHub:
    """A replacement for the `datasets` library that keeps its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import datasets

        self.calls: list[tuple[str, str | None]] = []
        self.table = datasets.Dataset.from_list([row("x")])
        monkeypatch.setattr(datasets, "get_dataset_config_names", self.names)
        monkeypatch.setattr(datasets, "load_dataset", self.load)
        monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", self.info)

    def info(self, repository: str, *, revision: str | None, timeout: float) -> SimpleNamespace:
        self.calls.append((repository, revision))
        return SimpleNamespace(sha="0123456789abcdef0123456789abcdef01234567")

    def names(self, repository: str, *, revision: str | None) -> list[str]:
        self.calls.append((repository, revision))
        return ["easy"]

    def load(self, repository: str, task: str, *, revision: str | None) -> Mapping[str, object]:
        assert task == "easy"
        self.calls.append((repository, revision))
        return {"test": self.table}


@pytest.mark.parametrize(
    ("source", "revision"),
    [
        ("no-user/nothing", None),
        ("no-user/nothing@v1.2", "v1.2"),
        ("no-user/nothing@refs/pr/1", "refs/pr/1"),
        ("no-user/nothing@0f1e2d3c", "0f1e2d3c"),
    ],
)
def test_a_revision_after_the_name_is_the_one_that_is_loaded(
    source: str, revision: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = StandInForTheHub(monkeypatch)

    dataset = opened(source)

    assert [str(key) for key in dataset.keys()] == ["easy::x"]
    assert set(hub.calls) == {("no-user/nothing", revision)}
    assert revision_of(source) == revision
    assert [entry.where for entry in dataset.entries.values()] == [f"{source} easy row 0"]


def test_a_folder_may_have_an_at_sign_in_its_name(tmp_path: Path, files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_hub(tmp_path / "some" / "hub@main", {"easy": {"test": [row("x")]}}, files=files)
    (tmp_path / "some" / "schemas@v2").mkdir()
    (tmp_path / "some" / "schemas@v2" / "a.json").write_text("true")

    assert keys(Path("some/hub@main")) == ["easy::x"]
    assert keys(Path("some/schemas@v2")) == ["schemas@v2::a"]
    assert revision_of("some/hub@main") is None
    assert revision_of("some/schemas@v2") is None


@pytest.mark.parametrize("source", ["no-user/nothing@", "no-user/nothing@-x", "no-user/nothing@a@b", "nobody@a/b"])
def test_invalid_revision_is_not_a_dataset(source: str) -> None:
    with pytest.raises(DatasetError, match=f"^no dataset '{source}': expected builtin, ") as refused:
        opened(source)
    assert refused.value.found == source


def test_a_folder_of_broken_tables_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "test.parquet").write_bytes(b"PAR1 or not")

    with pytest.raises(DatasetError, match=r"^cannot load dataset "):
        opened(tmp_path)


def test_hub_that_does_not_answer_is_not_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    started = time.monotonic()

    with pytest.raises(DatasetError, match=r"^cannot reach http://127.0.0.1:9 \(.*\), and .*--jsbench-dataset=PATH"):
        opened("no-user/nothing")
    assert time.monotonic() - started < 15
    assert not huggingface_hub.constants.HF_HUB_OFFLINE


def test_default_means_every_task_under_its_own_name(tmp_path: Path) -> None:
    rows = {"test": [row("a")]}
    parts = write_hub(tmp_path / "parts", {"default": {"test": [row("a"), row("b")]}, "easy": rows, "hard": rows})
    whole = write_hub(tmp_path / "whole", {"default": rows})

    assert keys(parts) == keys(parts, tasks=("default",)) == ["easy::a", "hard::a"]
    assert keys(whole) == keys(whole, tasks=("default",)) == ["default::a"]


class CachedHub:
    """The hub's cache with a dataset, and a hub that names its commit; loading from the hub fails."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commit = "0123456789abcdef0123456789abcdef01234567"
        self.calls: list[str | None] = []
        self.cache = tmp_path / "hub cache" / "datasets--some--bench"
        self.snapshot = self.cache / "snapshots" / self.commit
        (self.cache / "refs").mkdir(parents=True)
        (self.cache / "refs" / "main").write_text(self.commit)
        rows = {"easy": {"test": [row("a"), row("b")], "train": [row("t")]}, "hard": {"test": [row("c")]}}
        blobs = write_hub(self.cache / "blobs", rows)
        for path in [path for path in blobs.rglob("*") if path.is_file()]:
            link = self.snapshot / path.relative_to(blobs)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(self.cache.parent))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", self.info)
        monkeypatch.setattr("datasets.get_dataset_config_names", self.load)
        self.found: str | Exception = self.commit

    def info(self, _: str, *, revision: str | None, timeout: float) -> SimpleNamespace:
        self.calls.append(revision)
        if isinstance(self.found, Exception):
            raise self.found
        return SimpleNamespace(sha=self.found)

    def load(self, _: str, *, revision: str | None) -> list[str]:
        raise ValueError("loaded by the library")


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CachedHub:
    return CachedHub(tmp_path, monkeypatch)


def test_present_revision_is_read_from_the_cache(cached: CachedHub) -> None:
    dataset = opened("some/bench")

    assert [str(key) for key in dataset.keys()] == ["easy::a", "easy::b", "hard::c"]
    assert [entry.where for entry in dataset.entries.values()][1:] == [
        "some/bench easy row 1",
        "some/bench hard row 0",
    ]
    assert isinstance(dataset.case(dataset.keys()[0]), Case)
    assert cached.calls == [None]
    assert [str(key) for key in opened("some/bench", tasks=("easy",), split="train").keys()] == ["easy::t"]
    with pytest.raises(DatasetError, match="no split 'tset' in easy: did you mean 'test'"):
        opened("some/bench", split="tset")


def test_commit_is_read_from_the_cache_without_a_request(cached: CachedHub) -> None:
    assert len(opened(f"some/bench@{cached.commit}").keys()) == 3
    assert cached.calls == []


def test_cache_is_read_if_the_hub_cannot_be_reached(cached: CachedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    cached.found = ConnectionError("no route")
    assert len(opened("some/bench").keys()) == 3
    assert cached.calls == [None]

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert len(opened("some/bench").keys()) == 3
    assert cached.calls == [None]


def test_newer_revision_is_loaded_by_the_library(cached: CachedHub) -> None:
    cached.found = "f" * 40

    with pytest.raises(DatasetError, match="loaded by the library"):
        opened("some/bench")


@pytest.mark.parametrize("change", ["a file less", "a file more", "no card", "no commit", "a card outside"])
def test_incomplete_cache_is_left_to_the_library(cached: CachedHub, tmp_path: Path, change: str) -> None:
    easy = cached.snapshot / "easy" / "test-00000-of-00001.parquet"
    card = cached.snapshot / "README.md"
    if change == "a file less":
        easy.unlink()
        assert [str(key) for key in opened("some/bench", tasks=("hard",)).keys()] == ["hard::c"]
    elif change == "a file more":
        easy.rename(easy.with_name("test-00000-of-00002.parquet"))
    elif change == "no card":
        card.unlink()
    elif change == "no commit":
        (cached.cache / "refs" / "main").write_text("../../elsewhere")
    elif change == "a card outside":
        (tmp_path / "README.md").write_text(card.read_text())
        card.unlink()
        card.symlink_to(tmp_path / "README.md")

    with pytest.raises(DatasetError, match="loaded by the library"):
        opened("some/bench")


def test_cached_table_without_names_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = CachedHub(tmp_path, monkeypatch)
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra datasets")
    import pyarrow

    parquet.write_table(
        pyarrow.table({"json_schema": ["true"]}), cached.snapshot / "easy" / "test-00000-of-00001.parquet"
    )

    with pytest.raises(DatasetError, match=r"^dataset 'some/bench' has no column unique_id in easy"):
        opened("some/bench")


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="the real JSONSchemaBench is not here")
def test_the_real_benchmark_is_the_same_as_with_the_library() -> None:
    selection = Selection(source=str(REAL), split="all")
    with_library = open_hub(selection)
    alone = open_folder(selection, REAL)

    assert alone is not None
    assert len(alone.keys()) == 9_557
    assert alone.keys() == with_library.keys()
    for key in alone.keys():
        ours, theirs = alone.case(key), with_library.case(key)
        if isinstance(theirs, BrokenCase):
            assert isinstance(ours, BrokenCase)
            assert (ours.reason, ours.key) == (theirs.reason, theirs.key)
        else:
            assert ours == theirs
            assert digest(ours.schema) == digest(theirs.schema)


@pytest.mark.skipif(not REAL.is_dir(), reason="the real JSONSchemaBench is not here")
def test_the_real_benchmark_is_read() -> None:
    dataset = opened(REAL, tasks=("Glaiveai2K", "Github_trivial"), limit=30)

    assert len(dataset.keys()) == 60
    assert all(isinstance(dataset.case(key), Case) for key in dataset.keys())
