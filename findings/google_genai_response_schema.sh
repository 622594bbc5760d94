#!/usr/bin/env bash
# google-genai: the response_schema that generate_content sends for a Pydantic model.
#
# Guess: a model that contains itself is sent with a reference, or refused like the other models that the SDK cannot
#   send; a field keeps the description that the model gives it.
# Packages: google-genai==3.6.1 pydantic==2.14.4
# Versions: google-genai 3.6.1, pydantic 2.14.4, Python 3.11; 2026-11-29
# Behaviour: the list of a model that contains itself is sent as an array of anything, without a warning; the description
#   of a field whose type is a model is replaced by the docstring of that model. The request goes to a local address.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check google-genai==3.6.1 pydantic==2.14.4
"$work/venv/bin/python" -W error - >"$work/output" <<'PROGRAM'
from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from google import genai
from pydantic import BaseModel, Field


class Part(BaseModel):
    name: str
    parts: list[Part]


class Address(BaseModel):
    """Where someone lives."""

    street: str


class Order(BaseModel):
    sender: Address = Field(description="Who sends the parcel.")
    receiver: Address = Field(description="Who gets the parcel.")


class Capture(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        for name, schema in body["generationConfig"]["responseSchema"]["properties"].items():
            print(f"  {name}: {json.dumps(schema, sort_keys=True)}")
        self.send_error(400)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Capture)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = genai.Client(api_key="any", http_options={"base_url": f"http://127.0.0.1:{server.server_address[1]}"})
for model in (Part, Order):
    print(model.__name__)
    try:
        client.models.generate_content(
            model="gemini", contents="x", config={"response_mime_type": "application/json", "response_schema": model}
        )
    except genai.errors.ClientError as error:
        print("  status:", error.code)
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
Part
  name: {"title": "Name", "type": "STRING"}
  parts: {"items": {}, "title": "Parts", "type": "ARRAY"}
  status: 400
Order
  sender: {"description": "Where someone lives.", "properties": {"street": {"title": "Street", "type": "STRING"}}, "required": ["street"], "title": "Address", "type": "OBJECT"}
  receiver: {"description": "Where someone lives.", "properties": {"street": {"title": "Street", "type": "STRING"}}, "required": ["street"], "title": "Address", "type": "OBJECT"}
  status: 400
OUTPUT
