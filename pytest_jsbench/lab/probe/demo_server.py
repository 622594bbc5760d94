"""
A loopback server with planted faults, for `jsbench probe --demo`.

The server implements Chat Completions without a model. An answer usually conforms to the request's schemas, as if the
server enforced them. If the request has no schema, or a fault prevents enforcement, the answer is the text that the
prompt requests.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pytest_jsbench.lab.probe.demo_chat import (
    ChatAnswer,
    ChatRequest,
    answer_of_text,
    completion,
    make_answer,
    stream_events,
)

#: Keyword that is ignored in streamed answers.
IGNORED_KEYWORD = "pattern"
#: Maximum number of concurrent requests that are answered correctly.
SOUND_UP_TO = 4
#: Description of the faults, for the command's output.
FAULTS = (
    f"it ignores {IGNORED_KEYWORD} in streamed answers, mixes up answers above {SOUND_UP_TO} concurrent calls, and "
    "ignores the response format next to tools"
)
#: Delay of each answer, in seconds.
_ALONE = 0.02
#: Additional delay in seconds while other requests are in flight, so that concurrent requests overlap.
_TOGETHER = 0.3
#: Maximum length of a request in bytes.
_LONGEST = 1_000_000


@contextmanager
def serve_demo(handler: type[BaseHTTPRequestHandler] | None = None) -> Iterator[str]:
    """Run the server on a free port of 127.0.0.1, and yield the base URL."""
    with _Server(("127.0.0.1", 0), handler or DemoHandler) as server:
        threading.Thread(target=server.serve_forever, args=[0.05], name="jsbench-demo", daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()


class _Server(ThreadingHTTPServer):
    """A server with a thread for each request, which mixes up answers if too many requests are in flight."""

    block_on_close = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: Unanswered requests, in the order of arrival.
        self._in_flight: list[ChatRequest] = []
        self._lock = threading.Lock()

    def answer(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer, after a delay."""
        with self._lock:
            self._in_flight.append(request)
            # the planted fault: above the limit, a request gets the answer to the previous request
            answered = self._in_flight[-2] if len(self._in_flight) > SOUND_UP_TO else request
        time.sleep(_ALONE)
        if len(self._in_flight) > 1:
            time.sleep(_TOGETHER)
        with self._lock:
            self._in_flight.remove(request)
        if answered.streaming and answered.uses(IGNORED_KEYWORD):
            return answer_of_text(answered.wanted, answered)
        if answered.tools and answered.tool is None:
            # the planted fault: next to tools, an answer in text is not constrained
            answered = replace(answered, schema=None)
        return make_answer(answered)


class DemoHandler(BaseHTTPRequestHandler):
    """Answers requests with the planted faults."""

    protocol_version = "HTTP/1.1"
    #: Send headers and body together, since the client's system may delay the acknowledgement between two packets.
    wbufsize = -1
    server: _Server

    def do_POST(self) -> None:
        """Answer a Chat Completions request, in one piece or as a stream."""
        try:
            size = int(self.headers.get("content-length", ""))
            body = json.loads(self.rfile.read(min(size, _LONGEST)))
            request = ChatRequest.from_body(body)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            self.close_connection = True
            error = {"message": "expected a request of jsbench probe to Chat Completions"}
            self._send("application/json", json.dumps({"error": error}), status=400)
            return
        answer = self.server.answer(request)
        if request.streaming:
            self._send("text/event-stream", "".join(stream_events(answer)))
        else:
            self._send("application/json", json.dumps(completion(answer)))

    def _send(self, content_type: str, body: str, *, status: int = 200) -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
