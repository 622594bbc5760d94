from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import failed, run, shown

HOSTILE = "\x1b[31m$x$<b>\u202e../../x"


def test_a_baseline_is_written_from_a_run(tmp_path: Path) -> None:
    first = run(tmp_path / "a.json", HOSTILE, 18)

    said = shown("baseline", first, "-o", tmp_path / "base.json")

    assert said.endswith("base.json: 20 cases of scripted \\x1b[31m$x$<b>\\u202e../../x\n")
    compared = shown("compare", first, tmp_path / "base.json", "--labels", "a", "b")
    assert "compared   b against a: the same verdict on each of 20 cases" in compared


def test_old_files_are_migrated_in_place_or_elsewhere_or_only_shown(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text('{"acc": 0.5}')

    migrated = json.loads(shown("migrate", old))
    assert migrated["metrics"] == {"acc": 0.5}
    assert old.read_text() == '{"acc": 0.5}'
    shown("migrate", old, "-o", tmp_path / "new")
    assert json.loads((tmp_path / "new" / "old.json").read_text()) == migrated
    shown("migrate", old, "--in-place")
    assert json.loads(old.read_text()) == migrated


def test_of_two_files_of_one_name_none_is_written_over_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / name / "run.json" for name in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text('{"acc": 0.5}')

    assert "several files are named run.json" in failed(capsys, "migrate", *paths, "-o", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_converted_is_one_line_and_status_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(tmp_path / "a.json", "m", 18)

    assert "cannot write" in failed(capsys, "baseline", first, "-o", tmp_path / "no" / "base.json")
    (tmp_path / "bad.json").write_text('{"metrics": 3}')
    assert "expected an object" in failed(capsys, "migrate", tmp_path / "bad.json")
