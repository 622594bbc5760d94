from __future__ import annotations

import os
from pathlib import Path

import execnet
import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.plugin.session import journal_keeper, remote_journals
from tests import examples

RUN = examples.metadata().run_id


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process, and every gateway on this machine, keeps journals."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "pytest-jsbench"


def test_a_worker_keeps_its_journal_in_a_private_folder_that_its_machine_finds_by_the_run(runs: Path) -> None:
    kept = journal_keeper.keep(f"{RUN}.1234abcd", "gw0")
    kept.write_text("a record")
    journal_keeper.keep(f"{RUN}.2.1234abcd", "gw0").write_text("of another run")

    assert runs.stat().st_mode & 0o777 == kept.parent.stat().st_mode & 0o777 == 0o700
    assert kept.stat().st_mode & 0o777 == 0o600
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_keeper, "_PATIENCE", -1.0)
        with pytest.raises(TimeoutError, match="a worker still writes"):  # this process
            list(journal_keeper.find([RUN]))


def test_a_journal_is_removed_by_name_and_nothing_outside_can_be_named(runs: Path, tmp_path: Path) -> None:
    kept = journal_keeper.keep(f"{RUN}.1234abcd", "gw0")
    foreign = tmp_path / "elsewhere" / "records.gw0.jsonl"
    foreign.parent.mkdir()
    foreign.write_text("not ours")

    journal_keeper.remove([(str(kept.parent), kept.name), (str(foreign.parent), foreign.name)])

    assert list(runs.iterdir()) == []
    assert foreign.exists()


def test_a_folder_that_nobody_has_collected_for_a_month_goes(runs: Path) -> None:
    old, new = runs / f"{RUN}.00000000", runs / f"{RUN}.11111111"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "records.gw0.jsonl").write_text("a record")
    for path in (old / "records.gw0.jsonl", old):
        os.utime(path, (1.0, 1.0))

    journal_keeper.keep("now.12345678", "gw0")

    assert not old.exists()
    assert new.exists()


def test_a_worker_elsewhere_keeps_a_journal_until_its_records_have_arrived(runs: Path) -> None:
    group = execnet.Group(execmodel="main_thread_only")
    try:
        gateway = group.makegateway("popen//id=gw7")
        kept = remote_journals.keep(gateway, examples.metadata())
        (journal,) = runs.rglob("*.jsonl")

        assert str(kept) == f"{kept.host}:{journal}"

        remote_journals.remove(gateway, [kept])
        assert list(runs.iterdir()) == []
    finally:
        group.terminate(5)


def test_a_machine_whose_disk_takes_no_journal_says_so(runs: Path) -> None:
    runs.write_text("a file in the place of the folder")
    group = execnet.Group(execmodel="main_thread_only")
    try:
        with pytest.raises(JSBenchError, match="FileExistsError"):
            remote_journals.keep(group.makegateway("popen//id=gw7"), examples.metadata())
    finally:
        group.terminate(5)
