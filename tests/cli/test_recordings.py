from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from pytest_jsbench.engines.recorded import unused_files
from pytest_jsbench.engines.recorded.recordings import Recordings
from tests.support import examples
from tests.support.commands import failed, shown
from tests.support.engine_calls import request
from tests.support.recording import record


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Write a recording that two runs report as unused."""
    folder = tmp_path / "kept"
    path = record(folder, request({"type": "object"}), examples.completion())
    for run in ("one", "two"):
        (tmp_path / run).mkdir()
        unused_files.write(tmp_path / run, folder, [path])
    return folder


def deleted(kept: Path, *runs: str) -> int:
    """Return how many files --prune deletes."""
    before = len(list(kept.parent.rglob("*.json")))
    named = [argument for run in runs for argument in ("--run", kept.parent / run)]
    shown("recordings", kept, *named, "--prune")
    return before - len(list(kept.parent.rglob("*.json")))


def test_of_several_runs_only_what_none_asked_for_is_deleted(kept: Path) -> None:
    unused_files.write(kept.parent / "two", kept, [])
    assert deleted(kept, "one", "two") == 0
    assert deleted(kept, "one") == 1
    assert deleted(kept, "one") == 0


def test_of_a_folder_of_runs_it_is_the_newest(kept: Path) -> None:
    for name, unused in (("1", []), ("2", Recordings(kept).paths())):
        run = kept.parent / "runs" / name
        run.mkdir(parents=True)
        (run / "records.jsonl").touch()
        unused_files.write(run, kept, unused)

    assert deleted(kept, "runs") == 1


def test_a_recording_that_has_changed_since_is_not_deleted(kept: Path) -> None:
    (path,) = Recordings(kept).paths()
    path.write_text(path.read_text() + "\n")

    assert deleted(kept, "one") == 0


def test_a_run_s_list_names_nothing_but_recordings_of_the_folder(kept: Path) -> None:
    outside = record(kept.parent / "other", request({"type": "object"}), examples.completion())
    (kept / "task").mkdir()
    own = kept / "task" / "own.json"
    own.write_text("{}")
    named = {
        f"../{outside.relative_to(kept.parent)}": hashlib.sha256(outside.read_bytes()).hexdigest(),
        str(outside): hashlib.sha256(outside.read_bytes()).hexdigest(),
        "task/own.json": hashlib.sha256(own.read_bytes()).hexdigest(),
    }
    (kept.parent / "one" / "recordings.json").write_text(json.dumps({"unasked": named}))

    assert deleted(kept, "one") == 0


def test_what_cannot_be_listed_is_one_line(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = kept.parent / "one"
    (kept.parent / "part").mkdir()

    assert "is not a directory" in failed(capsys, "recordings", kept / "no", "--run", run)
    assert "unused recordings are known only for a complete run" in failed(
        capsys, "recordings", kept, "--run", kept.parent / "part"
    )
    (run / "recordings.json").write_text('{"unasked": {"a": 1}}')
    assert "is not a list of recordings: unasked[...] is wrong: expected str, got int" in failed(
        capsys, "recordings", kept, "--run", run
    )
