"""Limit the number of heaps of the C library, and what stays in them; return what is free to the system."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

#: Parameters of `mallopt`, in glibc's `malloc.h`, with their variables of the environment and the values to set.
_PARAMETERS = (
    # Number of heaps.
    (-8, "MALLOC_ARENA_MAX", 2),
    # Size in bytes from which a block of memory is outside of the heaps.
    (-3, "MALLOC_MMAP_THRESHOLD_", 64 << 10),
)


def limit_heaps() -> None:
    """
    Let all threads share two heaps, and keep large texts out of them, unless the user has set these parameters.

    By default, glibc gives threads up to eight heaps per processor. With 64 calls in flight, what one thread frees
    stays in its heap while the other heaps grow: a quarter of the memory of a run. And once a large block is freed,
    further blocks of its size are put into the heaps, where they leave gaps: 12 MB of 242 MB with the 9,557 schemas of
    JSONSchemaBench. Other C libraries have no such parameters.
    """
    mallopt = _find_function("mallopt")
    if mallopt is None:
        return
    for parameter, variable, value in _PARAMETERS:
        if variable not in os.environ:
            mallopt(parameter, value)


def trim_heaps() -> None:
    """
    Return the free pages of the heaps to the operating system, which takes about 2 ms.

    By itself, glibc returns only the end of a heap: what is free below a block in use stays with the process.
    """
    if (malloc_trim := _find_function("malloc_trim")) is not None:
        malloc_trim(0)


def _find_function(name: str) -> Callable[..., object] | None:
    """Return a function of glibc; None if the C library does not have it."""
    if sys.platform != "linux":
        return None
    import ctypes

    return getattr(ctypes.CDLL(None), name, None)
