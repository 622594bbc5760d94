from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import pytest_jsbench
from pytest_jsbench.core import guarded_calls
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.engines import local
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.local import serve_model
from pytest_jsbench.engines.local_guard import SharedState
from pytest_jsbench.engines.local_server import ServerSettings
from pytest_jsbench.engines.registry import find
from tests.support.engine_calls import fetch

pytest.importorskip("xllamacpp", reason="the local engine needs the package xllamacpp")

HOME = Path(pytest_jsbench.__file__).parents[1]
HOLDER = """
import signal, sys, time
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
with find("local").prepare(EngineConfig(name="local", options={"slots": 1, "context": 256})) as prepared:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts without it
    print(prepared.base_url, flush=True)
    time.sleep(60)
"""


def settings(model: Path) -> ServerSettings:
    return ServerSettings(model=str(model), alias="m", slots=1, context=64, threads=1)


def listening(url: str) -> bool:
    try:
        return fetch(f"{url.removesuffix('/v1')}/health")[0] == 200
    except OSError:
        return False


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_server_settings_are_serializable_without_printing_the_key() -> None:
    given = settings(Path("m.gguf"))
    assert ServerSettings(**json.loads(json.dumps(asdict(given)))) == given
    assert len(given.key) >= 32
    assert given.key not in repr(given)
    assert given.key != settings(Path("m.gguf")).key


def test_invalid_model_file_is_reported_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "no.gguf"
    path.write_bytes(b"GGUF nonsense")
    with pytest.raises(EngineError) as caught, serve_model(settings(path), timeout=60):
        pytest.fail("started")
    message = str(caught.value)
    assert message.startswith(f"the local model server did not start with {path}: ")
    assert len(message) > len(f"the local model server did not start with {path}: ")
    assert "\n" not in message


def test_missing_system_library_is_reported_with_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = "libgomp.so.1: cannot open shared object file: No such file or directory"
    (tmp_path / "jsbench_slim.py").write_text(f"def address_of(settings): raise ImportError({loader!r})")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(local, "_SERVER", "jsbench_slim:address_of")
    reason = r"libgomp\.so\.1.*apt-get install libgomp1"
    with pytest.raises(EngineError, match=reason), serve_model(settings(tmp_path), timeout=60):
        pytest.fail("started")


def test_silent_server_is_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jsbench_mute.py").write_text("import time\ndef address_of(settings): time.sleep(60)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(local, "_SERVER", "jsbench_mute:address_of")
    started = time.perf_counter()
    with pytest.raises(EngineError, match=r"no response within 0\.3 s"), serve_model(settings(tmp_path), timeout=0.3):
        pytest.fail("started")
    assert time.perf_counter() - started < 10


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill with 0 asks only on POSIX")
def test_a_server_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    (tmp_path / "jsbench_stubborn.py").write_text(
        "import os, pathlib, time\n"
        "def address_of(settings):\n"
        f"    pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
        "    os._exit = lambda status: time.sleep(60)\n"
        "    return 'http://127.0.0.1:1'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(local, "_SERVER", "jsbench_stubborn:address_of")
    monkeypatch.setattr(guarded_calls, "_EXIT", 0.2)
    with serve_model(settings(tmp_path), timeout=30) as address:
        assert address == "http://127.0.0.1:1"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill with 0 asks only on POSIX")
def test_server_that_is_being_restarted_ends_with_its_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = tmp_path / "pids"
    (tmp_path / "jsbench_short_lived.py").write_text(
        "import os, pathlib, threading, time\n"
        "def address_of(settings):\n"
        f"    pids = pathlib.Path({str(pids)!r})\n"
        "    first = not pids.exists()\n"
        "    with pids.open('a') as file: file.write(f'{os.getpid()}\\n')\n"
        "    if not first: time.sleep(60)\n"
        "    threading.Timer(0.2, os._exit, (3,)).start()\n"
        "    return 'http://127.0.0.1:1'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(local, "_SERVER", "jsbench_short_lived:address_of")
    given = settings(tmp_path)
    with serve_model(given, timeout=30):
        assert within(20, lambda: len(pids.read_text().splitlines()) == 2)
        assert SharedState(given.key).folder.is_dir()
        start = time.perf_counter()
    assert time.perf_counter() - start < 10
    assert not SharedState(given.key).folder.exists()
    for pid in pids.read_text().splitlines():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_server_ends_with_its_block_after_an_error(local_config: EngineConfig) -> None:
    config = EngineConfig(name="local", options={"slots": 1, "context": 256})
    serving_it = find("local").prepare(config)
    url = serving_it.__enter__().base_url
    assert url is not None
    assert listening(url)
    error = RuntimeError("broken")
    assert not serving_it.__exit__(RuntimeError, error, None)
    assert not listening(url)


def test_local_server_allows_no_cross_origin_requests(local_config: EngineConfig) -> None:
    url = str(local_config.base_url)
    page = {"Origin": "https://a-page.example", "Access-Control-Request-Method": "POST"}
    for method, path in (("GET", "/models"), ("OPTIONS", "/chat/completions"), ("POST", "/chat/completions")):
        asked = urllib.request.Request(url + path, method=method, headers=page)
        try:
            answer: Any = urllib.request.urlopen(asked)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            allowed = {name: value for name, value in answer.headers.items() if name.startswith("Access-Control-Allow")}
            assert answer.status == (200 if method == "OPTIONS" else 401)
        assert set(allowed.values()) <= {"", "false"}


def run_server_in_process(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Run another process with a server, in a directory with files named like the server's modules."""
    for name in ("json.py", "secrets.py", "xllamacpp.py"):
        (folder / name).write_text("raise SystemExit('the wrong module')")
    # a process that is killed leaves the directory of its server's state
    environment = {**os.environ, "PYTHONPATH": str(HOME), "PYTHONSAFEPATH": "1", "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.slow
def test_the_server_ends_when_its_parent_is_killed(local_config: EngineConfig, tmp_path: Path) -> None:
    process, url = run_server_in_process(tmp_path)
    with process:
        assert listening(url)
        process.kill()
    assert within(10, lambda: not listening(url))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process")
def test_local_server_ignores_ctrl_c(local_config: EngineConfig, tmp_path: Path) -> None:
    process, url = run_server_in_process(tmp_path)
    with process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not children.exists():
            process.kill()
            pytest.skip("the system does not list a process's children")
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGINT)
        time.sleep(0.3)
        assert listening(url)
        process.send_signal(signal.SIGINT)
        process.wait(10)
    assert within(10, lambda: not listening(url))
