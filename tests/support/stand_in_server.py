"""A stand-in for the local engine's server, which a marked request stops, as some grammars stop llama.cpp."""

from __future__ import annotations

import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

#: A request with such a word stops all answers, or ends the process.
STOPS, ENDS = "stops-the-server", "ends-the-server"
#: The process ids of all servers so far, in the directory of the model's file.
PIDS = "pids.txt"
#: Seconds for an answer, so that several calls are in flight.
_SLOW = 0.2

ANSWER = """{"object": "chat.completion", "model": "m", "choices": [{"index": 0, "finish_reason": "stop",
"message": {"role": "assistant", "content": "{\\"n\\": 1}"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}"""

_stopped = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer("[]")

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.path != "/v1/chat/completions":  # such as the number of tokens, which needs no grammar
            self._answer("{}")
            return
        if ENDS in asked:
            os._exit(3)
        if STOPS in asked:
            _stopped.set()
        time.sleep(_SLOW)
        self._answer(ANSWER)

    def _answer(self, text: str) -> None:
        while _stopped.is_set():
            time.sleep(60)
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def address_of(settings: dict[str, Any]) -> str:
    """Serve until the process ends."""
    with Path(settings["model"]).with_name(PIDS).open("a") as file:
        file.write(f"{os.getpid()}\n")
    server = ThreadingHTTPServer(("127.0.0.1", settings["port"]), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
