"""The allocator of this process: what the texts of many calls have taken is given back when they are gone."""

from __future__ import annotations

import os

#: glibc's numbers of what can be set (malloc.h), and the values: heaps in bytes, but for their number
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
_LIMITS = {_ARENA_MAX: 2, _MMAP_THRESHOLD: 1 << 20, _TRIM_THRESHOLD: 4 << 20, _TOP_PAD: 1 << 20}
#: with any of these in the environment, it is the user who decides
_OWN = ("MALLOC_", "GLIBC_TUNABLES")


def bound_heaps() -> None:
    """
    Let all threads share two heaps, and give freed memory back; nothing where the allocator is not glibc's.

    By itself glibc gives each of many threads a heap of its own, and learns from large texts to keep what they leave:
    of the schemas of 64 calls in flight this holds more than a hundred megabytes that nobody uses.
    """
    if not _is_glibc() or any(name.startswith(_OWN) for name in os.environ):
        return
    try:
        import ctypes

        library = ctypes.CDLL(None)
        for name, value in _LIMITS.items():
            library.mallopt(name, value)
    except (ImportError, OSError, AttributeError):
        return


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):  # Windows has no confstr, and others know no such name
        return False
