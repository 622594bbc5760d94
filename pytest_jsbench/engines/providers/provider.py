"""
The parts of the engines of all providers: the calls to a server, the engine, and its factory.

A provider's own module says where a call goes and what lets it in, and a wire format what it holds and how its answer
is read; all else is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import structs

from pytest_jsbench.core.errors import BatchError
from pytest_jsbench.core.extensions import extension
from pytest_jsbench.core.generations import EngineInfo, ResponseFormat, Sent, Stopwatch
from pytest_jsbench.engines.base import UnsharedFactory
from pytest_jsbench.engines.engine_options import (
    REASONING_OPTIONS,
    AskedReasoning,
    Options,
    choose_format,
    choose_streaming,
    find_key,
    require_package,
)
from pytest_jsbench.engines.engine_secrets import public_extras
from pytest_jsbench.engines.http.answers import EventStream, is_one_piece, read_object
from pytest_jsbench.engines.http.calls import (
    Deadline,
    EnclosedError,
    is_error,
    read_tools,
    reading,
    refusal,
    settle,
    to_json,
)
from pytest_jsbench.engines.http.faults import explain_error
from pytest_jsbench.engines.providers.answer import AnswerBuilder

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Prompt, Schema
    from pytest_jsbench.core.generations import Completion, Declined, FaultKind, GenerationParams, Request
    from pytest_jsbench.engines.base import Address, Batches, EngineConfig
    from pytest_jsbench.engines.engine_options import Key
    from pytest_jsbench.engines.http.client import Client, Outgoing, Response
    from pytest_jsbench.engines.presets import ProviderPreset
    from pytest_jsbench.engines.providers.finish_reasons import FinishReasons

#: the options of every provider's engine
PROVIDER_OPTIONS = REASONING_OPTIONS | {
    *("stream", "strict", "schema_name", "extra_body", "extra_headers", "extra_query")
}
#: gives the path and the body of a call of that path, body and model, as the server wants them
Place = Callable[[str, Mapping[str, Any], str], tuple[str, Mapping[str, Any]]]


#: gives the headers that let a request in
Authorise = Callable[["Outgoing"], Mapping[str, str]]


class Cloud(Protocol):
    """A cloud that lets a caller in by its own credentials, where no key does."""

    def authoriser(self) -> Authorise:
        """Return what lets each call in."""

    def fault_of(self, error: Exception) -> FaultKind | None:
        """Return the kind of an error that says that the cloud's credentials cannot be had; None for any other."""


