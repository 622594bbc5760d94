from __future__ import annotations

import contextlib
import errno
import gc
import os
import threading
import warnings
from io import FileIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_jsbench.core.errors import JournalError, RecordError
from pytest_jsbench.records import journal
from pytest_jsbench.records.journal import Journal, read
from pytest_jsbench.records.outcomes import Records
from pytest_jsbench.records.records import AskedBy, End, ProjectTestOutcome
from tests.support import examples
from tests.support.examples import record, replace


def test_appended_record_is_on_disk_immediately(tmp_path: Path) -> None:
    book = Journal(tmp_path / "records.jsonl", examples.metadata())
    book.append(examples.record("a"))

    content = journal.read(book.path)

    assert content.metadata == examples.metadata()
    assert list(Records(content.outcomes)) == [examples.record("a")]
    book.close()


def test_late_record_is_written_and_leaves_no_file_open(tmp_path: Path) -> None:
    book = Journal(tmp_path / "records.jsonl", examples.metadata())
    book.append(examples.record("a"))
    book.close()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        book.append(examples.record("b"))
        del book
        gc.collect(0)

    assert [one.key.id for one in Records(journal.read(tmp_path / "records.jsonl").outcomes)] == ["a", "b"]
    assert not warned


def test_header_of_a_killed_run_is_that_of_its_newest_file(tmp_path: Path) -> None:
    for name, run in ((journal.RESUMED, "earlier"), ("records.gw0.jsonl", "ours")):
        journal.write(tmp_path / name, replace(examples.metadata(), run_id=run), [record("a")])
    (tmp_path / "records.jsonl").touch()

    assert journal.read_header(tmp_path).run_id == "ours"
    assert journal.read_header(tmp_path) == journal.read_run(tmp_path).metadata


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    book = Journal(tmp_path / "records.jsonl", examples.metadata())

    def write(worker: int) -> None:
        for number in range(50):
            book.append(examples.record(f"{worker}-{number}"))

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    book.close()

    ids = {record.key.id for record in Records(journal.read(book.path).outcomes)}
    assert ids == {f"{worker}-{number}" for worker in range(4) for number in range(50)}


def test_a_torn_last_line_is_skipped_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    journal.write(path, examples.metadata(), [examples.record("a"), examples.record("b")])
    path.write_text(path.read_text()[:-40])

    content = journal.read(path)

    assert [record.key.id for record in Records(content.outcomes)] == ["a"]
    assert len(content.warnings) == 1
    assert f"{path}:3" in content.warnings[0]


def test_damaged_lines_are_skipped_with_one_warning_that_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    journal.write(path, examples.metadata(), [examples.record(name) for name in "abcde"])
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b"\x00" * 100 + b"\n"
    path.write_bytes(b"".join(lines))
    one = journal.read(path)
    assert [record.key.id for record in Records(one.outcomes)] == ["a", "c", "d", "e"]
    lines[4] = lines[4][:40] + b"\n"
    path.write_bytes(b"".join(lines))
    two = journal.read(path)

    assert [record.key.id for record in Records(two.outcomes)] == ["a", "c", "e"]
    assert len(one.warnings) == len(two.warnings) == 1
    assert two.warnings[0].startswith(f"{path}:3: ")
    assert "2 damaged lines" in two.warnings[0]


def test_mostly_damaged_file_is_an_error_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    journal.write(path, examples.metadata(), [examples.record("a")])
    with path.open("a") as file:
        file.write("{}\n[]\n")
    with pytest.raises(RecordError, match=r"records\.jsonl:3: "):
        journal.read(path)


