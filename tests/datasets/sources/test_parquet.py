from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import DatasetError, exhausted
from pytest_jsbench.core.messages import Message
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from tests.datasets.reading import keys, problem, read, schema


def table(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra datasets")
    import pyarrow

    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, **options)
    return path


def test_rows_of_a_file_are_cases_with_all_that_they_bring(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "json_schema": json.dumps({"title": str(n)}),
            "unique_id": f"c{n}",
            "task": "even" if n % 2 == 0 else None,
            "extra": 1,
        }
        for n in range(5)
    ]
    rows = [{"messages": None, "tags": None, "reference": None} | row for row in rows]
    rows[3] |= {"messages": [{"role": "user", "content": "Hi"}], "tags": ["x"], "reference": {"n": 1}}
    path = table(tmp_path, rows, row_group_size=2)

    assert keys(path) == ["even::c0", "even::c2", "even::c4", "rows::c1", "rows::c3"]
    assert schema(path, "c4") == {"title": "4"}
    case = read(path, "c3")
    assert isinstance(case, Case)
    assert (case.messages, case.tags, case.reference) == ((Message(role="user", content="Hi"),), ("x",), {"n": 1})


def test_a_row_without_a_name_has_its_number_and_a_broken_one_is_named_so(tmp_path: Path) -> None:
    path = table(tmp_path, [{"schema": "true"}, {"schema": "{oops"}, {"schema": None}])

    assert keys(path) == ["rows::row-0", "rows::row-1", "rows::row-2"]
    assert problem(path, "row-1").startswith(f"{path} row 1: not JSON: ")
    assert problem(path, "row-2").startswith(f"{path} row 2: a JSON null is not a JSON Schema")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"text": "x"}], "has no column json_schema or schema; its columns are text"),
        ([{"schema": {"type": "x"}}], "column schema is struct<type: string>; expected text, each a JSON Schema"),
    ],
)
def test_another_table_is_one_line(tmp_path: Path, rows: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(DatasetError) as caught:
        keys(table(tmp_path, rows))
    assert said in str(caught.value)


def test_what_is_no_parquet_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra datasets")
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 or not")

    with pytest.raises(DatasetError, match=r"^cannot read .*rows.parquet: .*; expected a Parquet file$"):
        keys(path)


def test_without_the_package_one_line_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(DatasetError, match=r"needs the package pyarrow: pip install 'pytest-jsbench\[datasets\]'$"):
        keys(tmp_path / "a.parquet")


def test_a_machine_without_open_files_or_memory_makes_no_row_a_broken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path, [{"schema": "true"}])
    dataset = open_dataset(Selection(source=str(path)))
    (key,) = dataset.keys()
    from pytest_jsbench.datasets.sources import parquet

    for error in (OSError(errno.EMFILE, "Too many open files"), MemoryError()):

        def broken(*_: object, raised: BaseException = error) -> None:
            raise raised

        with monkeypatch.context() as patched:
            patched.setattr(parquet._Table, "row", broken)
            with pytest.raises((DatasetError, MemoryError)) as caught:
                dataset.case(key)
        assert exhausted(caught.value)

    assert isinstance(dataset.case(key), Case)
