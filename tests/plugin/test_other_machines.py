"""One session over machines that see no file of each other: workers behind an sshd on this machine."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.loopback import KEY_VARIABLE, Loopback, engine_arguments, serve, write_cases
from tests.docs.reference import ROOT

_SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

pytestmark = [
    pytest.mark.skipif(_SSHD is None, reason="needs sshd"),
    pytest.mark.skipif("JSBENCH_MACHINES" not in os.environ, reason="starts an sshd: tox -e machines runs it"),
]

CASES, IN_FLIGHT, WORKERS = 500, 16, 2
#: seconds in which anything here ends
_LONGEST = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """The controller's folder, and what starts a worker that does not see it."""

    folder: Path
    home: Path
    worker: str
    provider: Loopback

    def start_elsewhere(self, *more: str) -> subprocess.Popen[str]:
        """A session with workers on the other machine."""
        return self.start("--dist=load", "--rsyncdir=schemas", "--tx", f"{WORKERS}*{self.worker}", *more)

    def start(self, *more: str) -> subprocess.Popen[str]:
        """A session."""
        command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:hypothesispytest"]
        command += [*engine_arguments(self.provider.url), "--jsbench-dataset=schemas"]
        command += [f"--jsbench-concurrency={IN_FLIGHT}", *more]
        environment = {**os.environ, KEY_VARIABLE: "none", "JOB_COMPLETION_INDEX": "1"}
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *more: str) -> str:
        """A session to its end; what it printed."""
        with self.start_elsewhere("--jsbench-output=out", *more) as session:
            printed, _ = session.communicate(timeout=_LONGEST)
        assert session.returncode == 0, printed
        return printed

    def kill(self, session: subprocess.Popen[str], *, calls: int) -> None:
        """Kill a session, and its workers on this machine, when so many calls have been made."""
        while sum(self.provider.counts().values()) < calls:
            assert session.poll() is None
            time.sleep(0.05)
        os.killpg(session.pid, signal.SIGKILL)

    def records(self) -> list[dict[str, Any]]:
        """The records of the newest run."""
        lines = (max((self.folder / "out").iterdir()) / "records.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines[1:]]

    def journals(self) -> list[Path]:
        """What the workers have kept."""
        return sorted((self.home / ".local/state/pytest-jsbench").rglob("*.jsonl"))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _hiding(folder: Path, script: Path) -> str:
    """A line of sshd's configuration that hides the folder from whoever logs in; none where that cannot be had."""
    can = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    hide = f'mount -t tmpfs none {folder} && exec sh -c "$SSH_ORIGINAL_COMMAND"'
    script.write_text(f"#!/bin/sh\nexec unshare --mount sh -c '{hide}'\n")
    script.chmod(0o700)
    return f"ForceCommand {script}" if can else ""


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Path]:
    """An sshd of our own; the configuration of ssh with which `far` is this machine through it."""
    assert _SSHD is not None
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    port = _free_port()
    server, client = tmp_path / "sshd_config", tmp_path / "ssh_config"
    server.write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/user.pub\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nMaxStartups 100\n"
        f"{_hiding(tmp_path / 'near', tmp_path / 'hide.sh')}\n"
    )
    client.write_text(
        f"Host far\nHostName 127.0.0.1\nPort {port}\nUser {getpass.getuser()}\nIdentityFile {tmp_path}/user\n"
        "IdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
    )
    with subprocess.Popen([_SSHD, "-D", "-e", "-f", server], stderr=subprocess.PIPE, text=True) as daemon:
        try:
            assert daemon.stderr is not None
            assert "listening" in (said := daemon.stderr.readline()), said
            yield client
        finally:
            daemon.terminate()


@pytest.fixture
def machines(tmp_path: Path, sshd: Path) -> Iterator[Machines]:
    near, home = tmp_path / "near", tmp_path / "far"
    home.mkdir()
    write_cases(near / "schemas" / "t", CASES)
    python = f"env PYTHONPATH={ROOT} {KEY_VARIABLE}=none HOME={home} {sys.executable}"
    worker = f"ssh=far//ssh_config={sshd}//python={python}//chdir={home}/work"
    with serve(latency=0.2) as provider:
        yield Machines(folder=near, home=home, worker=worker, provider=provider)


def test_every_case_is_answered_once_within_the_limits_of_all_machines(machines: Machines) -> None:
    per_second = 80

    printed = machines.run(f"--jsbench-rpm={per_second * 60}", "--jsbench-limits=127.0.0.1:0")

    assert f"{CASES} passed" in printed
    assert len(machines.records()) == CASES
    assert set(machines.provider.counts().values()) == {1}
    arrivals = sorted(machines.provider.arrivals())
    most = max(sum(start <= time < start + 2 for time in arrivals) for start in arrivals)
    assert per_second < most <= 3 * per_second + WORKERS  # one second's worth may start at once
    assert machines.journals() == []  # all is on the controller's disk


def test_a_shard_of_its_scheduler_is_the_same_for_workers_elsewhere(machines: Machines) -> None:
    printed = machines.run("--jsbench-shard=auto/5")

    assert "shard 2/5 by JOB_COMPLETION_INDEX=1" in printed
    assert len(machines.records()) == CASES // 5


def test_a_run_whose_controller_was_killed_pays_again_only_for_what_was_in_flight(machines: Machines) -> None:
    with machines.start_elsewhere("--jsbench-output=out") as killed:
        machines.kill(killed, calls=CASES // 3)
    assert machines.journals()

    printed = machines.run("--jsbench-resume=out")

    assert f"{CASES} passed" in printed
    assert len(machines.records()) == CASES
    counts = machines.provider.counts()
    assert len(counts) == CASES
    twice = sum(counts.values()) - CASES
    assert twice <= WORKERS * IN_FLIGHT
    assert machines.journals() == []


def test_five_shards_of_which_one_was_killed_are_merged_resumed_and_merged(machines: Machines) -> None:
    def merge() -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "pytest_jsbench",
            "merge",
            *sorted(map(str, machines.folder.glob("shard-*/*"))),
        ]
        command += ["--output", "merged", "--min-pass-rate", "1"]
        return subprocess.run(command, cwd=machines.folder, capture_output=True, text=True, check=False)

    def shard(number: int, *more: str) -> subprocess.Popen[str]:
        folder = f"--jsbench-output=shard-{number}"
        return machines.start(f"--jsbench-shard={number}of5", "--jsbench-min-pass-rate=0", folder, *more)

    with shard(0) as killed:
        machines.kill(killed, calls=40)
    for number in (1, 2, 3, 4):
        with shard(number) as session:
            session.communicate(timeout=_LONGEST)

    first = merge()
    with shard(0, "--jsbench-resume=shard-0") as session:
        session.communicate(timeout=_LONGEST)
    second = merge()

    assert first.returncode == 1  # what was not made counts as failed
    assert second.returncode == 0, second.stdout + second.stderr
    records = (machines.folder / "merged" / "records.jsonl").read_text().splitlines()[1:]
    assert len({json.loads(line)["id"] for line in records}) == len(records) == CASES
    assert sum(machines.provider.counts().values()) - CASES <= IN_FLIGHT
