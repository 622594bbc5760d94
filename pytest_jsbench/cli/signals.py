"""Handle SIGTERM like Ctrl-C, so that a command that is ended prints its result so far."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def handle_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C; has no effect outside the main thread."""
    try:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
