"""A first answer that nobody times: the openai SDK builds its types when it reads one, for up to a second."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, assert_never

from pytest_jsbench.engines.openai.settings import Api
from pytest_jsbench.engines.requirements import NO_KEY

if TYPE_CHECKING:
    import httpx2

_CHAT = (
    {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
)
_MESSAGE = {"type": "message", "content": [{"type": "output_text", "text": "x"}]}
_RESPONSES = (
    {"type": "response.created", "response": {"status": "in_progress"}},
    {"type": "response.output_item.added", "item": _MESSAGE},
    {"type": "response.output_text.delta", "delta": "x"},
    {"type": "response.function_call_arguments.delta", "delta": "x"},
    {"type": "response.completed", "response": {"status": "completed", "output": [_MESSAGE], "usage": {}}},
)


@cache
def rehearse(api: Api) -> None:
    """Let the SDK read a stream of our own, once in a process; nothing is sent anywhere."""
    import httpx2
    import openai

    transport = httpx2.MockTransport(lambda _: _stream(_CHAT if api is Api.CHAT else _RESPONSES))
    with openai.OpenAI(
        api_key=NO_KEY, base_url="http://nothing-is-sent.invalid", http_client=httpx2.Client(transport=transport)
    ) as client:
        stream: Any
        match api:
            case Api.CHAT:
                stream = client.chat.completions.create(model="m", messages=[], stream=True)
            case Api.RESPONSES:
                stream = client.responses.create(model="m", input="", stream=True)
            case never:
                assert_never(never)
        for _ in stream:
            pass


def _stream(events: tuple[dict[str, Any], ...]) -> httpx2.Response:
    import httpx2

    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=text)
