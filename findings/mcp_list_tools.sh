#!/usr/bin/env bash
# mcp: what a client's list_tools returns when one of a server's tools is odd.
#
# Guess: list_tools returns the tools that the server sent, or at least those that are valid, and says which are missing.
# Packages: mcp==2.3.0
# Versions: mcp 2.3.0, Python 3.11; 2026-11-29
# Behaviour: (1) one tool whose inputSchema has no "type": "object" fails the whole list with a validation error that names no tool,
#   only an index: the other tools cannot be listed. (2) With the protocol of 2026-07-28, a tool whose x-mcp-header is invalid is
#   missing in the result; nothing but a warning in the log says so. With the older protocol, the same server's tool is listed.
#   (3) stdio_client's default for the server's standard error is the sys.stderr of the time of the import: redirecting or
#   capturing sys.stderr later changes nothing.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check mcp==2.3.0
cat >"$work/server.py" <<'SERVER'
import json
import sys

GOOD = {"name": "good", "inputSchema": {"type": "object"}}
TOOLS = {
    "untyped": [GOOD, {"name": "untyped", "inputSchema": {"properties": {"a": {"type": "string"}}}}],
    "header": [GOOD, {"name": "header", "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": ""}}}}],
}
CACHE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **CACHE},
    "tools/list": {"tools": TOOLS[sys.argv[1]]},
}
newer = False
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        newer = newer or message["method"] == "server/discover"
        result = {**RESULTS[message["method"]], **(CACHE if newer else {})}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
SERVER
cd "$work"
"$work/venv/bin/python" - >"$work/output" 2>"$work/log" <<'PROGRAM'
import inspect
import io
import sys

first = sys.stderr

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


async def list_tools(fault, mode):
    async with Client(StdioServerParameters(command=sys.executable, args=["server.py", fault]), mode=mode) as client:
        return [tool.name for tool in (await client.list_tools()).tools]


def first_of(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


for fault, mode in (("untyped", "legacy"), ("header", "legacy"), ("header", "auto")):
    try:
        result = anyio.run(list_tools, fault, mode)
    except Exception as error:
        details = first_of(error).errors()[0]
        result = f"{type(first_of(error)).__name__}: {details['loc']}: {details['msg']}"
    print(f"{fault}, mode {mode}: {result}")
sys.stderr = io.StringIO()
print("errlog is the first sys.stderr:", inspect.signature(stdio_client).parameters["errlog"].default is first)
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
untyped, mode legacy: ValidationError: ('tools', 1, 'inputSchema', 'type'): Field required
header, mode legacy: ['good', 'header']
header, mode auto: ['good']
errlog is the first sys.stderr: True
OUTPUT
