"""Drive a headless Chromium for tests of pages, through its debugging pipe."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
#: Chromium reads from file descriptor 3 and writes to 4.
_START = 'exec chromium "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1'
_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run")


class Browser:
    """
    A page in Chromium, with the width of a phone.

    Use it in a `with` block. Evaluated code runs in the page even if the page's policy forbids scripts.
    """

    def __init__(self, profile: Path, *, width: int = 390, height: int = 844) -> None:
        command = ["sh", "-c", _START, "chromium", *_OPTIONS, f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._alarm = threading.Timer(120, self._process.kill)  # for a browser that does not answer
        self._alarm.start()
        self._calls = 0
        self._session: dict[str, str] = {}
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True}
        self._call("Emulation.setDeviceMetricsOverride", **screen)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._alarm.cancel()
        self._process.kill()
        self._process.communicate()

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._calls += 1
        assert self._process.stdin is not None
        message = {"id": self._calls, "method": method, "params": parameters, **self._session}
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        self._process.stdin.flush()
        while (reply := self._read()).get("id") != self._calls:
            pass  # an event
        assert "error" not in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        message = bytearray()
        while (byte := self._process.stdout.read(1)) != b"\0":
            assert byte, "the browser has ended"
            message += byte
        reply: dict[str, Any] = json.loads(message)
        return reply

    def open(self, address: str) -> None:
        """Go to the address, and wait for its page."""
        self._call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, expression: str) -> Any:
        """Return the value of the JavaScript expression in the page."""
        return self._call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until the expression is true in the page."""
        deadline = time.monotonic() + 60
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < deadline, self.evaluate("document.body.innerText")
            time.sleep(0.05)

    def screenshot(self) -> str:
        """Return a picture of the page, as PNG in Base64."""
        picture: str = self._call("Page.captureScreenshot", captureBeyondViewport=False)["data"]
        return picture
