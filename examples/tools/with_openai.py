"""Answer a question with OpenAI's client, which leaves the loop over the calls to the application."""

from __future__ import annotations

import json
from typing import Any

from city import FUNCTIONS, MODEL, QUESTION
from openai import OpenAI, pydantic_function_tool
from pydantic import BaseModel


class City(BaseModel):
    """The parameter of both functions."""

    city: str


_CHAT_TOOLS = [pydantic_function_tool(City, name=name) for name in FUNCTIONS]
_RESPONSES_TOOLS: Any = [{"type": "function", **tool["function"]} for tool in _CHAT_TOOLS]


def _result(name: str, arguments: str) -> str:
    return FUNCTIONS[name](**json.loads(arguments))


def answer_by_chat(*, streamed: bool) -> str:
    """Answer through Chat Completions."""
    client = OpenAI()
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        if streamed:
            with client.chat.completions.stream(model=MODEL, messages=messages, tools=_CHAT_TOOLS) as stream:
                message = stream.get_final_completion().choices[0].message
        else:
            parsed = client.chat.completions.parse(model=MODEL, messages=messages, tools=_CHAT_TOOLS)
            message = parsed.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
        for call in message.tool_calls:
            content = _result(call.function.name, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


def answer_by_responses(*, streamed: bool) -> str:
    """Answer through Responses."""
    client = OpenAI()
    conversation: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        if streamed:
            with client.responses.stream(model=MODEL, input=conversation, tools=_RESPONSES_TOOLS) as stream:
                response: Any = stream.get_final_response()
        else:
            response = client.responses.create(model=MODEL, input=conversation, tools=_RESPONSES_TOOLS)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return str(response.output_text)
        for call in calls:
            output = _result(call.name, call.arguments)
            made = {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}
            conversation.append({"type": "function_call", **made})
            conversation.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
