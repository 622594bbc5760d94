"""Answer a question with LangChain, in a loop of the application's own."""

from __future__ import annotations

from typing import Any

from city import FUNCTIONS, MODEL, QUESTION
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI


def answer(*, responses: bool, streamed: bool) -> str:
    """Answer through Responses or Chat Completions."""
    model = ChatOpenAI(model=MODEL, use_responses_api=responses).bind_tools(list(FUNCTIONS.values()))
    messages: list[BaseMessage] = [HumanMessage(QUESTION)]
    while True:
        message: Any = _streamed(model, messages) if streamed else model.invoke(messages)
        if not message.tool_calls:
            return str(message.text)
        messages.append(message)
        messages += [_run(call) for call in message.tool_calls]


def _streamed(model: Any, messages: list[BaseMessage]) -> Any:
    first, *others = model.stream(messages)
    return sum(others, first)


def _run(call: Any) -> ToolMessage:
    return ToolMessage(FUNCTIONS[call["name"]](**call["args"]), tool_call_id=call["id"])
