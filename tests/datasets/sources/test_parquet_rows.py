from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.child_process import ChildProcess
from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.datasets.sources.parquet_child import MEMORY
from pytest_jsbench.datasets.sources.parquet_rows import RowGroup, RowReader

ROWS = 640
GROUPS = 4


class Reading:
    """A file with several row groups, and its reader."""

    def __init__(self, path: Path) -> None:
        pyarrow = pytest.importorskip("pyarrow", reason="needs the extra datasets")
        from pyarrow.parquet import write_table

        rows = [{"json_schema": json.dumps({"title": f"t{number}"})} for number in range(ROWS)]
        write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=ROWS // GROUPS)
        self.started = 0
        self.calls = GuardedCalls(memory=MEMORY, start=self._start)
        self.reader = RowReader(self.calls)
        self.path = path
        self.list_again()

    def _start(self, *arguments: Any) -> ChildProcess:
        self.started += 1
        return ChildProcess(*arguments)

    def list_again(self) -> None:
        places = (str(self.path.parent), str(self.path.parent), str(self.path))
        self.groups = [RowGroup(places, number) for number in range(GROUPS)]
        for group in self.groups:
            self.reader.add_group(group, ROWS // GROUPS)

    def title(self, row: int) -> Any:
        group, index = divmod(row, ROWS // GROUPS)
        return json.loads(self.reader.read_row(self.groups[group], index)["json_schema"])["title"]

    def wait(self) -> None:
        """Wait until no thread reads ahead."""
        if self.reader._thread is not None:
            self.reader._thread.join()


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Reading]:
    reading = Reading(tmp_path / "rows.parquet")
    yield reading
    reading.wait()
    reading.calls.close()


def test_child_ends_after_reading_ahead(reading: Reading) -> None:
    for row in range(300):
        assert reading.title(row) == f"t{row}"
    reading.wait()
    assert not reading.calls.is_running()
    for row in range(300, ROWS):
        assert reading.title(row) == f"t{row}"
    assert reading.started == 1
    assert not reading.reader._ahead


def test_child_starts_again_after_the_rows_read_ahead(reading: Reading) -> None:
    reading.reader = RowReader(reading.calls, most_ahead=1, at_once=2_000)
    reading.list_again()
    for row in range(ROWS):
        assert reading.title(row) == f"t{row}"
        reading.wait()
    assert reading.started > 2
    assert not reading.calls.is_running()


def test_rows_far_apart_are_not_read_ahead(reading: Reading) -> None:
    for row in [*range(0, ROWS, 100), *range(0, ROWS, 100)] * 8:
        assert reading.title(row) == f"t{row}"
    assert reading.reader._thread is None


def test_threads_read_the_same_rows_while_others_are_read_ahead(reading: Reading) -> None:
    with ThreadPoolExecutor(8) as pool:
        titles = list(pool.map(reading.title, [row for row in range(ROWS) for _ in range(2)]))
    assert titles == [f"t{row}" for row in range(ROWS) for _ in range(2)]


def test_rows_read_ahead_are_kept_if_a_thread_is_late(reading: Reading) -> None:
    for row in range(320):
        reading.title(row)
    reading.wait()
    for row in (336, 320, 352):
        assert reading.title(row) == f"t{row}"
        reading.wait()
    assert reading.started == 1


def test_file_listed_again_is_read_again(reading: Reading) -> None:
    for row in range(300):
        reading.title(row)
    reading.wait()
    assert reading.reader._ahead
    reading.list_again()
    assert not reading.reader._ahead
    assert reading.title(ROWS - 1) == f"t{ROWS - 1}"


def test_unreadable_rows_are_reported_when_they_are_read(reading: Reading) -> None:
    for row in range(200):
        reading.title(row)
    reading.path.unlink()
    for row in range(200, 300):
        reading.title(row)  # the child has the group's table
    reading.wait()
    with pytest.raises(Unreadable, match=r"rows\.parquet"):
        reading.title(ROWS - 1)


def test_rows_read_backwards_are_not_read_ahead(reading: Reading) -> None:
    for row in reversed(range(ROWS)):
        assert reading.title(row) == f"t{row}"
    assert reading.reader._thread is None


def test_child_is_kept_if_a_row_cannot_be_read_ahead(tmp_path: Path, reading: Reading) -> None:
    for row in range(200):
        reading.title(row)
    reading.path.write_bytes(b"no table")
    reading.calls.close()  # the next child opens the file again
    for row in range(200, 320):
        with suppress(Unreadable):
            reading.title(row)
        reading.wait()
    assert reading.started <= 3


class _Closing(GuardedCalls):
    """Calls whose child is closed by the end of the run while rows are read ahead."""

    def call(self, function: str, *arguments: Any, seconds: float) -> Any:
        if function.endswith(":pack_rows"):
            raise ValueError("write to closed file")
        return super().call(function, *arguments, seconds=seconds)


def test_end_of_a_run_ends_reading_ahead_silently(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[object] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    closing = _Closing(memory=MEMORY)
    reading.reader = RowReader(closing)
    reading.list_again()

    for row in range(300):
        assert reading.title(row) == f"t{row}"
    reading.wait()
    closing.close()

    assert reading.reader._thread is not None
    assert errors == []
