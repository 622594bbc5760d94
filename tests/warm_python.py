"""
A Python that starts fast: processes are forked from one that has imported what each of them would import anew.

Most of the time of a short run goes into the imports of its processes. `warm_python` makes a program that is called
like the interpreter. Where it knows what is to be run it asks a server for a fork, and it becomes the interpreter
where it does not, and where the environment asks for new interpreters. What is forked has the caller's streams, folder,
environment and arguments, and limits of its own; the program ends as the fork does, and a program that is killed takes
its fork with it.
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

#: the servers: one forks sessions of pytest and workers of xdist, one the package's own children, in which untrusted
#: data are worked on
SESSION, CHILD = "session", "child"
#: by the first argument of the interpreter, the server that forks what is asked for
_SERVERS = {"-mpytest": SESSION, "-u": SESSION, "-P": CHILD}
#: what a session needs beside pytest's plugins, of others and of the package
_OF_OTHERS = (
    *("_pytest.stepwise", "genai_prices", "http.server", "jinja2", "jsonschema_rs", "pdb", "urllib3"),
    *("pytest_benchmark.storage.file", "xdist.dsession", "xdist.scheduler", "xdist.workermanage"),
)
_OURS = (
    *("adaptation.bounding", "adaptation.document", "datasets.conditions", "datasets.prepared", "datasets.selection"),
    *("datasets.sources.folder", "datasets.sources.rows", "engines.providers.openai", "engines.recorded.engine"),
    *("engines.recorded.unused_files", "engines.scripted", "fixture.endpoint", "lab.interchange.every_eval_ever"),
    *("metrics.gates", "metrics.metric_names", "plugin.activation", "plugin.benchmark", "plugin.controller"),
    *(
        "plugin.dry_run",
        "plugin.pytest_fixtures",
        "plugin.outputs",
        "plugin.terminal",
        "plugin.unused_recordings",
        "plugin.worker",
    ),
    *("plugin.xdist_scheduling", "reports.comparison_report", "reports.run_json", "reports.html.report"),
    *("reports.markdown", "reports.run_files", "reports.run_report", "reports.terminal", "run.estimate", "run.limits"),
    "run.state",
)
OF_A_SESSION = (*_OF_OTHERS, *(f"pytest_jsbench.{name}" for name in _OURS))
_IMPORTS = {
    SESSION: OF_A_SESSION,
    CHILD: ("pytest_jsbench.verdicts.in_process", "pytest_jsbench.verdicts.second_opinion"),
}
#: variables that ask for what a fork cannot do, and one to have new interpreters
_COLD = {"COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START", "JSBENCH_COLD_START"}

_PROGRAM = """#!{python} -IS
import _socket, array, marshal, os, sys
PYTHON, FOLDER = {python!r}, {folder!r}
kind, *program = sys.argv[1:] or [""]
if kind == "-mpytest":
    program = ["-c", "import pytest; raise SystemExit(pytest.main())", *program]
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
    """Return True where the platform has what is needed and the environment asks for nothing that a fork cannot do."""
    possible = hasattr(os, "pidfd_open") and " " not in sys.executable
    return possible and not _COLD.intersection(os.environ)


@contextlib.contextmanager
def warm_python(*names: str) -> Iterator[str]:
    """Yield the path of a program that has these servers fork until the block is left."""
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
    """Fork for each that connects, until the standard input ends."""
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

    if name == SESSION:
        from _pytest.config import _prepareconfig

        # plugins are imported as pytest does, with their assertions rewritten
        config = _prepareconfig(["-c", os.devnull, "--noconftest", "-p", "no:hypothesispytest", "-p", "no:anyio"])
    for module in _IMPORTS[name]:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    if name == SESSION:
        config._ensure_unconfigure()
    gc.collect()
    gc.freeze()


def _handle(asking: socket.socket) -> None:
    """Fork what is asked for, and send back its exit status; end it when nobody waits for that any more."""
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
    """Run a program as the interpreter that was called with `-c` does."""
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
    # the copy of the package that the tests have, whichever is installed
    sys.path.insert(0, sys.argv[3])
    _serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
