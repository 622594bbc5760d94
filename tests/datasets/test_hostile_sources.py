"""Test that a hostile source of cases cannot read outside files, fill the memory, or hang."""

import gzip
import json
import re
import time
from pathlib import Path

import pytest

from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.labelled import open_labelled
from pytest_jsbench.datasets.sources.hub import find_layout
from tests.support.dataset_reading import keys, opened, problem, schema, write

#: Seconds that no test here needs, even on a busy machine.
PATIENCE = 20.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet", "schema.json", "schema.yaml"])
@pytest.mark.parametrize("source", ["{root}", "{root}/*", "{root}/{name}"])
def test_a_file_that_is_a_link_to_elsewhere_is_not_read(root: Path, name: str, source: str) -> None:
    if name.endswith(".parquet"):
        import pyarrow.parquet

        table = pyarrow.table({"json_schema": ["{}"], "unique_id": ["secret"]})
        pyarrow.parquet.write_table(table, root.parent / name)
    else:
        (root.parent / name).write_text('{"title": "secret"}\n')
    (root / name).symlink_to(root.parent / name)

    try:
        message = problem(source.format(root=root, name=name))
    except DatasetError as error:
        message = str(error)

    assert f" out of {root}" in message
    assert "secret" not in message


def test_a_card_of_blank_lines_is_read_at_once(root: Path) -> None:
    (root / "README.md").write_text("---\n" + "\n" * 100_000 + " " * 100_000 + "- " * 100_000)
    begin = time.perf_counter()
    assert find_layout(root) is None
    assert time.perf_counter() - begin < PATIENCE


def test_aliases_to_a_long_text_are_counted_written_out(root: Path) -> None:
    write(root, {"a.yaml": "a: &a " + "x" * 1_000_000 + "\nb:\n" + "- *a\n" * 20_000})
    assert "line 12: more than 10,000,000 characters, with aliases expanded" in problem(root)


@pytest.mark.parametrize("text", ["a: 1e999", "a: -1" + "0" * 400 + ".5"])
def test_yaml_number_without_json_equivalent_is_rejected(root: Path, text: str) -> None:
    write(root, {"a.yaml": text})
    assert "line 1: the number" in problem(root)


@pytest.mark.slow
def test_hundred_schemas_that_refer_to_each_other_are_bundled_in_seconds(root: Path) -> None:
    names = range(100)
    each = {"properties": {f"p{n}": {"$ref": f"#/components/schemas/s{n}"} for n in names}}
    document = {"openapi": "3.1.0", "info": {}, "paths": {}, "components": {"schemas": {f"s{n}": each for n in names}}}
    write(root, {"api.json": document})
    begin = time.perf_counter()
    assert len(schema(root, "s7")["$defs"]) == 99
    assert time.perf_counter() - begin < PATIENCE


def test_files_that_refer_to_each_other_are_bundled_in_seconds(root: Path) -> None:
    names = range(60)
    write(root, {f"s{n}.json": {"properties": {f"p{m}": {"$ref": f"s{m}.json"} for m in names}} for n in names})
    begin = time.perf_counter()
    assert len(schema(root, "s7")["$defs"]) == 59
    assert time.perf_counter() - begin < PATIENCE


@pytest.mark.slow
def test_rows_with_equal_names_get_unique_keys_in_seconds(root: Path) -> None:
    write(root, {"rows.jsonl": '{"id": "a", "schema": {}}\n' * 20_000})
    begin = time.perf_counter()
    names = keys(root)
    assert (names[1], names[-1]) == ("rows::a.2", "rows::a.20000")
    assert time.perf_counter() - begin < PATIENCE


def test_more_cases_than_can_be_tests_are_one_line(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_jsbench.datasets.base.MOST_CASES", 100)
    write(root, {"rows.jsonl": "{}\n" * 101})
    with pytest.raises(DatasetError, match="more than 100 cases; limit them with --jsbench-limit"):
        opened(root)
    assert len(keys(root, limit=5)) == 5


def test_huge_compressed_file_of_labelled_answers_is_rejected(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_jsbench.core.files.LARGEST_UNPACKED", 1_000_000)
    write(root, {"instances.jsonl.gz": gzip.compress(b" " * 1_000_000 + b"\n"), "schemas.jsonl": ""})
    with pytest.raises(DatasetError, match=r"instances\.jsonl\.gz: cannot be read: [\d,]+ bytes; expected at most"):
        open_labelled(Selection(source=str(root), labelled=True))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1_000, 600_000])
def test_one_long_text_in_every_row_of_a_table_is_in_memory_once(root: Path, rows: int) -> None:
    import pyarrow.parquet

    text = json.dumps({"title": "x" * 5_000_000})
    table = pyarrow.table({"schema": pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, "int32"), [text])})
    pyarrow.parquet.write_table(table, root / "rows.parquet")
    assert (root / "rows.parquet").stat().st_size < 10_000_000

    if rows > 500_000:
        with pytest.raises(DatasetError, match=re.escape("has 600,000 rows; expected at most 500,000")):
            opened(root / "*.parquet")
        return
    before = pyarrow.default_memory_pool().max_memory()
    assert len(schema(root / "*.parquet", "row-7")["title"]) == 5_000_000
    assert pyarrow.default_memory_pool().max_memory() - before < 200_000_000


@pytest.mark.parametrize(
    "named",
    ["/etc/x.parquet", "../x.parquet", "a/../../x.parquet", "http://127.0.0.1:9/x.parquet", "~/x.parquet", "C:\\x"],
)
@pytest.mark.parametrize("card", ["README.md", ".huggingface.yaml"])
def test_card_with_outside_file_is_rejected_before_the_library_opens_it(root: Path, named: str, card: str) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), root / "a.parquet")
    names = f"configs:\n- config_name: a\n  data_files:\n  - split: test\n    path: '{named}'\n"
    (root / card).write_text(f"---\n{names}---\n" if card == "README.md" else names)

    with pytest.raises(DatasetError, match=f"{card} refers to the file .*; expected a path inside"):
        opened(root)
