"""The `gemini` engine: Gemini's own API, `generateContent`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import EngineInfo, Sent
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.base import UnsharedFactory
from pytest_jsbench.engines.gemini import answers
from pytest_jsbench.engines.gemini.settings import KEYS, OPTIONS, GeminiSettings, is_gemini
from pytest_jsbench.engines.http.answer_builder import read_answer
from pytest_jsbench.engines.http.calls import Deadline, reading, settle
from pytest_jsbench.engines.http.faults import explain_error
from pytest_jsbench.engines.requirements import Key, find_key, require_package

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import Completion, Declined, GenerationParams, Request
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.batch_api import Batches


class GeminiEngine:
    """Calls one server, with one client for its whole life."""

    def __init__(self, settings: GeminiSettings, info: EngineInfo, *, key: Key) -> None:
        self._settings = settings
        self._info = info
        self._key = key
        self._client = settings.new_client(key)

    @property
    def info(self) -> EngineInfo:
        """Who it is, for reports."""
        return self._info

    def generate(self, request: Request) -> Completion | Declined:
        """One call; what breaks becomes a CallError or a Declined."""
        settings = self._settings
        sent = settings.sent()
        deadline = Deadline(request.params.timeout)
        return settle(
            lambda: self._call(request, sent, deadline),
            lambda error: explain_error(
                error, sent, address=settings.base_url, model=settings.model, secret=self._key.value
            ),
            deadline=deadline,
        )

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def _call(self, request: Request, sent: Sent, deadline: Deadline) -> Completion | Declined:
        settings, body = self._settings, self._settings.to_body(request)
        watch = Stopwatch()
        response = self._client.post(settings.path, body, headers=settings.extra_headers, deadline=deadline)
        with closing(response), reading():
            return read_answer(answers, response, watch, streaming=settings.streaming).to_generation(sent)


class GeminiFactory(UnsharedFactory):
    """Builds the `gemini` engine."""

    options = OPTIONS

    def check(self, config: EngineConfig) -> None:
        """See that the package and the key are there, and that every option is known."""
        require_package(config.name, "urllib3", extra="gemini", minimum=(2, 6))
        _key(config, GeminiSettings.from_config(config))

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who the engine will be."""
        return _describe(GeminiSettings.from_config(config), engine=config.name)

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """As is asked for, but for what the extra body says."""
        return GeminiSettings.from_config(config).sampled(params, limit="maxOutputTokens")

    def build(self, config: EngineConfig) -> GeminiEngine:
        """The engine, with its client."""
        self.check(config)
        settings = GeminiSettings.from_config(config)
        return GeminiEngine(settings, _describe(settings, engine=config.name), key=_key(config, settings))

    def build_batches(self, config: EngineConfig) -> Batches:
        """What hands batches in."""
        from pytest_jsbench.engines.gemini.batches import GeminiBatches

        self.check(config)
        settings = GeminiSettings.from_config(config)
        return GeminiBatches(settings, key=_key(config, settings))


def _key(config: EngineConfig, settings: GeminiSettings) -> Key:
    return find_key(config, KEYS, optional=not is_gemini(settings.base_url))


def _describe(settings: GeminiSettings, *, engine: str) -> EngineInfo:
    details: dict[str, Any] = {"api_version": settings.api_version, **settings.extras}
    at_home = is_gemini(settings.base_url)
    return EngineInfo(
        engine=engine,
        model=settings.model,
        response_format=settings.response_format,
        streaming=settings.streaming,
        provider="google" if at_home else None,
        details=details,
    )


FACTORY = GeminiFactory()
