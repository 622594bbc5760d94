from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.cli.main import main
from pytest_jsbench.core.errors import MergeError
from pytest_jsbench.records import stores
from pytest_jsbench.records.stores import fetch_runs
from tests.support import examples
from tests.support.run_files import store_shard

fsspec: Any = pytest.importorskip("fsspec", reason="needs the extra stores")


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Return two shards, each a directory of runs as a job leaves it: one run, and other files of a run."""
    for number, plan in ((1, "aceg"), (2, "bdf")):
        folder = tmp_path / "shards" / f"shard-{number}" / "run"
        store_shard(folder, f"{number}/2", [examples.record(name) for name in plan], plan)
        (folder / "report.html").write_text("a page")
    return tmp_path / "shards"


@pytest.fixture
def bucket(shards: Path) -> Iterator[str]:
    """Return two shards in an object store."""
    store = fsspec.filesystem("memory")
    store.put(str(shards), "/bucket", recursive=True)
    yield "memory://bucket"
    store.rm("/bucket", recursive=True)


def merged(out: Path, *places: str) -> tuple[int, str]:
    printed = io.StringIO()
    return main(["merge", *places, "--output", str(out)], out=printed), printed.getvalue()


def test_shards_in_a_store_merge_as_they_do_in_folders(tmp_path: Path, shards: Path, bucket: str) -> None:
    _, printed = merged(tmp_path / "here", *(str(shards / f"shard-{number}") for number in (1, 2)))

    for name, places in {
        "each": [f"{bucket}/shard-1", f"{bucket}/shard-2/"],
        "glob": [f"{bucket}/shard-*"],
        "runs": [f"{bucket}/*/run"],
        "files": [f"file://{shards}/shard-1/run", f"file://{shards}/shard-2"],
        "both": [str(shards / "shard-1"), f"{bucket}/shard-2"],
    }.items():
        code, message = merged(tmp_path / name, *places)

        assert code == 0
        assert message.replace(str(tmp_path / name), str(tmp_path / "here")) == printed
        assert (tmp_path / name / "records.jsonl").read_text() == (tmp_path / "here" / "records.jsonl").read_text()


def test_copy_has_only_records_and_is_removed_after_the_merge(bucket: str) -> None:
    with fetch_runs([f"{bucket}/shard-*"]) as (paths, originals):
        files = [file.relative_to(path).as_posix() for path in paths for file in path.rglob("*") if file.is_file()]
        assert files == ["run/records.jsonl"] * 2
        assert set(originals.values()) == {f"{bucket}/shard-*"}

    assert not any(path.exists() for path in paths)


def test_error_in_a_store_is_one_line_with_the_url(
    tmp_path: Path, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = fsspec.filesystem("memory")
    store.pipe("/bucket/broken/records.jsonl", b'{"type": "record"}\n')
    store.pipe("/bucket/torn/records.jsonl", store.cat("/bucket/shard-1/run/records.jsonl")[:-9])

    for place, message in {
        f"{bucket}/nothing": f"{bucket}/nothing has no records.jsonl; expected the directory of a run, or of runs",
        f"{bucket}/nothing-*": f"{bucket}/nothing-* has no records.jsonl",
        f"{bucket}/broken": f"{bucket}/broken/records.jsonl:1: ",
        "nowhere://user:secret@bucket": "nowhere://bucket cannot be read: ValueError: Protocol not known: nowhere",
    }.items():
        assert merged(tmp_path / "out", place) == (2, "")
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"jsbench: {message}")
        assert "secret" not in line

    _, printed = merged(tmp_path / "out", f"{bucket}/torn")
    assert f"{bucket}/torn/records.jsonl:5: " in printed
    assert "the line is damaged and skipped" in printed


def test_names_that_a_hostile_store_lists_lead_nowhere_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, store = "memory://bucket", fsspec.filesystem("memory")
    listed = [f"/bucket/{name}" for name in ("../records.jsonl", "a/../records.jsonl", "a/b/records.jsonl")]
    listed += [f"/bucket/{name}" for name in ("\x1b[2J/records.jsonl", ".hidden/records.jsonl", "records.\n.jsonl")]
    monkeypatch.setattr(type(store), "find", lambda *_, **__: listed)

    with pytest.raises(MergeError, match=r"^memory://bucket has no records\.jsonl"), fetch_runs([bucket]):
        pass

    listed += [f"/bucket/run{number}/records.jsonl" for number in range(stores.MOST_FILES + 1)]
    with pytest.raises(MergeError, match=r"has 10,001 records files; expected at most 10,000"), fetch_runs([bucket]):
        pass


def test_a_file_that_never_ends_is_read_to_the_bound(monkeypatch: pytest.MonkeyPatch, bucket: str) -> None:
    monkeypatch.setattr(stores, "LARGEST", 100)

    with (
        pytest.raises(MergeError, match=r"has more than 100 bytes in records\.jsonl"),
        fetch_runs([f"{bucket}/shard-1"]),
    ):
        pass


def test_without_fsspec_the_next_step_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)

    assert merged(tmp_path / "out", "s3://bucket/run")[0] == 2
    assert "pip install 'pytest-jsbench[stores]'" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_merge_reads_a_file_url_as_a_plain_path(
    tmp_path: Path, shards: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    records = shards / "shard-1" / "run" / "records.jsonl"
    if kind == "link":
        records.rename(tmp_path / "elsewhere.jsonl")
        records.symlink_to(tmp_path / "elsewhere.jsonl")
    else:
        records.unlink()
        os.mkfifo(records)

    message = []
    for place in (f"{shards}/shard-1", f"file://{shards}/shard-1", f"FILE://localhost{shards}/shard-*"):
        assert merged(tmp_path / "out", place)[0] == 2
        message.append(capsys.readouterr().err)

    assert message[0] == message[1] == message[2]
    assert ("not a file" if kind == "pipe" else "leads out of") in message[0]


SECRET = "SEC/RET-12345"


@pytest.mark.parametrize(
    "url",
    [
        f"nope://host/x?X-Amz-Signature={SECRET}",
        f"nope://host/x#{SECRET}",
        f"nope://user:{SECRET}@host/x",
        f"simplecache::nope://user:{SECRET}@host/x?a=1",
        f"file://user:{SECRET}@host/x?{SECRET}",
    ],
)
def test_merge_shows_no_secret_of_a_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    def fail(given: str) -> None:
        raise ValueError(f"cannot open {given}")

    for place in range(2):
        if place:
            monkeypatch.setattr(fsspec.core, "url_to_fs", fail)
        assert merged(tmp_path / "out", url)[0] == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "RET-12345" not in line
        assert "host/x" in line
