#!/usr/bin/env bash
# openai: connections of streamed calls, and a stream with an error event, in the official SDK.
#
# Guess: a client keeps its connection for the next call, streamed or not; an event whose name is `error` raises an error.
# Packages: openai==3.57.0
# Versions: openai 3.57.0, Python 3.11; 2026-11-28
# Behaviour: each streamed Chat Completions call opens a connection of its own, though the server keeps it open: the SDK closes the
#   response at `[DONE]`, before it has read the end of the body. Each call's time to first token has a handshake. Responses, which
#   have no `[DONE]`, and calls that are not streamed share one connection. An event that is named `error`, but whose data have no
#   field `error`, arrives as a chunk without choices.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check openai==3.57.0
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from openai import APIError, OpenAI

CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
WHOLE = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
RESPONSE = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": [], "status": "completed"}


def delta(text: str) -> dict:
    return {**CHUNK, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections = 0

    def setup(self) -> None:
        Handler.connections += 1
        super().setup()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not body.get("stream"):
            text = json.dumps(RESPONSE if "responses" in self.path else WHOLE).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            return
        if "responses" in self.path:
            done = {"type": "response.completed", "sequence_number": 0, "response": RESPONSE}
            events = [f"event: response.completed\ndata: {json.dumps(done)}\n\n"]
        else:
            events = [f"data: {json.dumps(delta('a'))}\n\n", "data: [DONE]\n\n"]
            if body["model"] == "error":
                failure = json.dumps({"message": "overloaded", "code": 503})
                events.insert(1, f"event: error\ndata: {failure}\n\n")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(f"{len(event):x}\r\n{event}\r\n".encode())
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None: ...


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="k", max_retries=0)
messages = [{"role": "user", "content": "a"}]
calls = {
    "chat, in one piece": lambda: client.chat.completions.create(model="m", messages=messages),
    "chat, streamed": lambda: list(client.chat.completions.create(model="m", messages=messages, stream=True)),
    "responses, in one piece": lambda: client.responses.create(model="m", input="a"),
    "responses, streamed": lambda: list(client.responses.create(model="m", input="a", stream=True)),
}
for name, call in calls.items():
    call()
    before = Handler.connections
    for _ in range(5):
        call()
    print(f"{name}: 5 further calls, {Handler.connections - before} further connections")
try:
    for chunk in client.chat.completions.create(model="error", messages=messages, stream=True):
        print("event:", [choice.delta.content for choice in chunk.choices or ()], chunk.model_extra)
    print("the stream ended without an exception")
except APIError as error:
    print(f"{type(error).__name__}: {error}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
chat, in one piece: 5 further calls, 0 further connections
chat, streamed: 5 further calls, 5 further connections
responses, in one piece: 5 further calls, 0 further connections
responses, streamed: 5 further calls, 0 further connections
event: ['a'] {}
event: [] {'message': 'overloaded', 'code': 503}
the stream ended without an exception
OUTPUT
