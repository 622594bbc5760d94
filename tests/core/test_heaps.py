from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

#: Program that prints the heaps of the C library while eight threads keep some memory.
CODE = """
import ctypes, threading
from pytest_jsbench.core.heaps import limit_heaps

limit_heaps()
allocated, printed = threading.Barrier(9), threading.Event()
def allocate():
    kept = [bytes(600) for _ in range(100)]
    allocated.wait()
    printed.wait()

for _ in range(8):
    threading.Thread(target=allocate).start()
allocated.wait()
ctypes.CDLL(None).malloc_info(0, ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stdout"))
ctypes.CDLL(None).fflush(None)
printed.set()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has several heaps")
@pytest.mark.parametrize(("chosen", "heaps"), [({}, 2), ({"MALLOC_ARENA_MAX": "4"}, 4)])
def test_threads_share_two_heaps_unless_the_user_sets_more(chosen: dict[str, str], heaps: int) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | chosen
    result = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout.count("<heap nr=") == heaps
