"""The allocator of this process: what the texts of many calls have taken is given back when they are gone."""

from __future__ import annotations

import os
from typing import Any

#: glibc's numbers of what can be set (malloc.h), and the values: heaps in bytes, but for their number
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
_LIMITS = {_ARENA_MAX: 2, _MMAP_THRESHOLD: 1 << 20, _TRIM_THRESHOLD: 4 << 20, _TOP_PAD: 1 << 20}
#: characters of texts that are gone, after which what they leave is given back; each leaves many times its own size
_LEFT = 1_000_000
#: with any of these in the environment, it is the user who decides
_OWN = ("MALLOC_", "GLIBC_TUNABLES")


def bound_heaps() -> None:
    """
    Let all threads share two heaps, and give freed memory back; nothing where the allocator is not glibc's.

    By itself glibc gives each of many threads a heap of its own, and learns from large texts to keep what they leave:
    of the schemas of 64 calls in flight this holds more than a hundred megabytes that nobody uses.
    """
    library = _glibc()
    if library is not None:
        for name, value in _LIMITS.items():
            library.mallopt(name, value)


class Leftovers:
    """
    Gives the system back what large texts leave between what is held, which the heaps' limits do not.

    Whoever handles many texts makes one, and says from any thread how long each was that it has let go of.
    """

    def __init__(self) -> None:
        self._characters = 0

    def add(self, characters: int) -> None:
        """Note a text that is gone."""
        self._characters += characters  # what two threads lose here comes a little later
        if self._characters < _LEFT:
            return
        self._characters = 0
        if (library := _glibc()) is not None:
            library.malloc_trim(0)


def _glibc() -> Any:
    """The library that allocates; None where it is another than glibc, or is set by the user."""
    if not _is_glibc() or any(name.startswith(_OWN) for name in os.environ):
        return None
    try:
        import ctypes

        library = ctypes.CDLL(None)
        library.mallopt, library.malloc_trim  # noqa: B018  whether they are there
    except (ImportError, OSError, AttributeError):
        return None
    return library


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):  # Windows has no confstr, and others know no such name
        return False
