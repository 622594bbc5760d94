"""The `anthropic` engine: the Messages API, of Anthropic and of every server that speaks the same."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import EngineInfo, ResponseFormat, Sent
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.anthropic import answers
from pytest_jsbench.engines.anthropic.settings import OPTIONS, MessagesSettings
from pytest_jsbench.engines.base import UnsharedFactory
from pytest_jsbench.engines.http.answer_builder import read_answer
from pytest_jsbench.engines.http.calls import Deadline, answered, reading, settle
from pytest_jsbench.engines.http.faults import explain_error
from pytest_jsbench.engines.requirements import require_package

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.core.generations import Completion, Declined, GenerationParams, Request
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.batch_api import Batches
    from pytest_jsbench.engines.http.client import Client
    from pytest_jsbench.engines.requirements import Key


class MessagesEngine:
    """Calls one Messages server, with one client for its whole life."""

    def __init__(self, settings: MessagesSettings, info: EngineInfo, *, key: Key) -> None:
        self._settings = settings
        self._info = info
        self._key = key
        self._client = self.new_client(settings, key)

    @property
    def info(self) -> EngineInfo:
        """Who it is, for reports."""
        return self._info

    def new_client(self, settings: MessagesSettings, key: Key) -> Client:
        """Return the client of the server."""
        return settings.new_client(key)

    def generate(self, request: Request) -> Completion | Declined:
        """Make one call; a provider's refusal becomes a CallError or a Declined."""
        settings = self._settings
        exchange = request.origin.exchange
        sent = settings.sent() if exchange is None else exchange.sent
        deadline = Deadline(request.params.timeout)
        outcome = settle(
            lambda: self._call(request, sent, deadline),
            lambda error: explain_error(
                error,
                sent,
                address=settings.base_url,
                model=request.origin.model or settings.model,
                secret=self._key.value,
            ),
            deadline=deadline,
        )
        return answered(outcome, exchange)

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def _call(self, request: Request, sent: Sent, deadline: Deadline) -> Completion | Declined:
        settings = self._settings
        if (exchange := request.origin.exchange) is not None:
            return exchange.pass_on(self._client.passing_on(settings.to_call, settings.extra_headers), deadline)
        path, body = settings.to_call(settings.to_body(request))
        watch = Stopwatch()
        response = self._client.post(path, body, headers=settings.extra_headers, deadline=deadline)
        with closing(response), reading():
            return read_answer(answers, response, watch, streaming=settings.streaming).to_generation(sent)


class MessagesFactory(UnsharedFactory):
    """Builds an engine that speaks the Messages API, whose servers are called as the settings say."""

    passes_on = ("/messages",)

    def __init__(
        self,
        settings: type[MessagesSettings],
        options: frozenset[str],
        *,
        engine: type[MessagesEngine] = MessagesEngine,
        extra: str = "anthropic",
        packages: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._extra = extra
        #: beside the SDK, with the module of each
        self._packages = packages or {}
        self.options = options

    def check(self, config: EngineConfig) -> None:
        """See that the packages and the key are there, and that every option is known."""
        require_package(config.name, "urllib3", extra=self._extra, minimum=(2, 6))
        for package, module in self._packages.items():
            require_package(config.name, package, extra=self._extra, module=module)
        self._settings.from_config(config).find_key(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who the engine will be."""
        return _describe(self._settings.from_config(config), engine=config.name)

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """As is asked for, but for what the extra body says; the API has no seed."""
        settings = self._settings.from_config(config)
        return settings.sampled(replace(params, seed=None), limit="max_tokens")

    def build(self, config: EngineConfig) -> MessagesEngine:
        """The engine, with its client."""
        self.check(config)
        settings = self._settings.from_config(config)
        info = _describe(settings, engine=config.name)
        return self._engine(settings, info, key=settings.find_key(config))


class AnthropicFactory(MessagesFactory):
    """Builds the `anthropic` engine, and what hands its batches in."""

    def build_batches(self, config: EngineConfig) -> Batches:
        """What hands batches in."""
        from pytest_jsbench.engines.anthropic.batches import AnthropicBatches

        self.check(config)
        settings = self._settings.from_config(config)
        return AnthropicBatches(settings, key=settings.find_key(config))


def _describe(settings: MessagesSettings, *, engine: str) -> EngineInfo:
    details: dict[str, Any] = {}
    if settings.response_format is ResponseFormat.TOOL:
        details["strict"] = settings.strict
    details |= settings.extras
    return EngineInfo(
        engine=engine,
        model=settings.model,
        response_format=settings.response_format,
        streaming=settings.streaming,
        provider=settings.provider,
        details=details,
    )


FACTORY = AnthropicFactory(MessagesSettings, OPTIONS)
