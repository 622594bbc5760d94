"""
The demo server's side of Chat Completions: read a request of a probe, and write an answer without faults.

There is no model: an answer does what the prompt requests, as far as the schemas that the server enforces allow it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random, SystemRandom
from typing import Any

from pytest_jsbench.core.cases import Schema

#: Name of the demo's model in requests and answers.
MODEL = "demo"
_FORMATS = ("text", "json_object", "json_schema")
_TYPES = ("object", "array", "string", "boolean", "null", "integer", "number", None)
_CHOICES = ("auto", "required", "none")
#: Words of a story, and the number of words in a story.
_STORY = "the sea was calm when an old boat left its harbour and few saw how far it went"
_STORY_LENGTH = 80
#: A line of a prompt that requests a call: the name of the tool, and the arguments.
_LINE = re.compile(r"(\S+) (\{.*\})")


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTool:
    """A tool that a request declares."""

    name: str
    parameters: Any
    #: Whether the server enforces the schema of the arguments.
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A Chat Completions request of a probe, with the properties on which an answer depends."""

    #: Schema of an answer in text, or of the arguments of a tool that must be called; None if the request has none.
    schema: Schema | None
    streaming: bool
    #: Name of the tool that the answer has to call; None if the request names none.
    tool: str | None
    object_only: bool
    reasoning: bool
    #: Text that the prompt requests.
    wanted: str
    #: Text of the system message.
    shown: str
    tools: tuple[DemoTool, ...] = ()
    #: `auto`, `required`, `none`, or the name of a tool.
    choice: str = "none"
    #: Maximum number of tokens, which are words here; None without a limit.
    limit: int | None = None
    #: Text at which the answer ends; empty if the request sets none.
    stop: str = ""
    temperature: float = 1.0
    seed: int | None = None
    #: Number of words in the messages and the tools.
    size: int = 0

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> ChatRequest:
        """Read the request from its body; raise an exception if the body is malformed."""
        given = body.get("response_format", {})
        tools = tuple(map(_read_tool, body.get("tools", ())))
        messages = body["messages"]
        choice = _read_choice(body, tools)
        tool = choice if choice not in _CHOICES else None
        answer_schema = given.get("json_schema", {}).get("schema")
        temperature = body.get("temperature", 1)
        _check(isinstance(temperature, int | float))
        _check(given.get("type", "text") in _FORMATS)
        _check(not isinstance(answer_schema, dict) or answer_schema.get("type") in _TYPES)
        return cls(
            schema=answer_schema if tool is None else next(each.parameters for each in tools if each.name == tool),
            streaming=bool(body.get("stream")),
            tool=tool,
            object_only=given.get("type") == "json_object",
            reasoning="reasoning_effort" in body,
            wanted=[*messages[-1]["content"].split("\n\n"), ""][1],
            shown=messages[0]["content"] if messages[0]["role"] == "system" else "",
            tools=tools,
            choice=choice,
            limit=body.get("max_tokens"),
            stop="".join(body.get("stop", ())),
            temperature=float(temperature),
            seed=body.get("seed"),
            size=len(json.dumps([messages, body.get("tools")]).split()),
        )

    @property
    def conforming_text(self) -> str:
        """Text of the answer if the schema is enforced."""
        if self.object_only:
            return json.dumps({"answer": self.wanted})
        return self.wanted if self.schema is None else json.dumps(make_conforming_value(self.schema))

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """Calls that the prompt requests: the name of the tool, and the arguments."""
        found = (match for line in self.wanted.splitlines() if (match := _LINE.fullmatch(line)))
        return tuple((match[1], match[2]) for match in found)

    def uses(self, keyword: str) -> bool:
        """Return whether the schema contains the keyword."""
        return f'"{keyword}":' in json.dumps(self.schema)


def _check(is_valid: bool) -> None:
    if not is_valid:
        raise ValueError("the request is malformed")


def _read_tool(entry: Mapping[str, Any]) -> DemoTool:
    function = entry["function"]
    return DemoTool(
        name=function["name"], parameters=function.get("parameters", {}), strict=bool(function.get("strict"))
    )


