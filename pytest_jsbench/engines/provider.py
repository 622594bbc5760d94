"""
What the engines of all providers are made of: how a server is called, one engine, and its factory.

A provider's own package says where a call goes, what it holds and how its answer is read; all else is here.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Self

from pytest_jsbench.core.generations import EngineInfo, ResponseFormat, Sent
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.base import UnsharedFactory
from pytest_jsbench.engines.http.answer_builder import read_answer
from pytest_jsbench.engines.http.calls import Deadline, answered, reading, settle
from pytest_jsbench.engines.http.faults import explain_error
from pytest_jsbench.engines.http.tools import read_tools
from pytest_jsbench.engines.options import Options, choose_format, choose_streaming
from pytest_jsbench.engines.reasoning import REASONING_OPTIONS, AskedReasoning
from pytest_jsbench.engines.requirements import require_package
from pytest_jsbench.engines.secrets import public_extras

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.core.generations import Completion, Declined, GenerationParams, Request
    from pytest_jsbench.engines.addresses import Address
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.http.answer_builder import API
    from pytest_jsbench.engines.http.client import Client
    from pytest_jsbench.engines.presets import ProviderPreset
    from pytest_jsbench.engines.requirements import Key

#: the options of every provider's engine
PROVIDER_OPTIONS = REASONING_OPTIONS | {
    *("stream", "strict", "schema_name", "extra_body", "extra_headers", "extra_query")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """How a provider's server, or one that speaks the same, is called."""

    model: str
    address: Address
    response_format: ResponseFormat
    streaming: bool
    #: whether the server is told to hold to the schema, or only shown it
    strict: bool
    #: the schema's, or the tool's, name; a constant, because a model may read it as a hint
    schema_name: str
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_query: Mapping[str, str] = field(default_factory=dict, repr=False)
    reasoning: AskedReasoning = field(default_factory=AskedReasoning)
    #: what of these four may be shown
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        """The server's address, without user, password and query."""
        return self.address.url

    def sent(self, *, batch: str | None = None) -> Sent:
        """How a case's schema is sent, and which tools are: it is one, unless further fields say others."""
        name = self.schema_name if self.response_format is ResponseFormat.TOOL else None
        tool = {"tools": [{"type": "function", "name": name}], "tool_choice": {"type": "tool", "name": name}}
        tools = read_tools({**(tool if name else {}), **self.further_fields}, own=name)
        return Sent(response_format=self.response_format, batch=batch, tools=tools)

    @property
    def further_fields(self) -> Mapping[str, Any]:
        """The fields that a user adds to a body."""
        return self.extra_body

    @property
    def provider(self) -> str | None:
        """The provider whose published prices hold; None where none do."""
        return None

    @property
    def details(self) -> Mapping[str, Any]:
        """What else may be shown of how it is called."""
        return self.extras

    def info(self, engine: str) -> EngineInfo:
        """Who an engine with these settings is."""
        return EngineInfo(
            engine=engine,
            model=self.model,
            response_format=self.response_format,
            streaming=self.streaming,
            provider=self.provider,
            details=dict(self.details),
        )

    @classmethod
    def from_config(cls, config: EngineConfig) -> Self:
        """Read what a user said; EngineError for what cannot be done."""
        raise NotImplementedError

    def find_key(self, config: EngineConfig) -> Key:
        """The key by which the server is called; MissingRequirement where it wants one that is not there."""
        raise NotImplementedError

    def new_client(self, key: Key) -> Client:
        """Return the client of that server alone."""
        raise NotImplementedError

    @property
    def api(self) -> API:
        """The module that reads its answers."""
        raise NotImplementedError

    @property
    def path(self) -> str:
        """Where a call goes, below the server's address."""
        raise NotImplementedError

    def place(self, path: str, body: Mapping[str, Any], model: str) -> tuple[str, Mapping[str, Any]]:  # noqa: ARG002  a cloud has a path for each model
        """Return the path and the body of a call as this server wants them."""
        return path, body

    def to_body(self, request: Request) -> dict[str, Any]:
        """The body of one call."""
        raise NotImplementedError

    def sampled(self, params: GenerationParams) -> GenerationParams:
        """The parameters as the provider heeds them, and as fields of the extra body say."""
        raise NotImplementedError

    def overridden(self, params: GenerationParams, *, limit: str, seed: str = "seed") -> GenerationParams:
        """The parameters as they are where fields of the extra body stand for them, of which two are named."""
        places = {"max_tokens": limit, "temperature": "temperature", "seed": seed}
        values = {name: self.extra_body.get(place) for name, place in places.items()}
        numbers: dict[str, Any] = {name: value for name, value in values.items() if _is_number(value)}
        return replace(params, **numbers)

    def with_extra(self, body: Mapping[str, Any], *, repeat: int, seed: str = "seed") -> dict[str, Any]:
        """The body of a case's n-th call, with the extra body, whose seed is raised by n as any other is."""
        whole = {**body, **self.extra_body}
        if _is_number(self.extra_body.get(seed)):
            whole[seed] += repeat
        return self.reasoning.put_into(whole)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_provider_settings(
    config: EngineConfig,
    options: Options,
    address: Address,
    formats: tuple[ResponseFormat, ...],
    *,
    model: str,
    preset: ProviderPreset | None = None,
    reasoning: AskedReasoning | None = None,
) -> dict[str, Any]:
    """The fields of ProviderSettings as the user, or else the preset, said them; EngineError for what cannot be."""
    reasoning = reasoning or AskedReasoning()
    extra_body = options.mapping("extra_body")
    reasoning.check_beside(extra_body, config.name)
    strict = preset is None or preset.strict
    if not isinstance(strict, bool):
        strict = any(fnmatchcase(model, pattern) for pattern in strict)
    chosen = choose_format(config, options.words("formats", ResponseFormat, default=formats, least=1), preset)
    return {
        "model": model,
        "address": address,
        "response_format": chosen,
        "streaming": choose_streaming(config, options, chosen, preset),
        "strict": options.flag("strict", default=strict),
        "schema_name": options.identifier("schema_name", default="output"),
        "extra_body": {**(preset.extra_body if preset else {}), **extra_body},
        "extra_headers": options.texts("extra_headers"),
        "extra_query": {**address.query, **options.texts("extra_query")},
        "reasoning": reasoning,
        "extras": public_extras(config) | reasoning.details,
    }


