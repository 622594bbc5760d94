"""
A tiny MCP server, run as a script: it speaks the protocol itself, so that a test can let each part go wrong.

Usage: mcp_tools.py LOG [FAULT]. The server appends a line with its process id to the file LOG when it starts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NEW_PROTOCOL = "2026-07-28"
ARGUMENTS = {
    "type": "object",
    "properties": {"city": {"type": ["string", "null"], "default": None, "enum": ["Paris", None]}},
    "required": ["city"],
}
RESULT = {"type": "object", "properties": {"celsius": {"type": "number"}}}
PAGES: dict[str | None, list[dict[str, Any]]] = {
    None: [
        {"name": "get_weather", "description": "Weather of a city.", "inputSchema": ARGUMENTS, "outputSchema": RESULT}
    ],
    "2": [{"name": "set_light", "inputSchema": {"type": "object"}}],
    "3": [],
}
NEXT = {None: "2", "2": "3"}


class Rejected(Exception):
    """A request that is answered with an error."""


def result_of(method: str, params: dict[str, Any], fault: str) -> dict[str, Any]:
    """Return the result of a request; raise Rejected for a method that the server does not know."""
    match method:
        case "initialize" if fault != "new":
            own = {"name": "home", "version": "1"}
            capabilities: dict[str, Any] = {} if fault == "tools" else {"tools": {}}
            return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": own}
        case "server/discover" if fault == "new":
            return {
                "resultType": "complete", "supportedVersions": [NEW_PROTOCOL], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private",
            }  # fmt: skip
        case "tools/list" if fault != "tools":
            return tools_of(params.get("cursor"), fault)
    raise Rejected(f"no method {method}")


def tools_of(cursor: str | None, fault: str) -> dict[str, Any]:
    """Return a page of the list of tools."""
    more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if fault == "new" else {}
    match fault:
        case "schema":
            return {"tools": [{"name": "get_weather", "inputSchema": ARGUMENTS}, {"name": "bad", "inputSchema": None}]}
        case "endless":
            return {"tools": [], "nextCursor": "1"}
        case "environment":
            return {"tools": [{"name": name, "inputSchema": ARGUMENTS} for name in os.environ]}
        case _:
            page = {"tools": PAGES[cursor], **more}
            return page if cursor not in NEXT else {**page, "nextCursor": NEXT[cursor]}


def reply(message: dict[str, Any], fault: str) -> dict[str, Any] | None:
    """Return the reply to a message; None for a notification."""
    if "id" not in message:
        return None
    head = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        return {**head, "result": result_of(message["method"], message.get("params") or {}, fault)}
    except Rejected as error:
        return {**head, "error": {"code": -32601, "message": str(error)}}


def messages() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main(log: Path, fault: str = "") -> None:
    with log.open("a") as file:
        file.write(f"{os.getpid()}\n")
    print("starting", file=sys.stderr, flush=True)
    if fault == "crash":
        sys.exit("cannot reach the database\n")
    if fault == "banner":
        print("Welcome!", flush=True)
    for message in messages():
        if fault == "silent":
            continue
        answer = reply(message, fault)
        if answer is not None:
            print(json.dumps(answer), flush=True)
    while fault == "stubborn":
        time.sleep(1)  # goes on although its input has ended


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
