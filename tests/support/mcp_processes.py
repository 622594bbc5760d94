"""Commands of MCP servers that log their processes, so that a test can tell whether all have ended."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path


class StartedServer:
    """A command that appends the id of its process to the file that is its next argument."""

    def __init__(self, log: Path, command: Sequence[str]) -> None:
        self._log = log
        self._command = command

    def source(self, *arguments: str) -> str:
        """Return the dataset that the command lists."""
        return "mcp:" + shlex.join([*self._command, str(self._log), *arguments])

    @property
    def processes(self) -> list[int]:
        return [int(line) for line in self._log.read_text().split()] if self._log.exists() else []

    def ended(self) -> bool:
        """Return whether it was started, and all its processes have ended."""
        return bool(self.processes) and not any(map(_is_running, self.processes))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
