#!/usr/bin/env bash
# google-genai: the spelling of fields in a request, and the life of a client.
#
# Guess: a request has the field names of the REST reference (camelCase), and `Client(...).models` can be kept and used.
# Packages: google-genai==3.6.1
# Versions: google-genai 3.6.1, Python 3.11; 2026-11-29
# Behaviour: one request mixes both spellings: generationConfig.responseSchema next to property_ordering inside it, and
#   functionDeclarations next to parameters_json_schema inside it, so that a gateway that reads the documented names sees
#   a function without parameters. The client closes its connections when it is collected, so that models, kept without
#   the client, raises RuntimeError.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check google-genai==3.6.1
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import http.server
import json
import threading

from google import genai
from pydantic import BaseModel

ANSWER = {"candidates": [{"content": {"role": "model", "parts": [{"text": "{}"}]}, "finishReason": "STOP"}]}


class Place(BaseModel):
    name: str
    zone: int


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        print("request:", sorted(set(names(body))))
        answer = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def names(value):
    """Yield the field names of more than one word, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if "_" in name or name != name.lower():
                yield name
            yield from names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names(inner)


def weather(city: str) -> str:
    "Get the weather."
    return ""


def client():
    return genai.Client(api_key="none", http_options={"base_url": f"http://127.0.0.1:{server.server_port}"})


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
kept = client()
answer_format = {"response_mime_type": "application/json", "response_schema": Place}
kept.models.generate_content(model="m", contents="hi", config=answer_format)
calling = {"tools": [weather], "automatic_function_calling": {"disable": True}}
kept.models.generate_content(model="m", contents="hi", config=calling)
models = client().models
try:
    models.generate_content(model="m", contents="hi")
except RuntimeError as error:
    print("models without its client:", type(error).__name__)
PROGRAM
cat "$work/output"
diff - "$work/output" <<'EXPECTED'
request: ['generationConfig', 'property_ordering', 'responseMimeType', 'responseSchema']
request: ['functionDeclarations', 'generationConfig', 'parameters_json_schema', 'response_json_schema']
models without its client: RuntimeError
EXPECTED
