"""
Shared code of all provider engines: settings, the engine, and its factory.

A provider's module defines the address and the authentication; a wire format defines the request body and how answers
are parsed. Everything else is in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import structs

from pytest_jsbench.core.errors import BatchError
from pytest_jsbench.core.extensions import import_object
from pytest_jsbench.core.generations import EngineInfo, ResponseFormat, Sent
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.base import EngineFactory
from pytest_jsbench.engines.engine_options import (
    REASONING_OPTIONS,
    Options,
    RequestedReasoning,
    choose_format,
    choose_streaming,
    find_key,
    package_version,
    require_package,
)
from pytest_jsbench.engines.engine_secrets import public_extras
from pytest_jsbench.engines.http.answers import EventStream, is_json_body, read_object
from pytest_jsbench.engines.http.calls import (
    Deadline,
    EnclosedError,
    convert_parsing_errors,
    is_error,
    read_tools,
    refusal,
    settle,
    to_json,
    tools_of_offer,
)
from pytest_jsbench.engines.http.faults import explain_error
from pytest_jsbench.engines.providers.answer import AnswerBuilder

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Prompt, Schema
    from pytest_jsbench.core.generations import Completion, Declined, FaultKind, GenerationParams, Request
    from pytest_jsbench.core.tool_offers import OfferedTool, ToolOffer
    from pytest_jsbench.engines.base import Address, Batches, EngineConfig
    from pytest_jsbench.engines.engine_options import Key, Sdk
    from pytest_jsbench.engines.http.answers import ArrivingEvents
    from pytest_jsbench.engines.http.client import Client, Outgoing, Response
    from pytest_jsbench.engines.http.sdk_client import SdkClient
    from pytest_jsbench.engines.presets import ProviderPreset
    from pytest_jsbench.engines.providers.finish_reasons import FinishReasons

#: Options of every provider engine.
PROVIDER_OPTIONS = REASONING_OPTIONS | {
    "stream",
    "strict",
    "schema_name",
    "extra_body",
    "extra_headers",
    "extra_query",
}
#: A function that converts the path, body and model of a call to the path and body that the server expects.
Place = Callable[[str, Mapping[str, Any], str], tuple[str, Mapping[str, Any]]]


#: A function that returns the headers which authenticate a request.
Authorise = Callable[["Outgoing"], Mapping[str, str]]


class Cloud(Protocol):
    """A cloud with its own credentials, which are used if no key is set."""

    def authoriser(self) -> Authorise:
        """Return the function that authenticates each call."""

    def fault_of(self, error: Exception) -> FaultKind | None:
        """Return the kind of fault if the error occurred in getting the cloud's credentials; otherwise None."""


