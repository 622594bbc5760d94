"""Functions that tests run in child processes."""

from __future__ import annotations

import atexit
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any


def echo(value: Any) -> Any:
    return value


def process() -> int:
    return os.getpid()


def process_of(settings: object) -> str:
    """Send the process id in place of the model server's address."""
    return str(os.getpid())


def write_at_exit(path: str) -> None:
    atexit.register(Path(path).write_text, "taken down")


def hang() -> None:
    time.sleep(60)


def count_for_ever() -> None:
    while True:
        pass


def fill() -> str:
    return "x" * (3 << 30)


def fill_slowly() -> list[str]:
    kept: list[str] = []
    while True:
        kept.append("x" * 1_000_000)


def long_text(size: int) -> str:
    return "x" * size


def nest() -> Any:
    return nest()


def break_it() -> None:
    raise ZeroDivisionError("by zero")


def die() -> None:
    os._exit(3)


def half() -> None:
    """End in the middle of the reply's first line."""
    replies = next(number for number in range(3, 50) if _is_pipe(number))
    os.write(replies, b'="ha')
    os._exit(4)


def _is_pipe(number: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(number).st_mode)
    except OSError:
        return False


def soft_limit(kind: int) -> int:
    import resource

    return resource.getrlimit(kind)[0]


def peak() -> int:
    """Return the child's peak memory in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def work(do: str, text: str) -> dict[str, Any]:
    """Process a text as a single word specifies."""
    match do:
        case "wait":
            _wait_for(text)
        case "hang":
            time.sleep(60)
        case "die":
            os._exit(3)
        case "die later":
            _wait_for(text)
            os._exit(3)
        case "say much":
            return {"text": "x" * int(text), "pid": os.getpid()}
    return {"text": text, "pid": os.getpid()}


def _wait_for(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.005)
