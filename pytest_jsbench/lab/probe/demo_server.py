"""
A loopback server with planted faults, for `jsbench probe --demo`.

The server implements Chat Completions without a model. An answer is usually a value that conforms to the request's
schema, as if the server enforced the schema. If the request has no schema, or a fault prevents enforcement, the answer
is the text that the prompt requests.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pytest_jsbench.core.cases import Schema

#: Name of the demo's model in requests and answers.
MODEL = "demo"
#: Keyword that is ignored in streamed answers.
IGNORED_KEYWORD = "pattern"
#: Maximum number of concurrent requests that are answered correctly.
SOUND_UP_TO = 4
#: Description of the faults, for the command's output.
FAULTS = f"it ignores {IGNORED_KEYWORD} in streamed answers, and mixes up answers above {SOUND_UP_TO} concurrent calls"
#: Delay of each answer, in seconds.
_ALONE = 0.02
#: Additional delay in seconds while other requests are in flight, so that concurrent requests overlap.
_TOGETHER = 0.3
#: Maximum length of a request in bytes.
_LONGEST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A Chat Completions request of a probe, with the properties on which the server's faults depend."""

    #: Schema that the answer has to conform to; None if the request has no schema.
    schema: Schema | None
    streaming: bool
    #: Name of the tool that the answer has to call; None if the answer is a text.
    tool: str | None
    object_only: bool
    reasoning: bool
    #: Text that the prompt requests.
    wanted: str
    #: Text of the system message.
    shown: str

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> ChatRequest:
        """Read the request from its body."""
        given = body.get("response_format", {})
        tools = body.get("tools")
        messages = body["messages"]
        schema = tools[0]["function"]["parameters"] if tools else given.get("json_schema", {}).get("schema")
        return cls(
            schema=schema,
            streaming=bool(body.get("stream")),
            tool=tools[0]["function"]["name"] if tools else None,
            object_only=given.get("type") == "json_object",
            reasoning="reasoning_effort" in body,
            wanted=messages[-1]["content"].split("\n\n")[1],
            shown=messages[0]["content"] if messages[0]["role"] == "system" else "",
        )

    @property
    def conforming_text(self) -> str:
        """Text of the answer if the schema is enforced."""
        if self.object_only:
            return json.dumps({"answer": self.wanted})
        return self.wanted if self.schema is None else json.dumps(make_conforming_value(self.schema))

    def uses(self, keyword: str) -> bool:
        """Return whether the schema contains the keyword."""
        return f'"{keyword}":' in json.dumps(self.schema)


def make_conforming_value(schema: Any, root: Any = None) -> Any:
    """Return a value that conforms to a schema of a probe."""
    root = schema if root is None else root
    if "$ref" in schema:
        return make_conforming_value(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            return make_conforming_value(schema[keyword][-1], root)
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[-1]
    match schema["type"]:
        case "object":
            return {name: make_conforming_value(inner, root) for name, inner in schema.get("properties", {}).items()}
        case "array":
            return [make_conforming_value(schema["items"], root)] * schema.get("minItems", 1)
        case "boolean":
            return True
        case "null":
            return None
        case "integer":
            return schema.get("minimum", schema.get("maximum"))
    if "pattern" in schema:
        return re.sub(r"\[0-9\]\{4\}", "0123", schema["pattern"].strip("^$"))
    if "format" in schema:
        return "2026-11-22"
    return "x" * schema.get("minLength", 1)


@contextmanager
def serve_demo(handler: type[BaseHTTPRequestHandler] | None = None) -> Iterator[str]:
    """Run the server on a free port of 127.0.0.1, and yield the base URL."""
    with _Server(("127.0.0.1", 0), handler or DemoHandler) as server:
        threading.Thread(target=server.serve_forever, args=[0.05], name="jsbench-demo", daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()


class _Server(ThreadingHTTPServer):
    """A server with a thread for each request, which mixes up answers if too many requests are in flight."""

    block_on_close = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: Unanswered requests, in the order of arrival.
        self._in_flight: list[ChatRequest] = []
        self._lock = threading.Lock()

    def answer(self, request: ChatRequest) -> str:
        """Return the text of the answer, after a delay."""
        with self._lock:
            self._in_flight.append(request)
            # the planted fault: above the limit, a request gets the answer to the previous request
            answered = self._in_flight[-2] if len(self._in_flight) > SOUND_UP_TO else request
        time.sleep(_ALONE)
        if len(self._in_flight) > 1:
            time.sleep(_TOGETHER)
        with self._lock:
            self._in_flight.remove(request)
        ignored = answered.streaming and answered.uses(IGNORED_KEYWORD)
        return answered.wanted if ignored else answered.conforming_text


class DemoHandler(BaseHTTPRequestHandler):
    """Answers requests with the planted faults."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        """Answer a Chat Completions request, in one piece or as a stream."""
        try:
            size = int(self.headers.get("content-length", ""))
            body = json.loads(self.rfile.read(min(size, _LONGEST)))
            request = ChatRequest.from_body(body)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            self.close_connection = True
            self.send_error(400, "expected a request of jsbench probe to Chat Completions")
            return
        text = self.server.answer(request)
        if request.streaming:
            self._send("text/event-stream", "".join(stream_events(text, request)))
        else:
            self._send("application/json", json.dumps(completion(text, request)))

    def _send(self, content_type: str, body: str) -> None:
        data = body.encode()
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def completion(text: str, request: ChatRequest) -> dict[str, Any]:
    """Return the response body for an answer in one piece."""
    calls = {} if request.tool is None else {"tool_calls": [_call(request.tool, text)]}
    message = {"role": "assistant", "content": None if calls else text, **calls}
    choice = {"index": 0, "message": message, "finish_reason": _finish(request)}
    return {"id": "demo", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}


def stream_events(text: str, request: ChatRequest) -> Iterator[str]:
    """Yield the answer as server-sent events."""
    delta = {"content": text} if request.tool is None else {"tool_calls": [{"index": 0, **_call(request.tool, text)}]}
    for choice in (
        {"index": 0, "delta": delta, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": _finish(request)},
    ):
        chunk = {"id": "demo", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


def _call(tool: str, arguments: str) -> dict[str, Any]:
    return {"id": "1", "type": "function", "function": {"name": tool, "arguments": arguments}}


def _finish(request: ChatRequest) -> str:
    return "stop" if request.tool is None else "tool_calls"
