from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_jsbench.core import allocator

#: the heaps that glibc has made for eight threads, each of which holds a text of its own
HEAPS = """
import ctypes, os, tempfile, threading
from pytest_jsbench.core.allocator import bound_heaps

bound_heaps()
library, together = ctypes.CDLL(None), threading.Barrier(8)
library.malloc.restype = ctypes.c_void_p

def hold():
    together.wait()
    library.malloc(2000)
    together.wait()

threads = [threading.Thread(target=hold) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
library.fopen.restype, library.fclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
with tempfile.NamedTemporaryFile() as file:
    opened = library.fopen(file.name.encode(), b"w")
    library.malloc_info(0, ctypes.c_void_p(opened))
    library.fclose(opened)
    print(file.read().count(b"<heap nr="))
"""

needs_glibc = pytest.mark.skipif(not allocator._is_glibc(), reason="another allocator than glibc's")


def printed(program: str, **environment: str) -> list[int]:
    """The numbers that a program prints, in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    ran = subprocess.run([sys.executable, "-c", program], env={**kept, **environment}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return list(map(int, ran.stdout.split()))


@needs_glibc
def test_many_threads_share_two_heaps() -> None:
    (count,) = printed(HEAPS)
    assert count <= 2


@needs_glibc
def test_what_the_user_has_set_stands() -> None:
    assert printed(HEAPS, MALLOC_ARENA_MAX="5") == [5]


@pytest.mark.parametrize("said", ["", None, ValueError, OSError])
def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch, said: str | type[Exception] | None) -> None:
    asked: list[str] = []

    def confstr(name: str) -> str | None:
        asked.append(name)
        if isinstance(said, type):
            raise said
        return said

    monkeypatch.setattr(os, "confstr", confstr, raising=False)

    allocator.bound_heaps()

    assert asked
    assert not allocator._is_glibc()


#: the MB of a process that keeps one text of a hundred: before what the others have left is given back, and then
LEFT = r"""
import re
from pathlib import Path
from pytest_jsbench.core.allocator import Leftovers

def held():
    return int(re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())[1]) // 1024

leftovers = Leftovers()
texts = ["x" * 10_000 + str(number) for number in range(5_000)]
kept = texts[::100]
texts.clear()
print(held())
for text in range(100):
    leftovers.add(10_000)
print(held())
"""
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


@needs_glibc
@needs_proc
def test_what_large_texts_leave_between_others_is_given_back() -> None:
    before, after = printed(LEFT)
    assert after < before / 2


@needs_glibc
@needs_proc
def test_what_texts_leave_stays_where_the_user_has_set_the_allocator() -> None:
    before, after = printed(LEFT, MALLOC_ARENA_MAX="5")
    assert after > before / 2
