"""A fake decoding library in a separate process, which misbehaves on request and reports its process id."""

from __future__ import annotations

import os
import sys
import time
from typing import Any


class PanicException(BaseException):
    """Like Rust's panics, this is not an Exception."""


def load(library: str, start: str) -> None:
    match start:
        case "no library":
            raise ImportError(f"no {library}")
        case "exit":
            sys.stderr.write("no such module\n")
            sys.stderr.flush()
            os._exit(1)
        case "hang":
            time.sleep(60)


def call(library: str, start: str, mood: str) -> dict[str, Any]:
    match mood:
        case "hang":
            time.sleep(60)
        case "abort":
            sys.stderr.write("terminate called after bad luck\n")
            sys.stderr.flush()
            os.abort()
        case "leave":
            os._exit(0)
        case "break":
            raise PanicException(f"it broke, {library}, after it began {start}")
    return {"pid": os.getpid()}
