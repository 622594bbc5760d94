from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from pytest_jsbench.records import journal
from tests.support.bench import Bench

CACHED = ".pytest_cache/d/jsbench"
RUN = "20200101T00000{}Z-old"


def link(path: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.symlink_to(target, target_is_directory=True)
    except OSError:
        pytest.skip("no symbolic links here")


def ended(bench: Bench, name: str) -> None:
    bench.write({f"{CACHED}/{name}/records.jsonl": "", f"{CACHED}/{name}/run.json": "{}"})


def cached(bench: Bench) -> list[str]:
    return sorted(path.name for path in (bench.path / CACHED).iterdir())


@pytest.mark.parametrize("linked", [CACHED, ".pytest_cache/d", ".pytest_cache"])
def test_symbolic_link_as_cache_directory_is_refused(
    bench: Bench, linked: str, tmp_path_factory: pytest.TempPathFactory
) -> None:

    target = tmp_path_factory.mktemp("precious")
    kept = target / CACHED.removeprefix(linked).lstrip("/")
    for number in range(9):
        (kept / f"20200101T00000{number}Z-x").mkdir(parents=True)
        (kept / f"20200101T00000{number}Z-x" / "records.jsonl").touch()
    link(bench.path / linked, target)
    before = sorted(kept.rglob("*"))
    bench.case("a")

    result = bench.run()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *jsbench is a link to {kept}, * remove the link, or add --jsbench-output"])
    assert sorted(kept.rglob("*")) == before


def test_only_what_is_a_run_is_ever_removed_from_pytests_cache(bench: Bench, tmp_path: Path) -> None:
    for number in range(6):
        ended(bench, RUN.format(number))
    for name in ("0-notes", "thesis", "20200101-old", "20200101T000000Z-"):
        ended(bench, name)
    bench.write({f"{CACHED}/{RUN.format(0)}-without-records/photo.png": ""})
    link(bench.path / CACHED / f"{RUN.format(0)}-link", tmp_path / "precious")
    (tmp_path / "precious" / "records.jsonl").touch()
    (bench.path / CACHED / f"{RUN.format(0)}-linked-records").mkdir()
    (bench.path / CACHED / f"{RUN.format(0)}-linked-records" / "records.jsonl").symlink_to(tmp_path / "precious")
    others = [name for name in cached(bench) if name not in map(RUN.format, range(6))]
    bench.case("a")

    bench.run().stdout.fnmatch_lines(["records    *.pytest_cache*"])

    left = [name for name in cached(bench) if name not in others]
    assert [*left[:-1], len(left)] == [RUN.format(2), RUN.format(3), RUN.format(4), RUN.format(5), 5]
    assert set(others) < set(cached(bench))
    assert (tmp_path / "precious" / "records.jsonl").exists()


def test_active_run_is_kept_and_a_long_dead_one_is_removed(bench: Bench) -> None:
    for number in range(7):
        bench.write({f"{CACHED}/{RUN.format(number)}/records.gw0.jsonl": ""})
        bench.write({f"{CACHED}/{RUN.format(number)}/records.jsonl": ""})
    for path in (bench.path / CACHED / RUN.format(0)).iterdir():
        os.utime(path, (0, 0))
    bench.case("a")

    bench.run()

    assert cached(bench)[:-1] == [RUN.format(number) for number in range(1, 7)]


@pytest.mark.parametrize("kept", [True, False])
def test_full_disk_is_reported_before_calls_if_output_is_set(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    monkeypatch.setattr(journal, "try_writing", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    bench.case("c01")

    result = bench.run(*(["--jsbench-output=out"] if kept else []))

    if kept:
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: cannot write to --jsbench-output=*out: No space left on device; choose *"])
    else:  # the run is in a folder that goes with it
        result.assert_outcomes(passed=1)


def test_the_newest_run_is_not_removed_when_the_clock_was_set_back(bench: Bench) -> None:
    for number in range(5):
        ended(bench, f"2099010{number + 1}T000000Z-x")
    bench.case("a")

    for _ in range(2):
        bench.run()

    assert len([name for name in cached(bench) if not name.startswith("2099")]) == 2
