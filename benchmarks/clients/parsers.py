"""
Read each answer with the Python clients: `python -m benchmarks.clients.parsers CLIENT…` prints JSON.

Run in an environment with the clients; pytest-jsbench is not needed there. No network: transports and models are fakes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.clients.answers import ANSWERS, SCHEMAS, Answer


def pydantic_type(field: str) -> Any:
    from pydantic import create_model

    types: dict[str, Any] = {"total": int, "code": str | int, "text": str}
    assert types.keys() == SCHEMAS.keys()
    fields: dict[str, Any] = {field: (types[field], ...)}
    return create_model("Answer", **fields)


def openai_client(text: str) -> Any:
    """Return an OpenAI client whose every call is answered with the text."""
    import httpx
    import openai

    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    transport = httpx.MockTransport(lambda _request: httpx.Response(200, json=body))
    return openai.OpenAI(
        api_key="none", base_url="http://localhost/v1", http_client=httpx.Client(transport=transport), max_retries=0
    )


def read_with_pydantic(model: Any, text: str) -> Any:
    return model.model_validate_json(text)


def read_with_openai(model: Any, text: str) -> Any:
    messages = [{"role": "user", "content": "?"}]
    completion = openai_client(text).chat.completions.parse(model="m", messages=messages, response_format=model)
    return completion.choices[0].message.parsed


def read_with_instructor(model: Any, text: str) -> Any:
    import instructor

    client = instructor.from_openai(openai_client(text), mode=instructor.Mode.JSON)
    messages = [{"role": "user", "content": "?"}]
    return client.chat.completions.create(model="m", messages=messages, response_model=model, max_retries=0)


def read_with_langchain(model: Any, text: str) -> Any:
    from langchain_core.output_parsers import PydanticOutputParser

    return PydanticOutputParser(pydantic_object=model).parse(text)


def read_with_pydantic_ai(model: Any, text: str) -> Any:
    from pydantic_ai import Agent, PromptedOutput
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    engine = FunctionModel(lambda _messages, _info: ModelResponse(parts=[TextPart(text)]))
    return Agent(engine, output_type=PromptedOutput(model), retries=0).run_sync("?").output


def read_with_json_repair(model: Any, text: str) -> Any:
    import json_repair

    return model.model_validate(json_repair.loads(text))


def client_errors() -> tuple[type[Exception], ...]:
    """Return the errors by which the clients reject an answer; any other error is a bug in this program."""
    errors: list[type[Exception]] = [ValueError]  # pydantic's and langchain-core's errors are ValueErrors
    if "instructor" in sys.modules:
        from instructor.core import InstructorRetryException

        errors.append(InstructorRetryException)
    if "pydantic_ai" in sys.modules:
        from pydantic_ai import UnexpectedModelBehavior

        errors.append(UnexpectedModelBehavior)
    return tuple(errors)


#: Functions that read an answer, by distribution; json-repair repairs the text, and pydantic reads the result.
READERS: dict[str, Callable[[Any, str], Any]] = {
    "pydantic": read_with_pydantic,
    "openai": read_with_openai,
    "instructor": read_with_instructor,
    "langchain-core": read_with_langchain,
    "pydantic-ai-slim": read_with_pydantic_ai,
    "json-repair": read_with_json_repair,
}


def read(client: str, answer: Answer) -> str | None:
    """Return the value of the answer's field as JSON; None if the client rejects the answer."""
    try:
        value = READERS[client](pydantic_type(answer.field), answer.text)
    except Exception as error:
        if isinstance(error, client_errors()):
            return None
        raise
    return json.dumps(getattr(value, answer.field))


def main() -> None:
    print(json.dumps({client: [read(client, answer) for answer in ANSWERS] for client in sys.argv[1:]}))


if __name__ == "__main__":
    main()
