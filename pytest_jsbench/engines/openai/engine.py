"""The `openai` engine: Chat Completions and Responses, of OpenAI and of every server that speaks the same."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, Declined, DeclineReason, ResponseFormat
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines.http.answer_builder import as_object
from pytest_jsbench.engines.http.calls import Deadline, parse_json
from pytest_jsbench.engines.http.faults import EnclosedError
from pytest_jsbench.engines.openai import chat, responses
from pytest_jsbench.engines.openai.settings import OPTIONS, OpenAISettings
from pytest_jsbench.engines.provider import ProviderEngine
from pytest_jsbench.engines.provider_batches import ProviderBatchFactory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.core.generations import Completion, Request, Sent
    from pytest_jsbench.core.prompts import Prompt

PASSES_ON = (chat.PATH, responses.PATH)


class OpenAIEngine(ProviderEngine):
    """A ProviderEngine that also knows what a server of llama.cpp answers beside the API."""

    _settings: OpenAISettings

    def ask(
        self,
        request: Request,
        *,
        sent: Sent,
        deadline: Deadline | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ) -> Completion | Declined:
        """`generate`, with fields of this one request that stand for the schema, where there are any."""
        deadline = deadline or Deadline(request.params.timeout)
        settings = self._settings
        if settings.has_template and request.prompt.calls_tools:
            rendered = self._ask_server(self._beside("/apply-template"), {"messages": request.prompt.to_messages()})
            if (declined := without_calls(request.prompt, rendered.get("prompt"))) is not None:
                return declined
        if extra_body is not None:
            body = {**settings.extra_body, **extra_body}
            settings = replace(settings, response_format=ResponseFormat.TEXT, extra_body=body)
        return self.ask_as(settings, request, sent, deadline)

    def input_tokens(self, prompt: Prompt, *, timeout: float) -> int | None:
        """The prompt's tokens, as a server of llama.cpp counts them; None where it does not say."""
        body = {"model": self._settings.model, "messages": prompt.to_messages()}
        tokens = self._ask_server("/chat/completions/input_tokens", body, timeout=timeout).get("input_tokens")
        return tokens if isinstance(tokens, int) else None

    def tokens_of(self, text: str, *, timeout: float) -> list[int] | None:
        """The tokens of a text, as a server of llama.cpp has them; None where it does not say."""
        tokens = self._ask_server(self._beside("/tokenize"), {"content": text}, timeout=timeout).get("tokens")
        return tokens if isinstance(tokens, list) else None

    def _beside(self, path: str) -> str:
        """An address of the server's own, beside those of the API."""
        return self._settings.base_url.rstrip("/").removesuffix("/v1") + path

    def _ask_server(self, url: str, body: dict[str, Any], *, timeout: float = 10.0) -> dict[str, Any]:
        """Ask the server a question beside the API; nothing comes back where it does not know it."""
        try:
            with closing(self._client.post(url, body, deadline=Deadline(timeout))) as response:
                return dict(as_object(parse_json(response.read().decode())))
        except (CallError, EnclosedError, ValueError, RecursionError):
            return {}


def without_calls(prompt: Prompt, rendered: object) -> Declined | None:
    """Why a model cannot be asked: its chat template leaves a call out, as what it made of the prompt shows."""
    if not isinstance(rendered, str):
        return None
    hidden = next(
        (call.name for turn in prompt.messages for call in turn.tool_calls if call.name not in rendered), None
    )
    if hidden is None:
        return None
    message = (
        f"the model's chat template does not show that the assistant called '{printable(hidden, 60)}'; nothing was "
        "sent; expected a model with tools, or messages without tool_calls"
    )
    return Declined(reason=DeclineReason.UNSUPPORTED_MESSAGES, message=message)


FACTORY = ProviderBatchFactory(
    OpenAISettings,
    OPTIONS,
    extra="openai",
    engine=OpenAIEngine,
    passes_on=PASSES_ON,
    batches="pytest_jsbench.engines.openai.batches:OpenAIBatches",
)
