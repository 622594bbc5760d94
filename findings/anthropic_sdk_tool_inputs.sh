#!/usr/bin/env bash
# anthropic: the input of a streamed tool call whose JSON ends early, or goes on after its end, in the official SDK.
#
# Guess: get_final_message() raises an error if the pieces of a tool's input are not a JSON document together, or leaves them as text.
# Packages: anthropic==2.14.0
# Versions: anthropic 2.14.0, Python 3.11; 2026-11-29
# Behaviour: a document that ends early is closed: a number that was cut off after its first digit is that digit, with stop_reason
#   `tool_use` and without an exception. A second document after the first is dropped. Only text that begins no JSON raises ValueError.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check anthropic==2.14.0
"$work/venv/bin/python" -W ignore - >"$work/output" <<'PROGRAM'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from anthropic import Anthropic

#: Streamed pieces of the tool's input by model.
PIECES = {
    "whole": ['{"name": "a", ', '"total": 1250}'],
    "no brace": ['{"name": "a", ', '"total": 1250'],
    "cut off": ['{"name": "a", ', '"total": 1'],
    "second object": ['{"name": "a", "total": 1}', '{"name": "b", "total": 2}'],
    "prose": ["I cannot ", "call it."],
}


def event(kind: str, **data: object) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        model = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["model"]
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
        block = {"type": "tool_use", "id": "t", "name": "save", "input": {}}
        events = [
            event("message_start", message={**message, "stop_reason": None, "stop_sequence": None}),
            event("content_block_start", index=0, content_block=block),
            *(
                event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": piece})
                for piece in PIECES[model]
            ),
            event("content_block_stop", index=0),
            event("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={"output_tokens": 9}),
            event("message_stop"),
        ]
        text = "".join(events).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None: ...


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = Anthropic(base_url=f"http://127.0.0.1:{server.server_port}", api_key="k", max_retries=0)
for name in PIECES:
    try:
        with client.messages.stream(model=name, max_tokens=9, messages=[{"role": "user", "content": "a"}]) as stream:
            message = stream.get_final_message()
        print(f"{name}: stop_reason {message.stop_reason}, input {message.content[0].input}")
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {str(error)[:60]}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
whole: stop_reason tool_use, input {'name': 'a', 'total': 1250}
no brace: stop_reason tool_use, input {'name': 'a', 'total': 1250}
cut off: stop_reason tool_use, input {'name': 'a', 'total': 1}
second object: stop_reason tool_use, input {'name': 'a', 'total': 1}
prose: ValueError: Unable to parse tool parameter JSON from model. Please retry
OUTPUT
