"""Test that only the user can read a run's files, regardless of the umask, which applies to files to be committed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_jsbench.cli.main import main
from tests.support.bench import Bench, with_workers

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")

#: Records after each test which files others can read.
CONFTEST = """
import pathlib
def pytest_runtest_logreport(report):
    top = pathlib.Path(__file__).parent
    for path in [*top.joinpath("tmp").rglob("*"), *top.joinpath("out").rglob("*")]:
        try:
            is_open = path.stat().st_mode & 0o077
        except FileNotFoundError:
            continue
        if is_open and "execnet" not in path.name and path.name != "out":
            top.joinpath("seen").write_text(str(path))
"""


@pytest.fixture
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(*tops: Path) -> set[tuple[str, int]]:
    paths = [path for top in tops for path in [top, *top.rglob("*")]]
    return {("folder" if path.is_dir() else "file", stat.S_IMODE(path.stat().st_mode)) for path in paths}


@with_workers
@pytest.mark.usefixtures("_open_umask")
def test_all_that_a_run_writes_is_for_its_user_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.case("good")
    bench.case("bad", '{"n": -1}')
    bench.write({"tmp/.keep": "", "conftest.py": CONFTEST})
    (bench.path / "tmp" / ".keep").unlink()
    (bench.path / "out").mkdir()
    monkeypatch.setenv("TMPDIR", str(bench.path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)

    bench.run("--jsbench-output=out/new", "--jsbench-export=every_eval_ever=exported/here", "--jsbench-rpm=100000")
    bench.run()

    assert modes(bench.path / "out" / "new", bench.path / "exported") == {("folder", 0o700), ("file", 0o600)}
    assert modes(bench.path / ".pytest_cache" / "d" / "jsbench") == {("folder", 0o700), ("file", 0o600)}
    assert stat.S_IMODE((bench.path / "out").stat().st_mode) == 0o777
    assert not (bench.path / "seen").exists(), (bench.path / "seen").read_text()


@pytest.mark.usefixtures("_open_umask")
def test_what_is_to_be_committed_is_as_the_umask_says(bench: Bench) -> None:
    bench.case("good")
    bench.run("--jsbench-output=out", "--jsbench-record=answers")
    run = bench.run_in()

    assert main(["baseline", str(run), "-o", str(bench.path / "baseline.json")]) == 0
    assert main(["report", str(run), "-o", str(bench.path / "page.html")]) == 0

    assert modes(bench.path / "answers") == {("folder", 0o777), ("file", 0o666)}
    assert modes(bench.path / "baseline.json") == {("file", 0o666)}
    assert modes(bench.path / "page.html") == {("file", 0o600)}
