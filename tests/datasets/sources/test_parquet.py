from __future__ import annotations

import datetime as dt
import errno
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case, Expected
from pytest_jsbench.core.child_process import ChildNotStarted
from pytest_jsbench.core.errors import DatasetError, describe_exhaustion
from pytest_jsbench.core.files import FileReader
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.core.messages import Message
from pytest_jsbench.datasets.base import Listing, Selection
from pytest_jsbench.datasets.sources import parquet
from pytest_jsbench.datasets.sources.parquet_child import MEMORY
from tests.support.dataset_reading import keys, opened, problem, read, schema


def table(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra datasets")
    from pyarrow.parquet import write_table

    path = tmp_path / "rows.parquet"
    write_table(pyarrow.Table.from_pylist(rows), path, **options)
    return path


def test_rows_of_a_file_are_cases_with_all_that_they_bring(tmp_path: Path) -> None:
    bare = {"messages": None, "tags": None, "reference": None, "extra": 1}
    rows: list[dict[str, Any]] = [
        bare | {"json_schema": json.dumps({"title": str(n)}), "unique_id": f"c{n}", "task": None if n % 2 else "even"}
        for n in range(5)
    ]
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
    ("rows", "message"),
    [
        ([{"text": "x"}], "has no column json_schema or schema; its columns are text"),
        ([{"schema": {"type": "x"}}], "column schema is struct<type: string>; expected JSON Schemas as text"),
    ],
)
def test_another_table_is_one_line(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(DatasetError) as caught:
        keys(table(tmp_path, rows))
    assert message in str(caught.value)


def test_invalid_parquet_file_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra datasets")
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 or not")

    with pytest.raises(DatasetError, match=r"^cannot read .*rows.parquet: .*; expected a Parquet file$"):
        keys(path)


def test_missing_package_is_one_line_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(DatasetError, match=r"needs the package pyarrow: pip install 'pytest-jsbench\[datasets\]'$"):
        keys(tmp_path / "a.parquet")


def test_a_machine_without_open_files_or_memory_makes_no_row_a_broken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path, [{"schema": "true"}])
    dataset = opened(path)
    (key,) = dataset.keys()

    for error in (OSError(errno.EMFILE, "Too many open files"), MemoryError()):

        def broken(*_: object, raised: BaseException = error, **__: object) -> None:
            raise ChildNotStarted(str(raised)) from raised

        with monkeypatch.context() as patched:
            patched.setattr(GuardedCalls, "call", broken)
            with pytest.raises(DatasetError) as caught:
                dataset.case(key)
        assert describe_exhaustion(caught.value)

    assert isinstance(dataset.case(key), Case)


def many(tmp_path: Path, count: int, value: int | None) -> Path:
    """Write a row with a list that has a value this many times, in less than a kilobyte."""
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra datasets")
    from pyarrow.parquet import write_table

    values = pyarrow.nulls(count, pyarrow.int8()) if value is None else pyarrow.repeat(pyarrow.scalar(value), count)
    path = tmp_path / "rows.parquet"
    write_table(pyarrow.table({"schema": ["true"], "tags": pyarrow.ListArray.from_arrays([0, count], values)}), path)
    assert path.stat().st_size < 1_000
    return path


@pytest.mark.slow
def test_few_bytes_that_decompress_to_millions_of_values_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"rows\.parquet: has a row group of 408,000,008 bytes after decompression"):
        keys(many(tmp_path, 51_000_000, None))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory", "bound"), [(MEMORY, "within 16 MB of text"), (400 << 20, "within 400 MB of memory")]
)
def test_a_row_that_comes_to_more_than_a_row_may_is_broken_in_one_line(tmp_path: Path, memory: int, bound: str) -> None:
    path = many(tmp_path, 1_000_000, 10**17)

    with closing(GuardedCalls(memory=memory)) as calls:
        dataset = opened_by(calls, path)
        (key,) = dataset.keys()
        case = dataset.case(key)

    assert str(key) == "rows::row-0"
    assert isinstance(case, BrokenCase)
    assert case.problem == f"{path} row 0: cannot read {path}: {bound}"


def opened_by(calls: GuardedCalls, path: Path) -> Listing:
    """Open the dataset of a file that these calls read."""
    entries = parquet.find(FileReader(root=path.parent), path, task="rows", calls=calls)
    return Listing.from_entries(Selection(source=str(path)), entries)