def _read_choice(body: Mapping[str, Any], tools: tuple[DemoTool, ...]) -> str:
    choice = body.get("tool_choice", "auto" if tools else "none")
    if isinstance(choice, str):
        _check(choice in _CHOICES)
        return choice
    name: str = choice["function"]["name"]
    _check(any(tool.name == name for tool in tools))
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoCall:
    """A call in an answer."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """An answer: a text or calls."""

    text: str = ""
    calls: tuple[DemoCall, ...] = ()
    finish: str = "stop"
    #: Number of words in the request.
    input_tokens: int = 0
    #: Indices of the calls in a stream; by default their positions.
    indices: tuple[int, ...] | None = None
    #: Whether the usage is sent.
    has_usage: bool = field(default=True)

    @property
    def usage(self) -> dict[str, int]:
        """Numbers of words in the request and the answer."""
        output = len(" ".join([self.text, *(call.arguments for call in self.calls)]).split())
        total = self.input_tokens + output
        return {"prompt_tokens": self.input_tokens, "completion_tokens": output, "total_tokens": total}


def answer_of_text(text: str, request: ChatRequest) -> ChatAnswer:
    """Return an answer with this text, which is the arguments of a call if the request names a tool."""
    if request.tool is not None:
        return answer_of_calls(((request.tool, text),), request)
    return ChatAnswer(text=text, input_tokens=request.size)


def answer_of_calls(calls: tuple[tuple[str, str], ...], request: ChatRequest) -> ChatAnswer:
    """Return an answer with these calls."""
    made = tuple(
        DemoCall(id=f"call_{number}", name=name, arguments=arguments) for number, (name, arguments) in enumerate(calls)
    )
    return ChatAnswer(calls=made, finish="tool_calls", input_tokens=request.size)


def make_answer(request: ChatRequest, random: Random | None = None) -> ChatAnswer:
    """Return an answer without faults; `random` draws the words of a story without a seed."""
    if request.tool is not None:
        return answer_of_text(request.conforming_text, request)
    if calls := make_calls(request):
        return answer_of_calls(calls, request)
    if request.wanted or request.schema is not None or request.object_only:
        return answer_of_text(request.conforming_text, request)
    return limit_story(answer_of_text(tell_story(request, random or SystemRandom()), request), request)


def make_calls(request: ChatRequest) -> tuple[tuple[str, str], ...]:
    """Return the calls that the prompt requests, with arguments that conform to the schemas of strict tools."""
    if request.choice == "none":
        return ()
    tools = {tool.name: tool for tool in request.tools}
    wanted = [(tools[name], arguments) for name, arguments in request.lines if name in tools]
    if not wanted and request.choice == "required":
        wanted = [(request.tools[0], "{}")]
    return tuple(
        (tool.name, json.dumps(make_conforming_value(tool.parameters)) if tool.strict else arguments)
        for tool, arguments in wanted
    )


def tell_story(request: ChatRequest, random: Random) -> str:
    """Return a text of random words; without a temperature, always the same."""
    drawing = random
    if not request.temperature:
        drawing = Random(0)  # noqa: S311  no secret
    elif request.seed is not None:
        drawing = Random(request.seed)  # noqa: S311  no secret
    return " ".join(drawing.choices(_STORY.split(), k=_STORY_LENGTH))


def limit_story(answer: ChatAnswer, request: ChatRequest) -> ChatAnswer:
    """Return the answer up to the stop sequence and the maximum number of tokens of the request."""
    text = answer.text.partition(request.stop)[0] if request.stop else answer.text
    words = text.split(" ")
    if request.limit is not None and len(words) > request.limit:
        return replace(answer, text=" ".join(words[: request.limit]), finish="length")
    return replace(answer, text=text)


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


def completion(answer: ChatAnswer) -> dict[str, Any]:
    """Return the response body for an answer in one piece."""
    calls = {"tool_calls": [_call(call) for call in answer.calls]} if answer.calls else {}
    message = {"role": "assistant", "content": (answer.text or None) if calls else answer.text, **calls}
    choice = {"index": 0, "message": message, "finish_reason": answer.finish}
    usage = {"usage": answer.usage} if answer.has_usage else {}
    return {"id": "demo", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice], **usage}


def stream_events(answer: ChatAnswer) -> Iterator[str]:
    """Yield the answer as server-sent events."""
    indices = range(len(answer.calls)) if answer.indices is None else answer.indices
    deltas: list[dict[str, Any]] = [{"content": answer.text}] if answer.text or not answer.calls else []
    deltas += [
        {"tool_calls": [{"index": index, **_call(call)}]} for index, call in zip(indices, answer.calls, strict=True)
    ]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": answer.finish})
    for choice in choices:
        yield _event({"choices": [choice]})
    if answer.has_usage:
        yield _event({"choices": [], "usage": answer.usage})
    yield "data: [DONE]\n\n"


def _event(part: Mapping[str, Any]) -> str:
    chunk = {"id": "demo", "object": "chat.completion.chunk", "created": 1, "model": MODEL, **part}
    return f"data: {json.dumps(chunk)}\n\n"


def _call(call: DemoCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
