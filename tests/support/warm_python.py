"""
Start Python processes fast, by forking them from a process that has imported their modules.

Most of the time of a short run is spent on the imports of its processes. `warm_python` creates a program with the
command line of the interpreter. If it supports the command, it requests a fork from a server; otherwise, or if the
environment requires new interpreters, it becomes the interpreter. The fork has the caller's streams, directory,
environment and arguments, and separate limits. The program ends as the fork does, and a program that is killed ends its
fork.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

#: Servers: one forks sessions of pytest and workers of xdist, the other one the package's children for untrusted data.
SESSION, CHILD = "session", "child"
#: Server that forks each kind of process, by the first argument of the interpreter.
_SERVERS = {"-mpytest": SESSION, "-u": SESSION, "-P": CHILD}
#: Third-party modules that a session needs, in addition to pytest's plugins and the package.
_OF_OTHERS = (
    *("_pytest.stepwise", "genai_prices", "http.server", "jinja2", "jsonschema_rs", "pdb", "urllib3"),
    *("pytest_benchmark.storage.file", "xdist.dsession", "xdist.scheduler", "xdist.workermanage"),
)
_OURS = (
    "adaptation.bounding",
    "adaptation.document",
    "datasets.conditions",
    "datasets.prepared",
    "datasets.selection",
    "datasets.sources.folder",
    "datasets.sources.rows",
    "engines.http.client",
    "engines.providers.openai",
    "engines.recorded.engine",
    "engines.recorded.unused_files",
    "engines.scripted",
    "fixture.conformance",
    "fixture.endpoint",
    "fixture.jsbench",
    "fixture.marker",
    "lab.interchange.every_eval_ever",
    "metrics.gates",
    "metrics.metric_names",
    "plugin.activation",
    "plugin.batch_submission",
    "plugin.benchmark",
    "plugin.controller",
    "plugin.dry_run",
    "plugin.failure_sections",
    "plugin.outputs",
    "plugin.project_tests",
    "plugin.pytest_fixtures",
    "plugin.repeat_rules",
    "plugin.terminal",
    "plugin.unused_recordings",
    "plugin.worker",
    "plugin.xdist_scheduling",
    "reports.comparison_report",
    "reports.html.report",
    "reports.markdown",
    "reports.run_files",
    "reports.run_json",
    "reports.run_report",
    "reports.terminal",
    "run.estimate",
    "run.limits",
    "run.project_answers",
    "run.state",
)
OF_A_SESSION = (*_OF_OTHERS, *(f"pytest_jsbench.{name}" for name in _OURS))
_IMPORTS = {
    SESSION: OF_A_SESSION,
    CHILD: ("pytest_jsbench.verdicts.in_process", "pytest_jsbench.verdicts.second_opinion"),
}
#: Variables that require what a fork cannot do, and one to force new interpreters.
_COLD = {"COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START", "JSBENCH_COLD_START"}

_PROGRAM = """#!{python} -IS
import _socket, array, marshal, os, sys
PYTHON, FOLDER = {python!r}, {folder!r}
kind, *program = sys.argv[1:] or [""]
if kind == "-mpytest":
    program = ["-c", "import pytest; raise SystemExit(pytest.main())", *program]
if kind == "-P" and program and program[0].endswith("child_service.py"):
    program = ["-c", "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')", *program]
if kind not in {servers!r} or program[:1] != ["-c"] or {cold!r}.intersection(os.environ):
    os.execv(PYTHON, [PYTHON, *sys.argv[1:]])
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect(FOLDER + "/" + {servers!r}[kind])
os.umask(umask := os.umask(0))
said = marshal.dumps((os.getcwd(), umask, sys.argv[0], dict(os.environ), program[1:]))
streams = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
server.sendmsg([len(said).to_bytes(4, "big")], streams)
server.sendall(said)
nowhere = os.open(os.devnull, os.O_RDWR)
for stream in range(3):
    os.dup2(nowhere, stream)
status = int(server.recv(8) or b"1")
if status < 0:
    import _signal
    if -status != _signal.SIGKILL:
        _signal.signal(-status, _signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


def can_be_warm() -> bool:
    """Return whether the platform has what is needed and the environment requires nothing that a fork cannot do."""
    possible = hasattr(os, "pidfd_open") and " " not in sys.executable
    return possible and not _COLD.intersection(os.environ)


@contextlib.contextmanager
def warm_python(*names: str) -> Iterator[str]:
    """Yield the path of a program that uses these servers until the end of the block."""
    import pytest_jsbench

    servers = {kind: name for kind, name in _SERVERS.items() if name in names}
    with tempfile.TemporaryDirectory(prefix="warm") as folder, contextlib.ExitStack() as stack:
        program = Path(folder) / "python"
        program.write_text(_PROGRAM.format(python=sys.executable, folder=folder, servers=servers, cold=_COLD))
        program.chmod(0o700)
        for name in names:
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(f"{folder}/{name}")
            listening.listen()
            package = str(Path(pytest_jsbench.__file__).parents[1])
            command = [sys.executable, "-P", __file__, name, str(listening.fileno()), package]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listening.fileno()])
            stack.callback(process.communicate)
            stack.callback(process.kill)
        yield str(program)


def _serve(name: str, listening: socket.socket) -> None:
    """Fork for each client, until the standard input ends."""
    _import(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            os._exit(0)
        asking, _ = listening.accept()
        if not os.fork():
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _handle(asking)
            os._exit(0)
        asking.close()


def _import(name: str) -> None:
    import gc
    import importlib
    import runpy

    if name == SESSION:
        # by its path, since the folder of the tests is no part of what is forked
        runpy.run_path(str(Path(__file__).with_name("remembered_packages.py")))["remember_packages"]()
        from _pytest.config import _prepareconfig

        # plugins are imported as in pytest, with rewritten assertions
        config = _prepareconfig(["-c", os.devnull, "--noconftest", "-p", "no:hypothesispytest", "-p", "no:anyio"])
    for module in _IMPORTS[name]:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    if name == SESSION:
        config._ensure_unconfigure()
    gc.collect()
    gc.freeze()


def _handle(asking: socket.socket) -> None:
    """Fork the requested process, and send back its exit status; end it when the client disconnects."""
    import marshal

    start, streams, _, _ = socket.recv_fds(asking, 4, 3)
    said = b""
    while len(said) < int.from_bytes(start, "big"):
        said += asking.recv(1 << 20)
    child = os.fork()
    if not child:
        asking.close()
        _become(streams, marshal.loads(said))
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([asking.fileno(), ended], [], [])
    if ended not in ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        asking.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _become(streams: list[int], said: tuple[str, int, str, dict[str, str], list[str]]) -> None:
    """Run a program as the interpreter does for `-c`."""
    import atexit
    import threading
    import time
    import traceback
    import types

    folder, umask, program, environ, (code, *rest) = said
    for wanted, stream in enumerate(streams):
        os.dup2(stream, wanted)
        os.close(stream)
    os.chdir(folder)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    tempfile.tempdir = None
    sys.executable = program
    own = environ.get("PYTHONPATH", "")
    sys.path[:0] = ["", *filter(None, own.split(os.pathsep))] if own else []
    sys.argv = ["-c", *rest]
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    status = 0
    try:
        exec(code, main.__dict__)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    # the copy of the package that is tested, whichever is installed
    sys.path.insert(0, sys.argv[3])
    _serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
