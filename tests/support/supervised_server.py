"""A server that one schema kills, and a supervisor that starts it again at the same address, as systemd would."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: Keyword with which a schema kills the server.
DEADLY = "uniqueItems"
#: Status of a server that died of a schema.
DIED = 3

_ANSWER = {
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": '{"n": 1}'}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4},
}


@dataclass(slots=True)
class Supervised:
    """The server's address, and how often it died."""

    address: str = ""
    deaths: int = 0
    #: Process that serves now.
    process: subprocess.Popen[bytes] | None = None
    ended: threading.Event = field(default_factory=threading.Event)


@contextmanager
def supervised_server(*, in_flight: int) -> Iterator[Supervised]:
    """Serve during the block; the first server keeps requests waiting, so that it dies with this number in flight."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    supervised = Supervised(address=f"http://127.0.0.1:{port}/v1")
    _start(supervised, port, in_flight)

    def supervise() -> None:
        while True:
            assert supervised.process is not None
            status = supervised.process.wait()
            supervised.deaths += status == DIED
            if supervised.ended.is_set():
                return
            _start(supervised, port, 1)

    thread = threading.Thread(target=supervise, daemon=True)
    thread.start()
    try:
        yield supervised
    finally:
        supervised.ended.set()
        while thread.is_alive():
            assert supervised.process is not None
            supervised.process.kill()
            thread.join(0.1)


def _start(supervised: Supervised, port: int, in_flight: int) -> None:
    command = [sys.executable, __file__, str(port), str(in_flight)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    supervised.process = process
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()  # it listens


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: Number of requests in flight when the server dies; until then, all but one wait.
    least = 1
    waiting = 0
    is_dying = False
    changed = threading.Condition()

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        if DEADLY in text:
            self._die()
        self._wait()
        body = json.dumps(_ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _die(self) -> None:
        with self.changed:
            _Handler.is_dying = True
            self.changed.wait_for(lambda: _Handler.waiting >= self.least - 1)
            os._exit(DIED)

    def _wait(self) -> None:
        """Wait until enough other requests wait; if the server is about to die, wait for its end."""
        with self.changed:
            _Handler.waiting += 1
            self.changed.notify_all()
            self.changed.wait_for(lambda: not _Handler.is_dying and _Handler.waiting >= self.least)
            _Handler.waiting -= 1

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _serve(port: int, least: int) -> None:
    _Handler.least = least
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
