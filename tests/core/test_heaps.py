from __future__ import annotations

import os
import platform
import re
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


#: Program that prints the bytes outside of the heaps before and after it allocates half of a block that it has freed.
LARGE = """
import ctypes
from pytest_jsbench.core.heaps import limit_heaps

limit_heaps()
libc = ctypes.CDLL(None)
def show():
    libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
    libc.fflush(None)

freed = bytes(2 << 20)
del freed
show()
kept = bytes(1 << 20)
show()
"""

#: Program that prints the kilobytes in memory before and after it trims a heap whose last block alone is in use.
FREE = """
import re
from pathlib import Path
from pytest_jsbench.core.heaps import trim_heaps

kept = [bytes(1 << 10) for _ in range(16 << 10)]
del kept[:-1]
for _ in range(2):
    print(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
    trim_heaps()
"""

glibc_only = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these parameters")


def _run(code: str, chosen: dict[str, str]) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | chosen
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


@glibc_only
@pytest.mark.parametrize(("chosen", "heaps"), [({}, 2), ({"MALLOC_ARENA_MAX": "4"}, 4)])
def test_threads_share_two_heaps_unless_the_user_sets_more(chosen: dict[str, str], heaps: int) -> None:
    assert _run(CODE, chosen).count("<heap nr=") == heaps


@glibc_only
def test_trimming_returns_what_is_free_below_a_block_in_use() -> None:
    before, after = map(int, _run(FREE, {}).split())
    assert before - after > 8 << 10


@glibc_only
@pytest.mark.parametrize(("chosen", "outside"), [({}, True), ({"MALLOC_MMAP_THRESHOLD_": str(8 << 20)}, False)])
def test_large_blocks_stay_outside_of_the_heaps_unless_the_user_sets_more(
    chosen: dict[str, str], outside: bool
) -> None:
    before, after = map(int, re.findall(r'<total type="mmap" count="\d+" size="(\d+)"', _run(LARGE, chosen)))
    assert (after - before >= 1 << 20) is outside
