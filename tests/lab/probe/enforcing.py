"""A fake HTTP server that enforces schemas, except for the configured faults."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.engines import openai_wire
from tests.engines.openai_wire import error_body
from tests.engines.provider import DONE, Asked, Reply, json_reply, stream_reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request to Chat Completions, with the properties on which faults depend."""

    #: None if the request has no schema.
    schema: Any
    streaming: bool
    tool: bool
    object_only: bool
    reasoning: bool
    #: Text that the prompt requests.
    wanted: str
    #: Text of the system message.
    shown: str

    @classmethod
    def of(cls, asked: Asked) -> Question:
        body = asked.body
        given = body.get("response_format", {})
        tools = body.get("tools")
        schema = tools[0]["function"]["parameters"] if tools else given.get("json_schema", {}).get("schema")
        return cls(
            schema=schema,
            streaming=bool(body.get("stream")),
            tool=bool(tools),
            object_only=given.get("type") == "json_object",
            reasoning="reasoning_effort" in body,
            wanted=body["messages"][-1]["content"].split("\n\n")[1],
            shown=body["messages"][0]["content"] if body["messages"][0]["role"] == "system" else "",
        )


@dataclass(slots=True)
class Enforcing:
    """Function for `Provider.choose`; answers conform unless a fault applies."""

    #: Returns whether the schema is dropped for a question.
    drops: Callable[[Question], bool] = lambda _: False
    #: Returns a reply to send instead of an answer.
    instead: Callable[[Question], Reply | None] = lambda _: None
    #: Number of requests before the concurrent ones, and number of concurrent ones.
    alone: int = 0
    together: int = 0
    #: Number of concurrent requests whose schema is still enforced.
    capacity: int = 1_000
    mixes_up: bool = False
    _asked: int = 0
    _waiting: list[Question] = field(default_factory=list)
    _all_there: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, asked: Asked) -> Reply:
        question = Question.of(asked)
        with self._all_there:
            self._asked += 1
            loaded = self.together > 0 and self.alone < self._asked <= self.alone + self.together
            place = self._asked - self.alone - 1
            if loaded:
                self._waiting.append(question)
                self._all_there.notify_all()
                assert self._all_there.wait_for(lambda: len(self._waiting) == self.together, timeout=60)
        if (reply := self.instead(question)) is not None:
            return reply
        if loaded and self.mixes_up:
            return said(text_of(self._waiting[place - 1]), question)
        dropped = self.drops(question) or (loaded and place >= self.capacity)
        return said(question.wanted if dropped else text_of(question), question)


def text_of(question: Question) -> str:
    """Return the answer of a server that enforces the schema."""
    if question.object_only:
        return json.dumps({"answer": question.wanted})
    return question.wanted if question.schema is None else json.dumps(conforming(question.schema))


def said(text: str, question: Question) -> Reply:
    """Return the text as a Chat Completions response."""
    if question.tool:
        call = {"index": 0, "id": "1", "type": "function", "function": {"name": "output", "arguments": text}}
        if question.streaming:
            return stream_reply(openai_wire.chunk(tool_calls=[call]), openai_wire.chunk(finish="tool_calls"), DONE)
        return json_reply(openai_wire.whole(None, finish="tool_calls", message={"tool_calls": [call]}))
    if question.streaming:
        return stream_reply(openai_wire.chunk(text), openai_wire.chunk(finish="stop"), DONE)
    return json_reply(openai_wire.whole(text))


def refusal(message: str) -> Reply:
    return json_reply(error_body(message), status=400)


def conforming(schema: Any, root: Any = None) -> Any:
    """Return a value that conforms to a schema of a probe."""
    root = schema if root is None else root
    if "$ref" in schema:
        return conforming(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            return conforming(schema[keyword][-1], root)
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[-1]
    match schema["type"]:
        case "object":
            return {name: conforming(one, root) for name, one in schema["properties"].items()}
        case "array":
            return [conforming(schema["items"], root)] * schema.get("minItems", 1)
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
