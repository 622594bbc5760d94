"""What children are made to do, by one word, to a text."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any


def work(do: str, text: str) -> dict[str, Any]:
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
