"""The `anthropic` engine: the Messages API, of Anthropic and of every server that speaks the same."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import EngineInfo, ResponseFormat, Sent
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.anthropic import answers
from pytest_jsbench.engines.anthropic.settings import (
    BEARER,
    OPTIONS,
    PATH,
    MessagesSettings,
    is_anthropic,
    new_client,
)
from pytest_jsbench.engines.base import UnsharedFactory
from pytest_jsbench.engines.http.answer_builder import read_answer
from pytest_jsbench.engines.http.calls import Deadline, bound, post, reading, settle
from pytest_jsbench.engines.http.faults import explain_error
from pytest_jsbench.engines.requirements import (
    Key,
    find_key,
    package_version,
    require_package,
)

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import Completion, Declined, GenerationParams, Request
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.batch_api import Batches


class MessagesEngine:
    """Calls one Messages server, with one client for its whole life."""

    def __init__(self, settings: MessagesSettings, info: EngineInfo, *, key: Key) -> None:
        self._settings = settings
        self._info = info
        self._key = key
        self._client = new_client(settings, key, response=[bound], max_retries=0)

    @property
    def info(self) -> EngineInfo:
        """Who it is, for reports."""
        return self._info

    def generate(self, request: Request) -> Completion | Declined:
        """One call; what the SDK raises becomes a CallError or a Declined."""
        import anthropic

        settings = self._settings
        sent = Sent(response_format=settings.response_format)
        deadline = Deadline(request.params.timeout)
        return settle(
            lambda: self._call(request, sent, deadline),
            lambda error: explain_error(
                error, sent, sdk=anthropic, address=settings.base_url, model=settings.model, secret=self._key.value
            ),
            sdk_error=anthropic.AnthropicError,
            deadline=deadline,
        )

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def _call(self, request: Request, sent: Sent, deadline: Deadline) -> Completion | Declined:
        settings = self._settings
        body = settings.to_body(request)
        watch = Stopwatch()
        response = post(self._client, PATH, body, headers=settings.extra_headers, deadline=deadline)
        with closing(response), reading():
            answer = read_answer(answers, response, watch, deadline=deadline, streaming=settings.streaming)
            return answer.to_generation(sent)


class AnthropicFactory(UnsharedFactory):
    """Builds the `anthropic` engine."""

    options = OPTIONS

    def check(self, config: EngineConfig) -> None:
        """See that the package and the key are there, and that every option is known."""
        require_package(config.name, "anthropic", extra="anthropic", minimum=(2,))
        _key(config, MessagesSettings.from_config(config))

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who the engine will be."""
        return _describe(MessagesSettings.from_config(config), engine=config.name)

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """As is asked for, but for what the extra body says; the API has no seed."""
        settings = MessagesSettings.from_config(config)
        return settings.sampled(replace(params, seed=None), limit="max_tokens")

    def build(self, config: EngineConfig) -> MessagesEngine:
        """The engine, with its client."""
        self.check(config)
        settings = MessagesSettings.from_config(config)
        info = _describe(settings, engine=config.name)
        return MessagesEngine(settings, info, key=_key(config, settings))

    def build_batches(self, config: EngineConfig) -> Batches:
        """What hands batches in."""
        from pytest_jsbench.engines.anthropic.batches import AnthropicBatches

        self.check(config)
        settings = MessagesSettings.from_config(config)
        return AnthropicBatches(settings, key=_key(config, settings))


def _key(config: EngineConfig, settings: MessagesSettings) -> Key:
    return find_key(config, ("ANTHROPIC_API_KEY", BEARER), optional=not is_anthropic(settings.base_url))


def _describe(settings: MessagesSettings, *, engine: str) -> EngineInfo:
    details: dict[str, Any] = {"anthropic": package_version("anthropic")}
    if settings.response_format is ResponseFormat.TOOL:
        details["strict"] = settings.strict
    details |= settings.extras
    return EngineInfo(
        engine=engine,
        model=settings.model,
        response_format=settings.response_format,
        streaming=settings.streaming,
        provider="anthropic" if is_anthropic(settings.base_url) else None,
        details=details,
    )


FACTORY = AnthropicFactory()
