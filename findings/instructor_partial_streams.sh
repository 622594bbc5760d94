#!/usr/bin/env bash
# instructor: the last object of a partial stream whose tool arguments are cut off, or whose answer is a refusal.
#
# Guess: create_partial() streams objects that are still growing, and validates the last one: a stream that ends at the token limit
#   raises IncompleteOutputException, as create() does, and so does an answer without the tool call.
# Packages: instructor==1.17.0, openai==3.3.0
# Versions: instructor 1.17.0, openai 3.3.0, Python 3.11; 2026-11-29
# Behaviour: create_partial() raises nothing for finish_reason `length`. The last object has the first half of the text "example"
#   as its value and None in a required field; nothing distinguishes it from a whole answer. Refusals and prose end the stream
#   without any object. create() raises in all three cases.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check instructor==1.17.0 openai==3.3.0
"$work/venv/bin/python" -W ignore - >"$work/output" <<'PROGRAM'
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import instructor
from openai import OpenAI
from pydantic import BaseModel

logging.disable(logging.CRITICAL)


class Invoice(BaseModel):
    name: str
    total: float


def call(arguments: str) -> dict:
    return {"id": "c", "type": "function", "function": {"name": "Invoice", "arguments": arguments}}


#: Message and finish reason of each model.
ANSWERS = {
    "whole": ({"tool_calls": [call('{"name": "example", "total": 12.5}')]}, "tool_calls"),
    "truncated": ({"tool_calls": [call('{"name": "examp')]}, "length"),
    "refusal": ({"refusal": "I cannot help with that."}, "stop"),
    "prose": ({"content": "Here is your invoice."}, "stop"),
}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message, reason = ANSWERS[body["model"]]
        head = {"id": "c", "created": 1, "model": body["model"]}
        message = {"role": "assistant", "content": None, **message}
        if body.get("stream"):
            calls = [{"index": 0, **each} for each in message.get("tool_calls", [])]
            delta = {**message, "tool_calls": calls} if calls else message
            chunks = [{"index": 0, "delta": delta, "finish_reason": None}, {"index": 0, "delta": {}, "finish_reason": reason}]
            events = [{**head, "object": "chat.completion.chunk", "choices": [choice]} for choice in chunks]
            text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": message, "finish_reason": reason}
            text = json.dumps({**head, "object": "chat.completion", "choices": [choice]})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if body.get("stream") else "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None: ...


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = instructor.from_openai(OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="k", max_retries=0))
for name in ANSWERS:
    asked = {"model": name, "messages": [{"role": "user", "content": "a"}], "response_model": Invoice, "max_retries": 0}
    try:
        print(f"{name}, create: {client.create(**asked)!r}")
    except Exception as error:
        print(f"{name}, create: {type(error).__name__}")
    try:
        objects = list(client.create_partial(**asked))
        print(f"{name}, create_partial: {objects[-1].model_dump() if objects else 'no object'}")
    except Exception as error:
        print(f"{name}, create_partial: {type(error).__name__}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
whole, create: Invoice(name='example', total=12.5)
whole, create_partial: {'name': 'example', 'total': 12.5}
truncated, create: IncompleteOutputException
truncated, create_partial: {'name': 'examp', 'total': None}
refusal, create: InstructorRetryException
refusal, create_partial: no object
prose, create: InstructorRetryException
prose, create_partial: no object
OUTPUT
