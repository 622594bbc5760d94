#!/usr/bin/env bash
# langchain-openai: structured output by function calling, when the arguments of the call are not JSON.
#
# Guess: with_structured_output(…, method="function_calling") raises an exception if the arguments of the call cannot be parsed, whole or
#   streamed; with include_raw=False there is no other place for an error.
# Packages: langchain-openai==1.7.4, langchain-core==1.8.3
# Versions: langchain-openai 1.7.4, langchain-core 1.8.3, Python 3.11; 2026-11-29
# Behaviour: invoke() returns None for arguments without their last brace, without an exception: the call is moved to
#   `invalid_tool_calls`, and a message without tool calls parses to None. stream() closes the arguments and returns an object: a
#   number that was cut off after its first digit is returned as that digit. Prose instead of a call is None, too.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check langchain-openai==1.7.4 langchain-core==1.8.3
"$work/venv/bin/python" -W ignore - >"$work/output" <<'PROGRAM'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Invoice(BaseModel):
    name: str
    total: float


#: Arguments of the call by model; None for prose.
ARGUMENTS = {
    "whole": '{"name": "a", "total": 1250}',
    "no brace": '{"name": "a", "total": 1250',
    "cut off": '{"name": "a", "total": 1',
    "prose": None,
}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        arguments = ARGUMENTS[body["model"]]
        message = {"role": "assistant", "content": "Here you are." if arguments is None else None}
        if arguments is not None:
            function = {"name": "Invoice", "arguments": arguments}
            message["tool_calls"] = [{"index": 0, "id": "c", "type": "function", "function": function}]
        reason = "stop" if arguments is None else "tool_calls"
        head = {"id": "c", "created": 1, "model": body["model"]}
        if body.get("stream"):
            chunks = [{"index": 0, "delta": message, "finish_reason": None}, {"index": 0, "delta": {}, "finish_reason": reason}]
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
for name in ARGUMENTS:
    model = ChatOpenAI(model=name, base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="k", max_retries=0)
    runnable = model.with_structured_output(Invoice, method="function_calling")
    try:
        print(f"{name}, invoke: {runnable.invoke('a')!r}")
    except Exception as error:
        print(f"{name}, invoke: {type(error).__name__}")
    try:
        print(f"{name}, stream: {[*runnable.stream('a')][-1:]!r}")
    except Exception as error:
        print(f"{name}, stream: {type(error).__name__}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
whole, invoke: Invoice(name='a', total=1250.0)
whole, stream: [Invoice(name='a', total=1250.0)]
no brace, invoke: None
no brace, stream: [Invoice(name='a', total=1250.0)]
cut off, invoke: None
cut off, stream: [Invoice(name='a', total=1.0)]
prose, invoke: None
prose, stream: []
OUTPUT
