"""Limit the number of heaps of the C library."""

from __future__ import annotations

import os
import sys

#: Parameter of `mallopt` for the number of heaps, in glibc's `malloc.h`.
_ARENA_MAX = -8
_HEAPS = 2


def limit_heaps() -> None:
    """
    Let all threads share two heaps, unless the user has set their number.

    By default, glibc gives threads up to eight heaps per processor. With 64 calls in flight, what one thread frees
    stays in its heap while the other heaps grow: a quarter of the memory of a run. Other C libraries have no such
    parameter.
    """
    if sys.platform != "linux" or "MALLOC_ARENA_MAX" in os.environ:
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, _HEAPS)
