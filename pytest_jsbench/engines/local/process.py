"""The local model server's process: started, spoken to once, and always ended."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from pytest_jsbench.core.child_process import ChildNotStarted, ChildProcess, Program
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.engines.local.server import ServerSettings

_MODULE = "pytest_jsbench.engines.local.server"
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
    # a model takes what memory it takes
    program = Program(module=_MODULE, settings=asdict(settings), memory=None, start_timeout=timeout)
    try:
        process = ChildProcess(program)
    except ChildNotStarted as error:
        reason = f"it said nothing within {timeout:g} s" if error.ending == "timeout" else error.reason
        message = f"the local model server did not start with {settings.model}: {one_line(reason, secret=settings.key)}"
        raise EngineError(message) from None
    try:
        yield RunningServer(address=process.greeting["address"], key=settings.key)
    finally:
        process.close(_PATIENCE)
