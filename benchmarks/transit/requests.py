"""Send a request for each type with a client's usual function for typed answers; no answer is expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

PROMPT = "An example, please."
MESSAGES: list[Any] = [{"role": "user", "content": PROMPT}]
#: Sends a request for an answer of the type to the address.
Send = Callable[[str, type[BaseModel]], object]


def _openai(url: str) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)


def send_with_openai(url: str, shape: type[BaseModel]) -> object:
    return _openai(url).chat.completions.parse(model="gpt-5-mini", messages=MESSAGES, response_format=shape)


def send_with_anthropic(url: str, shape: type[BaseModel]) -> object:
    from anthropic import Anthropic

    client = Anthropic(base_url=url, api_key="any", max_retries=0)
    return client.messages.parse(model="claude-haiku-4-5", max_tokens=100, messages=MESSAGES, output_format=shape)


def send_with_google(url: str, shape: type[BaseModel]) -> object:
    from google import genai

    client = genai.Client(api_key="any", http_options={"base_url": url})
    config: Any = {"response_mime_type": "application/json", "response_schema": shape}
    return client.models.generate_content(model="gemini-3-flash", contents=PROMPT, config=config)


def send_with_instructor(url: str, shape: type[BaseModel]) -> object:
    import instructor

    client = instructor.from_openai(_openai(url))
    return client.create(model="gpt-5-mini", messages=MESSAGES, response_model=shape, max_retries=0)


def send_with_pydantic_ai(url: str, shape: type[BaseModel]) -> object:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(openai_client=_async_openai(url)))
    return Agent(model, output_type=shape, retries=0).run_sync(PROMPT).output


def _async_openai(url: str) -> Any:
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)


def send_with_langchain(url: str, shape: type[BaseModel]) -> object:
    from langchain_openai import ChatOpenAI

    model: Any = ChatOpenAI(model="gpt-5-mini", base_url=f"{url}/v1", api_key="any", max_retries=0)
    return model.with_structured_output(shape).invoke(PROMPT)


def send_with_litellm(url: str, shape: type[BaseModel]) -> object:
    import litellm

    return litellm.completion(
        model="openai/gpt-5-mini",
        messages=MESSAGES,
        response_format=shape,
        base_url=f"{url}/v1",
        api_key="any",
        max_retries=0,
    )


#: How a request is sent, by the name of the client.
SENDERS: dict[str, Send] = {
    "openai": send_with_openai,
    "anthropic": send_with_anthropic,
    "google-genai": send_with_google,
    "instructor": send_with_instructor,
    "pydantic-ai": send_with_pydantic_ai,
    "langchain-openai": send_with_langchain,
    "litellm": send_with_litellm,
}
