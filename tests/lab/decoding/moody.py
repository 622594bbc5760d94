"""A library in a process of its own that does what it is told to, and says where it lives."""

from __future__ import annotations

import functools
import os
import sys
import time
from typing import Any

from pytest_jsbench.core.child_service import Service


class PanicException(BaseException):
    """As Rust's panics arrive: no Exception."""


def main(config: dict[str, Any]) -> None:
    service = Service(config)
    match config["settings"]["model"]:
        case "no library":
            service.fail(ImportError("no library"))
            return
        case "exit":
            sys.exit("no such module")
        case "hang":
            time.sleep(60)
    service.ready()
    for request in service.requests():
        service.answer(request["seconds"], functools.partial(_answer, service, request["do"]))


def _answer(service: Service, mood: str) -> dict[str, Any]:
    match mood:
        case "hang":
            time.sleep(60)
        case "abort":
            sys.stderr.write("terminate called after bad luck\n")
            sys.stderr.flush()
            os.abort()
        case "leave":
            os._exit(0)
        case "half":
            service.send(b'{"pid": ')
            os._exit(1)
        case "break":
            raise PanicException("it broke")
    return {"pid": os.getpid()}
