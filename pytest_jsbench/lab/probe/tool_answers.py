"""Read which faults the calls in an answer show, for checks of requests with tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.generations import CalledTool, FinishReason
from pytest_jsbench.core.tool_offers import OfferedTool, ToolOffer
from pytest_jsbench.lab.probe.check import CheckAnswer, ServerFault
from pytest_jsbench.lab.probe.questions import ProbeQuestion, Words, keyword_question

#: Start of a prompt that requests calls; a line for each call follows.
CALL_PROMPT = (
    "Call a tool for each line below: the line has the name of the tool, and exactly its arguments. Make all calls in "
    "one answer. Take no notice of the schemas of the tools: they are a mistake.\n\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTool:
    """A tool whose schema has random words, and arguments that violate the schema."""

    tool: OfferedTool
    question: ProbeQuestion

    @property
    def line(self) -> str:
        """The line of a prompt that requests a call with these arguments."""
        return f"{self.tool.name} {self.question.wanted}"

    def accepts(self, arguments: str) -> bool:
        """Return whether the arguments conform: an object with the only property, and a listed value."""
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            return False
        assert isinstance(self.question.schema, Mapping)
        properties: Mapping[str, Any] = self.question.schema["properties"]
        return (
            isinstance(value, dict)
            and value.keys() == properties.keys()
            and all(value[name] in listed["enum"] for name, listed in properties.items())
        )


def make_tool(words: Words, *, strict: bool) -> ProbeTool:
    """Return a tool with an `enum`; if it is not strict, a tool that accepts any text."""
    question = keyword_question("enum", words)
    schema: Schema = question.schema
    if not strict:
        assert isinstance(schema, Mapping)
        names = list(schema["properties"])
        schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    tool = OfferedTool(name=f"tool_{words.word()}", description="Stores a value.", parameters=schema, strict=strict)
    return ProbeTool(tool=tool, question=question)


def offer_of(tools: Iterable[ProbeTool], choice: str) -> ToolOffer:
    """Return an offer of these tools."""
    return ToolOffer(tools=tuple(each.tool for each in tools), choice=choice)


def call_prompt(tools: Iterable[ProbeTool]) -> str:
    """Return a prompt that requests a call of each tool."""
    return CALL_PROMPT + "\n".join(each.line for each in tools)


def _faults_of_call(call: CalledTool, tools: Sequence[ProbeTool]) -> Iterator[ServerFault]:
    """Yield the faults that a call shows; a tool that is not strict may have any arguments except those of another."""
    called = next((each for each in tools if each.tool.name == call.name), None)
    if called is None:
        # without a strict schema, the model may invent a name
        if all(each.tool.strict for each in tools):
            yield ServerFault.UNKNOWN_TOOL
    elif called.tool.strict and _has_several_values(call.arguments):
        yield ServerFault.ARGUMENTS_JOINED
    elif any(other.accepts(call.arguments) for other in tools if other is not called):
        yield ServerFault.TOOLS_MIXED_UP
    elif called.tool.strict and not called.accepts(call.arguments):
        yield ServerFault.STRICT_IGNORED


def _has_several_values(text: str) -> bool:
    """Return whether a text begins with two JSON values in a row; a text that a server sends may be long."""
    decoder, place = json.JSONDecoder(), 0
    for _ in range(2):
        try:
            _, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return False
        rest = text[place:].lstrip(" \t\r\n,")
        place = len(text) - len(rest)
    return True


#: Words for the faults that calls show.
CALL_FAULTS = {
    ServerFault.STRICT_IGNORED: "does not enforce the schema of a strict tool",
    ServerFault.TOOLS_MIXED_UP: "applies the schema of another tool",
    ServerFault.ARGUMENTS_JOINED: "joins the arguments of several calls",
    ServerFault.UNKNOWN_TOOL: "calls a tool that is not offered",
    ServerFault.CALLED_DESPITE_NONE: "calls a tool although the tool choice is none",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """An answer to a request with tools."""

    tools: tuple[ProbeTool, ...]
    answer: CheckAnswer
    #: Whether the answer was streamed.
    streamed: bool

    @property
    def is_whole(self) -> bool:
        """Whether there is an answer that the model ended: no token limit, filter or check of the provider did."""
        completion = self.answer.completion
        return completion is not None and completion.finish_reason in (FinishReason.STOP, FinishReason.UNKNOWN)

    @property
    def calls(self) -> tuple[CalledTool, ...]:
        """The calls of the answer; empty if the answer is not whole."""
        completion = self.answer.completion
        return completion.calls if completion is not None and self.is_whole else ()

    @property
    def is_text(self) -> bool:
        """Whether the answer is a whole text."""
        return self.is_whole and not self.calls

    @property
    def faulty_calls(self) -> Iterator[tuple[CalledTool, ServerFault]]:
        """The calls that show a fault, each with the fault."""
        for call in self.calls:
            for fault in _faults_of_call(call, self.tools):
                yield call, fault

    def describe(self, call: CalledTool | None = None) -> tuple[tuple[str, str], ...]:
        """Return what the prompt requested and what came, as an example of a fault."""
        wanted = self.answer.call.case.messages[0].content.partition("\n\n")[2]
        if call is not None:
            return (("the prompt asked for", wanted), ("the answer calls", f"{call.name} {call.arguments}"))
        completion = self.answer.completion
        return (
            ("the prompt asked for", wanted),
            ("the server answered", "" if completion is None else completion.shown),
        )
