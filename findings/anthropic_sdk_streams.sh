#!/usr/bin/env bash
# anthropic: streamed events without a name, in the official SDK.
#
# Guess: the type of an event is in its data, so that a server (or a gateway) may leave out the line `event:`, as with OpenAI's
#   SDK; at least an error in the stream raises.
# Packages: anthropic==2.14.0
# Versions: anthropic 2.14.0, Python 3.11; 2026-11-28
# Behaviour: events without the line `event:` are skipped without a sign, the error too: the stream ends with the text that had
#   arrived, or with nothing.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check anthropic==2.14.0
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from anthropic import Anthropic, APIError

MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
           "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
EVENTS = [
    {"type": "message_start", "message": MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "{\"city\": "}},
    {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        model = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["model"]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in EVENTS:
            unnamed = model == "no-names" or (model == "unnamed-error" and event["type"] == "error")
            name = "" if unnamed else f"event: {event['type']}\n"
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())

    def log_message(self, *_: object) -> None: ...


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = Anthropic(base_url=f"http://127.0.0.1:{server.server_port}", api_key="k", max_retries=0)
for model in ("names", "unnamed-error", "no-names"):
    print(f"{model}:")
    try:
        for event in client.messages.create(
            model=model, max_tokens=9, messages=[{"role": "user", "content": "a"}], stream=True
        ):
            print("  event", event.type)
        print("  the stream ended without an exception")
    except APIError as error:
        print(f"  {type(error).__name__}: {error}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
names:
  event message_start
  event content_block_start
  event content_block_delta
  APIStatusError: {'type': 'error', 'error': {'type': 'overloaded_error', 'message': 'Overloaded'}}
unnamed-error:
  event message_start
  event content_block_start
  event content_block_delta
  the stream ended without an exception
no-names:
  the stream ended without an exception
OUTPUT
