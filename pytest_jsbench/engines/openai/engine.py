"""The `openai` engine: Chat Completions and Responses, of OpenAI and of every server that speaks the same."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, Declined, DeclineReason, EngineInfo, ResponseFormat, Sent
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.base import UnsharedFactory
from pytest_jsbench.engines.http.answer_builder import as_object, read_answer
from pytest_jsbench.engines.http.calls import Deadline, answered, parse_json, reading, settle
from pytest_jsbench.engines.http.faults import EnclosedError, explain_error
from pytest_jsbench.engines.openai import chat, responses
from pytest_jsbench.engines.openai.settings import OPTIONS, Api, OpenAISettings, is_openai
from pytest_jsbench.engines.requirements import require_package

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.core.generations import Completion, GenerationParams, Request
    from pytest_jsbench.core.prompts import Prompt
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.batch_api import Batches
    from pytest_jsbench.engines.openai.settings import OpenAIAPI
    from pytest_jsbench.engines.requirements import Key


class OpenAIEngine:
    """Calls one server, with one client for its whole life."""

    def __init__(self, settings: OpenAISettings, info: EngineInfo, *, key: Key) -> None:
        self._settings = settings
        self._info = info
        self._key = key
        self._client = settings.new_client(key)

    @property
    def info(self) -> EngineInfo:
        """Who it is, for reports."""
        return self._info

    def generate(self, request: Request) -> Completion | Declined:
        """Make one call; a provider's refusal becomes a CallError or a Declined."""
        if (exchange := request.origin.exchange) is not None:
            return answered(self.ask(request, sent=exchange.sent), exchange)
        return self.ask(request, sent=self._settings.sent())

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
        return settle(
            lambda: self._call(settings, request, sent, deadline),
            lambda error: explain_error(
                error,
                sent,
                address=settings.base_url,
                model=request.origin.model or settings.model,
                secret=self._key.value,
            ),
            deadline=deadline,
        )

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

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def _call(
        self, settings: OpenAISettings, request: Request, sent: Sent, deadline: Deadline
    ) -> Completion | Declined:
        if (exchange := request.origin.exchange) is not None:
            path = settings.path_of(exchange.path, request.origin.model or settings.model)
            posting = self._client.passing_on(lambda body: (path, body), settings.extra_headers)
            return exchange.pass_on(posting, deadline)
        api: OpenAIAPI = chat if settings.api is Api.CHAT else responses
        body = api.to_body(settings, request)
        watch = Stopwatch()
        path = settings.path_of(api.PATH, settings.model)
        response = self._client.post(path, body, headers=settings.extra_headers, deadline=deadline)
        with closing(response), reading():
            answer = read_answer(api, response, watch, streaming=settings.streaming)
            return answer.to_generation(sent)


def without_calls(prompt: Prompt, rendered: object) -> Declined | None:
    """Why a model cannot be asked: its chat template leaves a call out, as what it made of the prompt shows."""
    if not isinstance(rendered, str):
        return None
    hidden = next((call.name for one in prompt.messages for call in one.tool_calls if call.name not in rendered), None)
    if hidden is None:
        return None
    message = (
        f"the model's chat template does not show that the assistant called '{printable(hidden, 60)}'; nothing was "
        "sent; expected a model with tools, or messages without tool_calls"
    )
    return Declined(reason=DeclineReason.UNSUPPORTED_MESSAGES, message=message)


class OpenAIFactory(UnsharedFactory):
    """Builds an engine that speaks OpenAI's API, whose servers are called as the settings say."""

    passes_on = (chat.PATH, responses.PATH)

    def __init__(self, settings: type[OpenAISettings], options: frozenset[str]) -> None:
        self._settings = settings
        self.options = options

    def check(self, config: EngineConfig) -> None:
        """See that the package and the key are there, and that every option is known."""
        require_package(config.name, "urllib3", extra="openai", minimum=(2, 6))
        self._settings.from_config(config).find_key(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who the engine will be."""
        return describe(self._settings.from_config(config), engine=config.name)

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """As is asked for, but for what the extra body says, and a seed that the API does not know."""
        settings = self._settings.from_config(config)
        if settings.api is Api.RESPONSES or settings.seed_field is None:
            params = replace(params, seed=None)
        return settings.sampled(params, limit=settings.max_tokens_field, seed=settings.seed_field or "seed")

    def build(self, config: EngineConfig) -> OpenAIEngine:
        """The engine, with its client."""
        self.check(config)
        settings = self._settings.from_config(config)
        return OpenAIEngine(settings, describe(settings, engine=config.name), key=settings.find_key(config))


class OpenAIBatchFactory(OpenAIFactory):
    """Builds the `openai` engine, each preset of it, and what hands its batches in."""

    def build_batches(self, config: EngineConfig) -> Batches:
        """What hands batches in."""
        from pytest_jsbench.engines.openai.batches import OpenAIBatches

        self.check(config)
        settings = self._settings.from_config(config)
        return OpenAIBatches(settings, key=settings.find_key(config))


def describe(settings: OpenAISettings, *, engine: str) -> EngineInfo:
    """Who an engine with these settings is."""
    details: dict[str, Any] = {}
    if settings.response_format in (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL):
        details["strict"] = settings.strict
    if settings.api is not Api.CHAT:
        details["api"] = settings.api.value
    details |= settings.extras
    provider = "openai" if is_openai(settings.base_url) else None
    if (preset := settings.preset) is not None:
        details["preset"] = preset.version
        provider = preset.prices if settings.base_url == preset.base_url else None
    return EngineInfo(
        engine=engine,
        model=settings.model,
        response_format=settings.response_format,
        streaming=settings.streaming,
        provider=provider,
        details=details,
    )


FACTORY = OpenAIBatchFactory(OpenAISettings, OPTIONS)
