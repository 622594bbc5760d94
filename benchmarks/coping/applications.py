"""Small applications that read an invoice, one for each client, with the client's default settings."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

PROMPT = "Invoice of Example, total 1.00"


class Invoice(BaseModel):
    """An invoice; no other field is allowed."""

    model_config = ConfigDict(extra="forbid")

    name: str
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One way to use a client."""

    #: Distribution of the client.
    client: str
    #: What is called, whole and streamed; None if the client has no such way.
    whole: Callable[[str], Any]
    streamed: Callable[[str], Any] | None
    #: The same with a tool, for the faults of tool calls; None if these faults are left out.
    whole_tool: Callable[[str], Any] | None = None
    streamed_tool: Callable[[str], Any] | None = None


def _ask(**more: Any) -> dict[str, Any]:
    return {"model": "gpt-5-mini", "messages": [{"role": "user", "content": PROMPT}], **more}


def _last(stream: Iterable[Any]) -> Any:
    """Return the last value of a stream; None if it has no value."""
    return next(iter(deque(stream, maxlen=1)), None)


def _openai(url: str) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=f"{url}/v1", api_key="any")


def _openai_whole(url: str) -> Any:
    return _openai(url).chat.completions.parse(**_ask(response_format=Invoice)).choices[0].message.parsed


def _openai_streamed(url: str) -> Any:
    with _openai(url).chat.completions.stream(**_ask(response_format=Invoice)) as stream:
        return stream.get_final_completion().choices[0].message.parsed


def _openai_tool(url: str) -> Any:
    from openai import pydantic_function_tool

    tools = {"tools": [pydantic_function_tool(Invoice, name="save")], "tool_choice": "required"}
    answer = _openai(url).chat.completions.parse(**_ask(**tools)).choices[0].message
    return answer.tool_calls[0].function.parsed_arguments


def _openai_streamed_tool(url: str) -> Any:
    from openai import pydantic_function_tool

    tools = {"tools": [pydantic_function_tool(Invoice, name="save")], "tool_choice": "required"}
    with _openai(url).chat.completions.stream(**_ask(**tools)) as stream:
        return stream.get_final_completion().choices[0].message.tool_calls[0].function.parsed_arguments


def _responses_whole(url: str) -> Any:
    return _openai(url).responses.parse(model="gpt-5-mini", input=PROMPT, text_format=Invoice).output_parsed


def _responses_streamed(url: str) -> Any:
    with _openai(url).responses.stream(model="gpt-5-mini", input=PROMPT, text_format=Invoice) as stream:
        return stream.get_final_response().output_parsed


def _anthropic(url: str, *, streamed: bool) -> Any:
    from anthropic import Anthropic

    tool = {"name": "save", "input_schema": Invoice.model_json_schema()}
    how: Any = {"max_tokens": 100, "tools": [tool], "tool_choice": {"type": "tool", "name": "save"}}
    client = Anthropic(base_url=url, api_key="any")
    if streamed:
        with client.messages.stream(**_ask(**how)) as stream:
            message = stream.get_final_message()
    else:
        message = client.messages.create(**_ask(**how))
    return Invoice.model_validate(next(block.input for block in message.content if block.type == "tool_use"))


def _anthropic_whole(url: str) -> Any:
    return _anthropic(url, streamed=False)


def _anthropic_streamed(url: str) -> Any:
    return _anthropic(url, streamed=True)


def _instructor(url: str) -> Any:
    import instructor

    return instructor.from_openai(_openai(url))


def _instructor_whole(url: str) -> Any:
    return _instructor(url).create(**_ask(response_model=Invoice))


def _instructor_streamed(url: str) -> Any:
    return _last(_instructor(url).create_partial(**_ask(response_model=Invoice)))


def _agent(url: str) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="any"))
    return Agent(model, output_type=Invoice)


def _pydantic_ai_whole(url: str) -> Any:
    return _agent(url).run_sync(PROMPT).output


def _pydantic_ai_streamed(url: str) -> Any:
    async def read() -> Any:
        async with _agent(url).run_stream(PROMPT) as result:
            return await result.get_output()

    return asyncio.run(read())


def _langchain(url: str, **how: Any) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-5-mini", base_url=f"{url}/v1", api_key="any").with_structured_output(Invoice, **how)


def _langchain_whole(url: str) -> Any:
    return _langchain(url).invoke(PROMPT)


def _langchain_tool(url: str) -> Any:
    return _langchain(url, method="function_calling").invoke(PROMPT)


def _langchain_streamed(url: str) -> Any:
    return _last(_langchain(url).stream(PROMPT))


def _langchain_streamed_tool(url: str) -> Any:
    return _last(_langchain(url, method="function_calling").stream(PROMPT))


class AISDKError(Exception):
    """An error that a program in JavaScript has reported."""


def read_with_node(url: str, program: Path, way: str) -> Any:
    """Read the invoice with the AI SDK in Node.js; raise AISDKError with the name of its error."""
    done = subprocess.run(
        ["node", program, url, way, PROMPT], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    result = json.loads(done.stdout)
    if "error" in result:
        raise type(result["error"], (AISDKError,), {})
    return result["value"]


PYTHON_APPLICATIONS = (
    Application(
        client="openai",
        whole=_openai_whole,
        streamed=_openai_streamed,
        whole_tool=_openai_tool,
        streamed_tool=_openai_streamed_tool,
    ),
    Application(client="openai (Responses)", whole=_responses_whole, streamed=_responses_streamed),
    Application(
        client="anthropic",
        whole=_anthropic_whole,
        streamed=_anthropic_streamed,
        whole_tool=_anthropic_whole,
        streamed_tool=_anthropic_streamed,
    ),
    Application(
        client="instructor",
        whole=_instructor_whole,
        streamed=_instructor_streamed,
        whole_tool=_instructor_whole,
        streamed_tool=_instructor_streamed,
    ),
    Application(
        client="pydantic-ai",
        whole=_pydantic_ai_whole,
        streamed=_pydantic_ai_streamed,
        whole_tool=_pydantic_ai_whole,
        streamed_tool=_pydantic_ai_streamed,
    ),
    Application(
        client="langchain-openai",
        whole=_langchain_whole,
        streamed=_langchain_streamed,
        whole_tool=_langchain_tool,
        streamed_tool=_langchain_streamed_tool,
    ),
)