_FORMATS = (ResponseFormat.JSON_SCHEMA, ResponseFormat.JSON_OBJECT, ResponseFormat.TOOL, ResponseFormat.TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """An API on the wire: functions from a request to a body, and from a body to an answer."""

    #: what nobody asked for is not in it
    to_body: Callable[[ProviderSettings, Request], dict[str, Any]]
    #: the response formats that it has, the strongest first
    formats: tuple[ResponseFormat, ...] = _FORMATS
    #: the fields that ask for a schema in the response format of the settings
    form: Callable[[ProviderSettings, Schema], dict[str, Any]]
    #: what its finish reasons mean
    endings: FinishReasons
    #: takes one event of a stream
    take: Callable[[AnswerBuilder, Any], None]
    #: takes an answer that came in one piece
    take_whole: Callable[[AnswerBuilder, Mapping[str, Any]], None]

    def read(self, response: Response, watch: Stopwatch, *, streaming: bool) -> AnswerBuilder:
        """
        Read a body to its end; EnclosedError for a refusal.

        A server that was asked for a stream may still answer in one piece.
        """
        if response.status >= 400:
            raise refusal(response.status, response.headers, response.read())
        if streaming and not is_one_piece(response):
            return self.read_stream(EventStream(response), watch)
        return self.read_whole(read_object(response), watch)

    def read_stream(self, stream: EventStream, watch: Stopwatch) -> AnswerBuilder:
        """Read the events of a stream; EnclosedError for an error among them."""
        answer = AnswerBuilder(watch, endings=self.endings, stream=stream)
        for event in stream:
            if is_error(event):
                raise EnclosedError(event, after=answer.begun)
            self.take(answer, event)
        return answer

    def read_whole(self, body: Mapping[str, Any], watch: Stopwatch) -> AnswerBuilder:
        """Read an answer that came in one piece."""
        answer = AnswerBuilder(watch, endings=self.endings)
        self.take_whole(answer, body)
        return answer


def bearer(key: Key) -> dict[str, str]:
    """The header that lets a caller in."""
    return {"authorization": f"Bearer {key.value}"}


_find_optional_key = partial(find_key, variables=(), optional=True)


def _unchanged(path: str, body: Mapping[str, Any], _: str) -> tuple[str, Mapping[str, Any]]:
    return path, body


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """Settings by which a provider's server, or one that speaks the same, is called."""

    model: str
    address: Address
    wire: WireFormat
    #: where a call goes, below the server's address
    path: str
    response_format: ResponseFormat
    streaming: bool
    #: whether the server is told to hold to the schema, or only shown it
    strict: bool = True
    #: the schema's, or the tool's, name; a constant, because a model may read it as a hint
    schema_name: str = "output"
    limit_field: str = "max_tokens"
    #: None where the server takes no seed
    seed_field: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: what stands beside the fields of the extra body, where these are in an object of their own
    outer_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_query: Mapping[str, str] = field(default_factory=dict, repr=False)
    reasoning: AskedReasoning = field(default_factory=AskedReasoning)
    #: the provider whose published prices hold; None where none do
    provider: str | None = None
    #: what else may be shown of how it is called
    details: Mapping[str, Any] = field(default_factory=dict)
    #: finds the key; MissingRequirement where the server wants one that is not there
    find_key: Callable[[EngineConfig], Key] = _find_optional_key
    authorization: Callable[[Key], Mapping[str, str]] = bearer
    #: of every call, beside what lets it in
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    place: Place = _unchanged
    cloud: Cloud | None = None
    #: whether the environment's proxies are used
    proxies: bool = True
    #: whether usage is asked for in a stream; some servers refuse the question and say it all the same
    stream_options: bool = True
    #: whether a forced tool goes with `parallel_tool_calls: false`
    single_call: bool = False
    #: whether the server knows OpenAI's own role for instructions; nearly all others refuse it
    takes_developer: bool = False
    #: whether it is a server of llama.cpp, which can say what a prompt becomes in its model's chat template
    has_template: bool = False

    def sent(self, *, batch: str | None = None) -> Sent:
        """The form of a case's schema, and the tools: it is one, unless further fields say others."""
        name = self.schema_name if self.response_format is ResponseFormat.TOOL else None
        tool: dict[str, Any] = {
            "tools": [{"type": "function", "name": name}],
            "tool_choice": {"type": "tool", "name": name},
        }
        if name and self.single_call:
            tool["parallel_tool_calls"] = False
        tools = read_tools({**(tool if name else {}), **self.extra_body, **self.outer_body}, own=name)
        return Sent(response_format=self.response_format, batch=batch, tools=tools)

    def info(self, engine: str) -> EngineInfo:
        """The identity of an engine with these settings."""
        return EngineInfo(
            engine=engine,
            model=self.model,
            response_format=self.response_format,
            streaming=self.streaming,
            provider=self.provider,
            details=dict(self.details),
        )

    def new_client(self, key: Key, authorise: Authorise | None = None) -> Client:
        """Return the client of that server alone, which `authorise` lets in where no key does."""
        from pytest_jsbench.engines.http.client import Client

        return Client(
            self.address,
            headers={**(self.authorization(key) if key.value else {}), **self.headers},
            query=self.extra_query,
            authorise=authorise,
            proxies=self.proxies,
            secret=key.value,
        )

    def sampled(self, params: GenerationParams) -> GenerationParams:
        """The parameters as the provider heeds them, and as fields of the extra body say."""
        places = {"max_tokens": self.limit_field, "temperature": "temperature", "seed": self.seed_field or "seed"}
        values = {name: self.extra_body.get(place) for name, place in places.items()}
        numbers: dict[str, Any] = {name: value for name, value in values.items() if _is_number(value)}
        return replace(params if self.seed_field else replace(params, seed=None), **numbers)

    def sampling(self, params: GenerationParams) -> dict[str, Any]:
        """The parameters as fields of a body; what nobody asked for is not sent."""
        fields = {self.limit_field: params.max_tokens, "temperature": params.temperature}
        if self.seed_field is not None:
            fields[self.seed_field] = params.seed
        return {name: value for name, value in fields.items() if value is not None}

    def body(self, request: Request, conversation: Mapping[str, Any]) -> dict[str, Any]:
        """The body of one call where all fields stand side by side; what nobody asked for is not sent."""
        body = {
            "model": self.model,
            **conversation,
            **self.sampling(request.params),
            **self.wire.form(self, request.schema),
        }
        if self.streaming:
            body["stream"] = True
        if self.single_call and self.response_format is ResponseFormat.TOOL:
            body["parallel_tool_calls"] = False
        return self.with_extra(body, repeat=request.repeat)

    def with_extra(self, body: Mapping[str, Any], *, repeat: int) -> dict[str, Any]:
        """The body of a case's n-th call, with the extra body, whose seed is raised by n as any other is."""
        whole = {**body, **self.extra_body}
        seed = self.seed_field or "seed"
        if _is_number(self.extra_body.get(seed)):
            whole[seed] += repeat
        return self.reasoning.put_into(whole)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_settings(
    config: EngineConfig,
    options: Options,
    address: Address,
    *,
    model: str,
    wire: WireFormat,
    path: str,
    reasoning: AskedReasoning,
    preset: ProviderPreset | None = None,
    formats: tuple[ResponseFormat, ...] | None = None,
) -> ProviderSettings:
    """Read what the user, or else the preset, said of any provider; EngineError for what cannot be."""
    extra_body = options.mapping("extra_body")
    reasoning.check_beside(extra_body, config.name)
    strict = preset is None or preset.strict
    if not isinstance(strict, bool):
        strict = any(fnmatchcase(model, pattern) for pattern in strict)
    offered = options.words("formats", ResponseFormat, default=formats or wire.formats, least=1)
    chosen = choose_format(config, offered, preset)
    return ProviderSettings(
        model=model,
        address=address,
        wire=wire,
        path=path,
        response_format=chosen,
        streaming=choose_streaming(config, options, chosen, preset),
        strict=options.flag("strict", default=strict),
        schema_name=options.identifier("schema_name", default="output"),
        extra_body={**(preset.extra_body if preset else {}), **extra_body},
        extra_headers=options.texts("extra_headers"),
        extra_query={**address.query, **options.texts("extra_query")},
        reasoning=reasoning,
        details=public_extras(config) | reasoning.details,
    )


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
        return self.ask(request)

    def ask(
        self,
        request: Request,
        *,
        sent: Sent | None = None,
        deadline: Deadline | None = None,
        settings: ProviderSettings | None = None,
    ) -> Completion | Declined:
        """Make one call, maybe as other settings of the same server say; in its result stands what was sent."""
        ends, chosen = deadline or Deadline(request.params.timeout), settings or self._settings
        exchange = request.origin.exchange
        sent = sent or (chosen.sent() if exchange is None else exchange.sent)
        model = request.origin.model or chosen.model
        if (declined := self.declined(request.prompt)) is not None:
            return declined
        # a cloud's own credentials are no key, and something was sent all the same
        secret = self._key.value or (None if chosen.cloud else "")
        outcome = settle(
            lambda: self._call(chosen, request, model, sent, ends),
            lambda error: explain_error(error, sent, address=chosen.address.url, model=model, secret=secret),
            deadline=ends,
        )
        return outcome if exchange is None else structs.replace(outcome, server=exchange.answer)

    def declined(self, prompt: Prompt) -> Declined | None:  # noqa: ARG002  a server may know
        """Say why the server is not asked; None where it is."""
        return None

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def _call(
        self, settings: ProviderSettings, request: Request, model: str, sent: Sent, deadline: Deadline
    ) -> Completion | Declined:
        exchange = request.origin.exchange
        path = settings.path if exchange is None else exchange.path

        def post(body: Mapping[str, Any], *, headers_of_call: Mapping[str, str], deadline: Deadline) -> Response:
            placed_at, placed = settings.place(path, body, model)
            headers = {**headers_of_call, **settings.extra_headers}
            return self._client.request("POST", placed_at, to_json(placed), headers=headers, deadline=deadline)

        if exchange is not None:
            return exchange.pass_on(post, deadline)
        body, watch = settings.wire.to_body(settings, request), Stopwatch()
        response = post(body, headers_of_call={}, deadline=deadline)
        with closing(response), reading():
            return settings.wire.read(response, watch, streaming=settings.streaming).to_generation(sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFactory(UnsharedFactory):
    """Builds the engine of a provider, whose servers are called as the settings say that `settings` reads."""

    settings: Callable[[EngineConfig], ProviderSettings]
    options: frozenset[str]
    #: the extra of this package that brings the others
    extra: str
    engine: type[ProviderEngine] = ProviderEngine
    #: beside urllib3, with the module of each
    packages: Mapping[str, str] = field(default_factory=dict)
    passes_on: tuple[str, ...] = ()
    #: the model where none is named, at the provider's own address
    default_model: str | None = None

    def check(self, config: EngineConfig) -> None:
        """See that the packages and the key are there, and that every option is known."""
        self.read(config)

    def read(self, config: EngineConfig) -> tuple[ProviderSettings, Key]:
        """Read the settings, and the key where all that the engine needs is there."""
        require_package(config.name, "urllib3", extra=self.extra, minimum=(2, 6))
        for package, module in self.packages.items():
            require_package(config.name, package, extra=self.extra, module=module)
        settings = self.settings(config)
        return settings, settings.find_key(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Describe the engine that will be built."""
        return self.settings(config).info(config.name)

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """As is asked for, but for what the extra body says, and what the API does not know."""
        return self.settings(config).sampled(params)

    def build(self, config: EngineConfig) -> ProviderEngine:
        """The engine, with its client."""
        settings, key = self.read(config)
        return self.engine(settings, settings.info(config.name), key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderBatchFactory(ProviderFactory):
    """Builds the engine of a provider that has a batch API, and what hands its batches in."""

    #: the name of its batch API, which is imported when batches are handed in
    batches: str

    def build_batches(self, config: EngineConfig) -> Batches:
        """Build what hands batches in."""
        settings, key = self.read(config)
        batches: Batches = extension("batch_api", self.batches, error=BatchError)(settings, key=key)
        return batches
