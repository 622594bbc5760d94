"""
Processor time of a process and of all its descendants.

`wait4` returns the time of a process and of the children that it has waited for. A child that outlives its parent, such
as a reader of Parquet files, is missing there; on Linux, this process adopts such children and waits for them itself.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

#: Option of `prctl` with which the descendants of a process become its children when their own parent ends.
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process that has ended."""

    status: int
    #: Value of time.monotonic when the process itself ended.
    at: float
    #: Processor time of the process and its descendants in seconds.
    cpu: float
    #: Memory of its largest process in megabytes.
    megabytes: float


def wait_for_tree(process: subprocess.Popen[bytes]) -> Ended:
    """Wait for the process, and then for those of its descendants that still run."""
    others = _children() - {process.pid}
    _adopt_orphans()
    _, status, used = os.wait4(process.pid, 0)
    ended_at = time.monotonic()
    process.returncode = os.waitstatus_to_exitcode(status)
    usages = [used, *(os.wait4(pid, 0)[2] for pid in _children() - others)]
    return Ended(
        status=process.returncode,
        at=ended_at,
        cpu=sum(usage.ru_utime + usage.ru_stime for usage in usages),
        megabytes=max(usage.ru_maxrss for usage in usages) / 1024,
    )


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children() -> set[int]:
    """Return the processes that are children of this process; none on other systems than Linux."""
    return {int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}
