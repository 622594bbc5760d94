"""The local model server's process: started, spoken to once, and always ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pytest_jsbench.engines.messages import one_line
from pytest_jsbench.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.local_server import ServerSettings

_MODULE = "pytest_jsbench.engines.local_server"
#: seconds between closing the server's stdin and killing it
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """Where the server listens, and what it asks of callers."""

    address: str
    key: str = field(repr=False)


@contextmanager
def serving(settings: ServerSettings, *, timeout: float) -> Iterator[RunningServer]:
    """A server for the length of the block; EngineError when it has not loaded the model in time."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(  # noqa: S603 (no word of the command is a user's)
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=package_environment(),
            text=True,
            encoding="utf-8",
        )
        try:
            address = _first_words(process, settings, log, timeout=timeout)
            yield RunningServer(address=address, key=settings.key)
        finally:
            end(process)


def package_environment() -> dict[str, str]:
    """The environment of this process, in which the package is found wherever it was imported from."""
    home = str(Path(__file__).parents[2])
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    # without PYTHONSAFEPATH a file in the user's folder could stand in for a module of the server
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


def _first_words(process: subprocess.Popen[str], settings: ServerSettings, log: IO[bytes], *, timeout: float) -> str:
    """The address, once the model is loaded."""
    assert process.stdin is not None
    assert process.stdout is not None
    # a read of a pipe has no timeout, but ends when the process does
    watchdog = threading.Timer(timeout, process.kill)
    watchdog.daemon = True
    watchdog.start()
    try:
        with suppress(BrokenPipeError):  # it died at once; its reply, or its log, says why
            process.stdin.write(settings.to_line())
            process.stdin.flush()
        line = process.stdout.readline()
    finally:
        watchdog.cancel()
    reply: dict[str, str] = json.loads(line) if line.endswith("\n") else {}
    if address := reply.get("address"):
        return address
    reason = reply.get("error") or last_line(log) or f"it said nothing within {timeout:g} s"
    message = f"the local model server did not start with {settings.model}: {one_line(reason, secret=settings.key)}"
    raise EngineError(message)


def last_line(log: IO[bytes]) -> str:
    """The last line of a log that is not empty."""
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def end(process: subprocess.Popen[str]) -> None:
    """Close the process's pipes, at which it ends by itself, or soon is ended."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