def test_a_lone_surrogate_is_kept_and_the_file_stays_ascii(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    record = examples.record(generation=examples.completion('"\ud800\u2028"'))

    journal.write(path, examples.metadata(), [record])

    assert path.read_bytes().isascii()
    assert list(Records(journal.read(path).outcomes)) == [record]


def test_first_record_is_written_while_calls_use_all_file_descriptors(tmp_path: Path) -> None:
    resource: Any = pytest.importorskip("resource", reason="needs POSIX")
    made, kept = record("a"), Journal(tmp_path / "records.jsonl", examples.metadata())
    kept.open()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 4, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        kept.append(made)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)
        kept.close()

    assert list(Records(read(tmp_path / "records.jsonl").outcomes)) == [made]


def test_full_disk_is_one_line(tmp_path: Path) -> None:
    book = Journal(tmp_path / "missing" / "records.jsonl", examples.metadata())

    with pytest.raises(JournalError, match="the record of simple::order is not on disk"):
        book.append(examples.record())


class TakesHalf(FileIO):
    """A file on a disk that becomes full in the middle of a line, and later has free space again."""

    full = True

    def write(self, data: Any) -> int:
        if not self.full:
            return super().write(data)
        if self.tell() > self.start:
            self.full = False
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(bytes(data)[:20])

    start = 0


def test_half_a_line_is_truncated_before_the_next_one(tmp_path: Path) -> None:
    book = Journal(tmp_path / "records.jsonl", examples.metadata())
    book.append(examples.record("a"))
    book.close()
    book._file = TakesHalf(book.path, "ab")
    book._file.start = book.path.stat().st_size

    with pytest.raises(JournalError, match="the record of simple::b is not on disk"):
        book.append(examples.record("b"))
    book.append(examples.record("c"))
    book.close()

    content = journal.read(book.path)
    assert [record.key.id for record in Records(content.outcomes)] == ["a", "c"]
    assert content.warnings == ()


def test_continued_file_has_one_header(tmp_path: Path) -> None:
    for name in ("a", "b"):
        book = Journal(tmp_path / "records.jsonl", examples.metadata())
        book.append(examples.record(name))
        book.close()

    assert (tmp_path / "records.jsonl").read_text().count('"type":"run"') == 1


@pytest.mark.parametrize("line", [b"\xff\xfe", b"[" * 100_000])
def test_a_file_of_something_else_is_an_error_and_no_traceback(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(line + b"\n" + line + b"\n")

    with pytest.raises((JournalError, RecordError), match=r"records\.jsonl"):
        journal.read(path)


def test_record_without_memory_is_one_error_and_damages_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Journal(tmp_path / "records.jsonl", examples.metadata())
    book.append(examples.record("a"))

    another = examples.record("b")

    def broken(*_: object, **__: object) -> str:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(msgspec.json, "encode", broken)
        with pytest.raises(JournalError, match="out of memory; the record of"):
            book.append(another)
    book.append(examples.record("c"))
    book.close()

    assert [record.key.id for record in Records(journal.read(book.path).outcomes)] == ["a", "c"]


def test_record_of_an_ended_test_replaces_the_earlier_one(tmp_path: Path) -> None:
    asked = replace(record("a"), asked_by=AskedBy(test="test_a.py::test_a", terms="t"))
    ended = replace(asked, test_outcome=ProjectTestOutcome(end=End.PASSED))
    broken = replace(asked, generation=examples.failed(), verdict=examples.BROKEN)
    journal.write(tmp_path / "records.jsonl", examples.metadata(), [asked, record("b"), ended, broken])

    assert list(Records(read(tmp_path / "records.jsonl").outcomes)) == [ended, record("b")]


def test_runs_keep_their_order_when_the_clock_was_set_back(tmp_path: Path) -> None:
    names = [
        "20990101T000000Z-a",
        "20260101T000000Z-a",
        "20260102T000000Z-a",
        "20250101T000000Z-a",
        "20250101T000001Z-a",
    ]
    names += ["20990101T000000Z-b"]
    for name in names:
        (journal.new_folder(tmp_path, name) / "records.jsonl").write_text("x\n")

    assert [run.name for run in journal.find_runs(tmp_path)] == names
    assert not (tmp_path / names[0] / "after.txt").exists()