class CountingCalls(GuardedCalls):
    """Calls that note how many rows each of them reads, and wait a moment for other threads."""

    def __init__(self) -> None:
        super().__init__(memory=MEMORY)
        self.reads: list[int] = []

    def call(self, function: str, *arguments: Any, seconds: float) -> Any:
        if function.endswith(":read_rows"):
            self.reads.append(arguments[-1])
            time.sleep(0.02)
        return super().call(function, *arguments, seconds=seconds)


@pytest.fixture
def calls() -> Iterator[CountingCalls]:
    with closing(CountingCalls()) as calls:
        yield calls


@pytest.mark.slow
def test_rows_that_come_to_too_much_together_are_read_one_by_one(tmp_path: Path, calls: CountingCalls) -> None:
    path = table(tmp_path, [{"schema": json.dumps({"title": "x" * 2_000_000, "maxLength": n})} for n in range(9)])
    dataset = opened_by(calls, path)

    schemas = [case.schema for case in map(dataset.case, dataset.keys()) if isinstance(case, Case)]

    assert [schema["maxLength"] for schema in schemas if isinstance(schema, dict)] == list(range(9))
    assert calls.reads == [16, *[1] * 9]


def test_threads_that_need_adjacent_rows_read_them_once(tmp_path: Path, calls: CountingCalls) -> None:
    path = table(tmp_path, [{"schema": json.dumps({"maxLength": n})} for n in range(64)])
    dataset = opened_by(calls, path)
    with ThreadPoolExecutor(64) as threads:
        cases = list(threads.map(dataset.case, dataset.keys()))

    assert [case.schema for case in cases if isinstance(case, Case)] == [{"maxLength": n} for n in range(64)]
    assert calls.reads == [16] * 4


def test_value_that_json_does_not_have_names_its_column(tmp_path: Path) -> None:
    path = table(tmp_path, [{"schema": "true", "reference": Decimal("1.5")}])

    assert "column reference has a value of type Decimal" in problem(path, "row-0")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2026, 1, 1, 2, 3, tzinfo=UTC), "2026-01-01T02:03:00+00:00"),
        (dt.date(2026, 1, 1), "2026-01-01"),
        ({"at": dt.time(1, 2)}, {"at": "01:02:00"}),
        ([dt.date(2026, 1, 1)], ["2026-01-01"]),
    ],
)
def test_dates_and_times_are_read_as_iso_text(tmp_path: Path, value: object, text: object) -> None:
    case = read(table(tmp_path, [{"schema": "true", "expected": value, "reference": value}]), "row-0")

    assert isinstance(case, Case), case
    assert case.expected == Expected(value=text)
    assert case.reference == text


def test_text_in_expected_that_is_not_json_names_its_column(tmp_path: Path) -> None:
    path = table(tmp_path, [{"schema": "true", "expected": "soon"}])

    assert "column expected: " in problem(path, "row-0")


def test_child_reads_schemas_without_numpy(tmp_path: Path, calls: CountingCalls) -> None:
    path = table(tmp_path, [{"schema": '{"title": "a"}', "id": "a"}])
    dataset = opened_by(calls, path)

    assert [case.schema for case in map(dataset.case, dataset.keys()) if isinstance(case, Case)] == [{"title": "a"}]
    loaded: list[str] = calls.call("builtins:eval", "[*__import__('sys').modules]", seconds=10)
    assert "pyarrow.parquet" in loaded
    assert not {"numpy", "pandas", "pytest_jsbench.datasets.base"}.intersection(loaded)


def test_times_in_nanoseconds_are_read_with_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="needs the extra frames")
    import pyarrow
    from pyarrow import parquet

    moment = pyarrow.array([1_700_000_000_000_000_001], pyarrow.timestamp("ns", tz="UTC"))
    parquet.write_table(pyarrow.table({"schema": ["true"], "reference": moment}), tmp_path / "rows.parquet")

    case = read(tmp_path / "rows.parquet", "row-0")

    assert isinstance(case, Case), case
    assert case.reference == "2023-11-14T22:13:20.000000001+00:00"


def test_columns_of_json_are_read(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    kind = pyarrow.json_()
    columns = {"schema": '{"type": "object"}', "expected": '{"a": 1}', "reference": '{"b": [1]}'}
    arrays = {name: pyarrow.array([value], kind) for name, value in columns.items()}
    parquet.write_table(pyarrow.table(arrays), tmp_path / "rows.parquet")

    case = read(tmp_path / "rows.parquet", "row-0")

    assert isinstance(case, Case), case
    assert case.schema == {"type": "object"}
    assert case.expected == Expected(value={"a": 1})
    assert case.reference == {"b": [1]}