_FORMATS = (ResponseFormat.JSON_SCHEMA, ResponseFormat.JSON_OBJECT, ResponseFormat.TOOL, ResponseFormat.TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """A wire format: functions that build the body of a request and parse the answer."""

    #: Function that builds the body of a request, without parameters that are not set.
    to_body: Callable[[ProviderSettings, Request], dict[str, Any]]
    #: Response formats of the API, strongest first.
    formats: tuple[ResponseFormat, ...] = _FORMATS
    #: Function that builds the body's fields for the schema and the response format.
    schema_fields: Callable[[ProviderSettings, Schema], dict[str, Any]]
    #: Function that builds the body's fields for the tools that a case offers, with the choice between them.
    offer_fields: Callable[[ProviderSettings, ToolOffer], dict[str, Any]]
    #: Meanings of the API's finish reasons.
    finish_reasons: FinishReasons
    #: Function that adds one event of a stream to the answer.
    add_event: Callable[[AnswerBuilder, Any], None]
    #: Function that adds an answer that was not streamed.
    add_answer: Callable[[AnswerBuilder, Mapping[str, Any]], None]

    def read(self, response: Response, watch: Stopwatch, *, streaming: bool) -> AnswerBuilder:
        """
        Read an answer; raise EnclosedError for an error response.

        Even if a stream was requested, a body of JSON is read as a whole answer.
        """
        if response.status >= 400:
            raise refusal(response.status, response.headers, response.read())
        if streaming and not is_json_body(response):
            return self.read_stream(EventStream(response), watch)
        return self.read_whole(read_object(response), watch)

    def read_delivered(self, answer: ArrivingEvents | Mapping[str, Any], watch: Stopwatch) -> AnswerBuilder:
        """Read an answer that an SDK returned: either a stream of events, or a whole answer."""
        return self.read_whole(answer, watch) if isinstance(answer, Mapping) else self.read_stream(answer, watch)

    def read_stream(self, stream: ArrivingEvents, watch: Stopwatch) -> AnswerBuilder:
        """Read the events of a stream; raise EnclosedError for an error among them."""
        answer = AnswerBuilder(watch, finish_reasons=self.finish_reasons, stream=stream)
        try:
            for event in stream:
                if is_error(event):
                    raise EnclosedError(event)
                self.add_event(answer, event)
        except EnclosedError as error:
            error.after = answer.progress
            raise
        return answer

    def read_whole(self, body: Mapping[str, Any], watch: Stopwatch) -> AnswerBuilder:
        """Read an answer that was not streamed."""
        answer = AnswerBuilder(watch, finish_reasons=self.finish_reasons)
        self.add_answer(answer, body)
        return answer


class Transport(StrEnum):
    """The client that makes an engine's calls."""

    #: This package's HTTP client.
    HTTP = "http"
    #: The provider's official SDK.
    SDK = "sdk"


def read_transport(options: Options, settings: ProviderSettings, sdk: Sdk) -> ProviderSettings:
    """Add the SDK, and its version in the details, to the settings if the option `transport` selects the SDK."""
    if options.choice("transport", Transport, default=Transport.HTTP) is Transport.HTTP:
        return settings
    version = f"{sdk.package} {package_version(sdk.package)}"
    return replace(settings, sdk=sdk, details={**settings.details, "transport": version})


def bearer(key: Key) -> dict[str, str]:
    """Return the header for a bearer token."""
    return {"authorization": f"Bearer {key.value}"}


_find_optional_key = partial(find_key, variables=(), optional=True)


def _keep_place(path: str, body: Mapping[str, Any], _: str) -> tuple[str, Mapping[str, Any]]:
    return path, body


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """Settings for calling a provider's server, or a compatible server."""

    model: str
    address: Address
    wire: WireFormat
    #: Path of calls, below the server's address.
    path: str
    response_format: ResponseFormat
    streaming: bool
    #: Whether the server should enforce the schema; if False, the schema is only sent.
    strict: bool = True
    #: Whether the server should enforce the schemas of offered tools that do not set this themselves; None if not set.
    strict_tools: bool | None = None
    #: Name of the schema or the tool; the same for all cases, because a model may interpret the name as a hint.
    schema_name: str = "output"
    limit_field: str = "max_tokens"
    #: Parameter for the seed; None if the server accepts no seed.
    seed_field: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: Extra fields for the top level of the body, if the extra body is merged into an inner object.
    outer_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_query: Mapping[str, str] = field(default_factory=dict, repr=False)
    reasoning: RequestedReasoning = field(default_factory=RequestedReasoning)
    #: Provider whose published prices apply; None if unknown.
    provider: str | None = None
    #: Further settings, for reports.
    details: Mapping[str, Any] = field(default_factory=dict)
    #: Function that returns the key, or raises MissingRequirement if a required key is not set.
    find_key: Callable[[EngineConfig], Key] = _find_optional_key
    authorization: Callable[[Key], Mapping[str, str]] = bearer
    #: Headers of every call, without the headers that authenticate the call.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    place: Place = _keep_place
    cloud: Cloud | None = None
    #: The official SDK that makes the calls; None if this package's own client makes them.
    sdk: Sdk | None = None
    #: Whether to use the proxies that the environment configures.
    proxies: bool = True
    #: Whether to request usage in streams; some servers reject this parameter and send usage anyway.
    stream_options: bool = True
    #: Whether to send `parallel_tool_calls: false` with a forced tool.
    single_call: bool = False
    #: Whether the server accepts OpenAI's `developer` role, which nearly all other servers reject.
    takes_developer: bool = False
    #: Whether the server is a llama.cpp server, which can render a prompt in its model's chat template.
    has_template: bool = False

    def to_sent(self, request: Request | None = None, *, batch: str | None = None) -> Sent:
        """
        Return the response format and the tools of a request, for its record; tools in the extra body replace the tool
        for the schema.
        """
        if request is not None and (offer := request.offered) is not None:
            sent_as = self.response_format if self.sends_schema_next_to_tools(request) else ResponseFormat.TOOL
            return Sent(response_format=sent_as, batch=batch, tools=tools_of_offer(offer))
        name = self.schema_name if self.response_format is ResponseFormat.TOOL else None
        tool: dict[str, Any] = {
            "tools": [{"type": "function", "name": name}],
            "tool_choice": {"type": "tool", "name": name},
        }
        if name and self.single_call:
            tool["parallel_tool_calls"] = False
        declared = read_tools({**(tool if name else {}), **self.extra_body, **self.outer_body}, own=name)
        return Sent(response_format=self.response_format, batch=batch, tools=declared)

    def sends_schema_next_to_tools(self, request: Request) -> bool:
        """Return whether a request with offered tools also sends the schema of an answer in text."""
        is_format = self.response_format in (ResponseFormat.JSON_SCHEMA, ResponseFormat.JSON_OBJECT)
        return is_format and request.schema is not True

    def question_fields(self, request: Request) -> dict[str, Any]:
        """Return the body's fields for the schema, or for the offered tools and the schema of an answer in text."""
        offer = request.offered
        if offer is None:
            return self.wire.schema_fields(self, request.schema)
        fields = self.wire.schema_fields(self, request.schema) if self.sends_schema_next_to_tools(request) else {}
        return {**fields, **self.wire.offer_fields(self, offer)}

    def strict_field(self, tool: OfferedTool) -> dict[str, bool]:
        """Return the field `strict` of an offered tool; empty if neither the tool nor the user sets it."""
        strict = self.strict_tools if tool.strict is None else tool.strict
        return {} if strict is None else {"strict": strict}

    def info(self, engine: str) -> EngineInfo:
        """Return the identity of an engine with these settings."""
        return EngineInfo(
            engine=engine,
            model=self.model,
            response_format=self.response_format,
            streaming=self.streaming,
            provider=self.provider,
            details=dict(self.details),
            offers_tools=True,
        )

    def new_client(self, key: Key, authorise: Authorise | None = None) -> Client:
        """Return a client for this server; without a key, `authorise` authenticates its requests."""
        from pytest_jsbench.engines.http.client import Client

        return Client(
            self.address,
            headers={**(self.authorization(key) if key.value else {}), **self.headers},
            query=self.extra_query,
            authorise=authorise,
            proxies=self.proxies,
            secret=key.value,
        )

    def new_sdk_client(self, key: Key) -> SdkClient | None:
        """Return a client that calls this server through the SDK; None if this package's own client is used."""
        if self.sdk is None:
            return None
        from pytest_jsbench.engines.http.sdk_client import SdkClient

        return SdkClient(self.sdk, self.address, key=key.value, query=self.extra_query)

    def resolve_sampling(self, params: GenerationParams) -> GenerationParams:
        """Return the sampling parameters that apply: those that the provider accepts, overridden by the extra body."""
        places = {"max_tokens": self.limit_field, "temperature": "temperature", "seed": self.seed_field or "seed"}
        values = {name: self.extra_body.get(place) for name, place in places.items()}
        numbers: dict[str, Any] = {name: value for name, value in values.items() if _is_number(value)}
        return structs.replace(params if self.seed_field else structs.replace(params, seed=None), **numbers)

    def sampling_fields(self, params: GenerationParams) -> dict[str, Any]:
        """Return the parameters as fields of a body, without those that are not set."""
        fields = {self.limit_field: params.max_tokens, "temperature": params.temperature}
        if self.seed_field is not None:
            fields[self.seed_field] = params.seed
        return {name: value for name, value in fields.items() if value is not None}

    def body(self, request: Request, conversation: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of a call for an API whose parameters are all at the top level."""
        body = {
            "model": self.model,
            **conversation,
            **self.sampling_fields(request.params),
            **self.question_fields(request),
        }
        if self.streaming:
            body["stream"] = True
        if self.single_call and self.response_format is ResponseFormat.TOOL and request.offer is None:
            body["parallel_tool_calls"] = False
        return self.with_extra(body, repeat=request.repeat)

    def with_extra(self, body: Mapping[str, Any], *, repeat: int) -> dict[str, Any]:
        """
        Return the body with the extra body merged in; a seed in the extra body is also increased by the repeat's
        number.
        """
        merged = {**body, **self.extra_body}
        seed = self.seed_field or "seed"
        if _is_number(self.extra_body.get(seed)):
            merged[seed] += repeat
        return self.reasoning.put_into(merged)


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
    reasoning: RequestedReasoning,
    preset: ProviderPreset | None = None,
    formats: tuple[ResponseFormat, ...] | None = None,
) -> ProviderSettings:
    """
    Read the settings that all providers share, from the options, with defaults from the preset; raise EngineError if a
    setting is invalid.
    """
    extra_body = options.mapping("extra_body")
    reasoning.refuse_duplicates(extra_body, config.name)
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
        strict_tools=options.flag("strict", default=strict) if "strict" in config.options else None,
        schema_name=options.identifier("schema_name", default="output"),
        extra_body={**(preset.extra_body if preset else {}), **extra_body},
        extra_headers=options.texts("extra_headers"),
        extra_query={**address.query, **options.texts("extra_query")},
        reasoning=reasoning,
        details=public_extras(config) | reasoning.details,
    )


class ProviderEngine:
    """An engine that calls one server, and keeps one client for its lifetime."""

    def __init__(self, settings: ProviderSettings, info: EngineInfo, *, key: Key) -> None:
        self.info = info
        self._settings = settings
        self._key = key
        self._client = self.new_client(key)
        self._sdk_client = settings.new_sdk_client(key)

    def new_client(self, key: Key) -> Client:
        """Return a client for the server."""
        return self._settings.new_client(key)

    def generate(self, request: Request) -> Completion | Declined:
        """Make one call; an error of the provider becomes a CallError or a Declined."""
        return self.ask(request)

    def ask(
        self,
        request: Request,
        *,
        sent: Sent | None = None,
        deadline: Deadline | None = None,
        settings: ProviderSettings | None = None,
    ) -> Completion | Declined:
        """Make one call, optionally with other settings for the server; the result contains `sent`."""
        deadline = deadline or Deadline(request.params.timeout)
        chosen = settings or self._settings
        exchange = request.origin.exchange
        sent = sent or (chosen.to_sent(request) if exchange is None else exchange.sent)
        model = request.origin.model or chosen.model
        if (declined := self.check_prompt(request.prompt)) is not None:
            return declined
        # If a cloud's credentials are sent, `key` is empty.
        secret = self._key.value or (None if chosen.cloud else "")
        outcome = settle(
            lambda: self._call(chosen, request, model, sent, deadline),
            lambda error: explain_error(error, sent, address=chosen.address.url, model=model, secret=secret),
            deadline=deadline,
        )
        return outcome if exchange is None else structs.replace(outcome, server=exchange.answer)

    def check_prompt(self, prompt: Prompt) -> Declined | None:  # noqa: ARG002  used by engines of llama.cpp
        """Return a Declined if the request must not be sent; else None."""
        return None

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()
        if self._sdk_client is not None:
            self._sdk_client.close()

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
        body = settings.wire.to_body(settings, request)
        watch = Stopwatch()
        if self._sdk_client is not None:
            with self._sdk_client.create(body, headers=settings.extra_headers, deadline=deadline) as answer:
                return settings.wire.read_delivered(answer, watch).to_generation(sent)
        response = post(body, headers_of_call={}, deadline=deadline)
        with closing(response), convert_parsing_errors():
            return settings.wire.read(response, watch, streaming=settings.streaming).to_generation(sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFactory(EngineFactory):
    """The factory for a provider's engine; the function `settings` reads the engine's settings."""

    settings: Callable[[EngineConfig], ProviderSettings]
    options: frozenset[str]
    #: Name of this package's extra that installs the required packages.
    extra: str
    engine: type[ProviderEngine] = ProviderEngine
    #: Required packages other than urllib3, each with the name of its module.
    packages: Mapping[str, str] = field(default_factory=dict)
    passes_on: tuple[str, ...] = ()
    #: Default model at the provider's own address.
    default_model: str | None = None

    def check(self, config: EngineConfig) -> None:
        """Check that the packages and the key exist and that all options are known."""
        self.read(config)

    def read(self, config: EngineConfig) -> tuple[ProviderSettings, Key]:
        """Return the settings and the key; raise MissingRequirement if a package or the key is missing."""
        require_package(config.name, "urllib3", extra=self.extra, minimum=(2, 6))
        for package, module in self.packages.items():
            require_package(config.name, package, extra=self.extra, module=module)
        settings = self.settings(config)
        if settings.sdk is not None:
            require_package(config.name, settings.sdk.package, extra=self.extra, minimum=settings.sdk.minimum)
        return settings, settings.find_key(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Describe the engine that will be built."""
        return self.settings(config).info(config.name)

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """Return the sampling parameters that apply if `params` is requested."""
        return self.settings(config).resolve_sampling(params)

    def build(self, config: EngineConfig) -> ProviderEngine:
        """Build the engine, with its client."""
        settings, key = self.read(config)
        return self.engine(settings, settings.info(config.name), key=key)


#: Module with the clients of batch APIs.
_CLIENTS = "pytest_jsbench.engines.providers.batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderBatchFactory(ProviderFactory):
    """The factory for an engine whose provider has a batch API; it also builds the client for the batch API."""

    #: Class of the batch API's client; its module is imported only when batches are used.
    batches: str

    def build_batches(self, config: EngineConfig) -> Batches:
        """Build the client of the batch API."""
        settings, key = self.read(config)
        if settings.sdk is not None:
            message = f"--jsbench-batch: engine '{config.name}' sends batches without the SDK: remove transport=sdk"
            raise BatchError(message, found="sdk", expected=Transport.HTTP.value, where="transport")
        client: Any = import_object(f"{_CLIENTS}:{self.batches}", purpose="--jsbench-batch", error=BatchError)
        batches: Batches = client(settings, key=key)
        return batches