class ProviderEngine:
    """Calls one server, with one client for its whole life."""

    def __init__(self, settings: ProviderSettings, info: EngineInfo, *, key: Key) -> None:
        self.info = info
        self._settings = settings
        self._key = key
        self._client = self.new_client(key)

    def new_client(self, key: Key) -> Client:
        """Return the client of the server."""
        return self._settings.new_client(key)

    def generate(self, request: Request) -> Completion | Declined:
        """Make one call; a provider's refusal becomes a CallError or a Declined."""
        exchange = request.origin.exchange
        sent = self._settings.sent() if exchange is None else exchange.sent
        return answered(self.ask(request, sent=sent), exchange)

    def ask(self, request: Request, *, sent: Sent, deadline: Deadline | None = None) -> Completion | Declined:
        """Make one call, in whose result stands that this was sent."""
        return self.ask_as(self._settings, request, sent, deadline or Deadline(request.params.timeout))

    def ask_as(
        self, settings: ProviderSettings, request: Request, sent: Sent, deadline: Deadline
    ) -> Completion | Declined:
        """Make one call as these settings of the same server say."""
        model = request.origin.model or settings.model
        return settle(
            lambda: self._call(settings, request, sent, deadline, model),
            lambda error: explain_error(error, sent, address=settings.base_url, model=model, secret=self._key.value),
            deadline=deadline,
        )

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def _call(
        self, settings: ProviderSettings, request: Request, sent: Sent, deadline: Deadline, model: str
    ) -> Completion | Declined:
        if (exchange := request.origin.exchange) is not None:
            posting = self._client.passing_on(
                lambda body: settings.place(exchange.path, body, model), settings.extra_headers
            )
            return exchange.pass_on(posting, deadline)
        path, body = settings.place(settings.path, settings.to_body(request), settings.model)
        watch = Stopwatch()
        response = self._client.post(path, body, headers=settings.extra_headers, deadline=deadline)
        with closing(response), reading():
            return read_answer(settings.api, response, watch, streaming=settings.streaming).to_generation(sent)


class ProviderFactory(UnsharedFactory):
    """Builds the engine of a provider, whose servers are called as the settings say."""

    def __init__(
        self,
        settings: type[ProviderSettings],
        options: frozenset[str],
        *,
        extra: str,
        engine: type[ProviderEngine] = ProviderEngine,
        packages: Mapping[str, str] | None = None,
        passes_on: tuple[str, ...] = (),
    ) -> None:
        self.settings = settings
        self.options = options
        self.passes_on = passes_on
        self._extra = extra
        self._engine = engine
        #: beside urllib3, with the module of each
        self._packages = packages or {}

    def check(self, config: EngineConfig) -> None:
        """See that the packages and the key are there, and that every option is known."""
        require_package(config.name, "urllib3", extra=self._extra, minimum=(2, 6))
        for package, module in self._packages.items():
            require_package(config.name, package, extra=self._extra, module=module)
        self.settings.from_config(config).find_key(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who the engine will be."""
        return self.settings.from_config(config).info(config.name)

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """As is asked for, but for what the extra body says, and what the API does not know."""
        return self.settings.from_config(config).sampled(params)

    def build(self, config: EngineConfig) -> ProviderEngine:
        """The engine, with its client."""
        self.check(config)
        settings = self.settings.from_config(config)
        return self._engine(settings, settings.info(config.name), key=settings.find_key(config))
