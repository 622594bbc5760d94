"""The `anthropic` engine: the Messages API, of Anthropic and of every server that speaks the same."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, assert_never

from pytest_jsbench.engines import anthropic_answers
from pytest_jsbench.engines.addresses import Address
from pytest_jsbench.engines.bodies import response_hooks, with_body
from pytest_jsbench.engines.calls import reading, settle
from pytest_jsbench.engines.credentials import public_extras
from pytest_jsbench.engines.deadlines import Deadline
from pytest_jsbench.engines.faults import connection_fault, decide, request_fault
from pytest_jsbench.engines.options import Options, choose_format
from pytest_jsbench.engines.origins import client_options
from pytest_jsbench.engines.provider_errors import EnclosedError, ProviderError
from pytest_jsbench.engines.requirements import (
    Key,
    find_address,
    find_key,
    find_model,
    package_version,
    require_package,
)
from pytest_jsbench.generations import CallError, EngineInfo, ResponseFormat, Sent
from pytest_jsbench.timing import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import anthropic

    from pytest_jsbench.cases import Schema
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.batches import Batches
    from pytest_jsbench.generations import Completion, Declined, GenerationParams, Request

#: the smallest model that Anthropic documents with structured outputs
DEFAULT_MODEL = "claude-haiku-4-5"
HOME = "https://api.anthropic.com"
FORMATS = (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL, ResponseFormat.TEXT)
OPTIONS = frozenset({"stream", "strict", "schema_name", "extra_body", "extra_headers", "extra_query"})

_BEARER = "ANTHROPIC_AUTH_TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesSettings:
    """How one Messages server is spoken to."""

    model: str
    address: Address
    response_format: ResponseFormat
    streaming: bool
    #: of a tool: whether the server is held to its schema, or only shown it
    strict: bool
    #: the tool's name; a constant, because a model may read it as a hint
    schema_name: str
    extra_body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_query: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: what of the three may be known
    extras: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_config(cls, config: EngineConfig) -> MessagesSettings:
        """Read what a user said; EngineError for what cannot be done."""
        options = Options(config, OPTIONS)
        address = find_address(config, "ANTHROPIC_BASE_URL") or Address(url=HOME)
        at_home = is_anthropic(address.url)
        return cls(
            model=find_model(config, url=None if at_home else address.url, default=DEFAULT_MODEL),
            address=address,
            response_format=choose_format(config, FORMATS),
            streaming=options.flag("stream", default=True),
            strict=options.flag("strict", default=True),
            schema_name=options.identifier("schema_name", default="output"),
            extra_body=options.mapping("extra_body"),
            extra_headers=options.texts("extra_headers"),
            extra_query={**address.query, **options.texts("extra_query")},
            extras=public_extras(config),
        )

    @property
    def base_url(self) -> str:
        """The server's address, without what lets somebody in."""
        return self.address.url

    def to_arguments(self, request: Request) -> dict[str, Any]:
        """The arguments of the SDK's `create`; the API has no seed, and few models take a temperature."""
        messages = request.prompt.messages
        system = "\n\n".join(message.content for message in messages if message.role == "system")
        body = dict(self.extra_body)
        if request.params.temperature is not None:
            body.setdefault("temperature", request.params.temperature)
        arguments: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.params.max_tokens,
            "messages": [{"role": m.role, "content": m.content} for m in messages if m.role != "system"],
            "stream": self.streaming,
            **self._format(request.schema),
        }
        optional = {"system": system, "extra_body": body, "extra_headers": dict(self.extra_headers)}
        return arguments | {name: value for name, value in optional.items() if value}

    def _format(self, schema: Schema) -> dict[str, Any]:
        match self.response_format:
            case ResponseFormat.TEXT | ResponseFormat.JSON_OBJECT:
                return {}
            case ResponseFormat.JSON_SCHEMA:
                return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
            case ResponseFormat.TOOL:
                tool = {"name": self.schema_name, "input_schema": schema, "strict": self.strict}
                choice = {"type": "tool", "name": self.schema_name, "disable_parallel_tool_use": True}
                return {"tools": [tool], "tool_choice": choice}
            case never:
                assert_never(never)


def is_anthropic(url: str) -> bool:
    """Whether the address is Anthropic's own."""
    return url.rstrip("/") == HOME


def new_client(
    settings: MessagesSettings, key: Key, *, response: Sequence[Callable[..., Any]] = (), **options: Any
) -> anthropic.Anthropic:
    """The SDK's client of that server alone, with the key as the server takes it, and hooks for its responses."""
    import anthropic

    bearer = key.variable == _BEARER
    http = client_options(settings.address, sdk_error=anthropic.AnthropicError)
    hooks = {**http["event_hooks"], "response": list(response)}
    return anthropic.Anthropic(
        api_key=None if bearer else key.value,
        auth_token=key.value if bearer else None,
        base_url=settings.base_url,
        default_query=dict(settings.extra_query),
        http_client=anthropic.DefaultHttpxClient(auth=http["auth"], event_hooks=hooks),
        **options,
    )


class MessagesEngine:
    """Calls one Messages server, with one client for its whole life."""

    def __init__(self, settings: MessagesSettings, info: EngineInfo, *, key: Key) -> None:
        self._settings = settings
        self._info = info
        self._key = key
        self._client = new_client(settings, key, response=response_hooks(), max_retries=0)

    @property
    def info(self) -> EngineInfo:
        """Who it is, for reports."""
        return self._info

    def generate(self, request: Request) -> Completion | Declined:
        """One call; what the SDK raises becomes a CallError or a Declined."""
        import anthropic

        sent = Sent(response_format=self._settings.response_format)
        deadline = Deadline(request.params.timeout)
        return settle(
            lambda: self._call(request, sent, deadline),
            lambda error: explain(error, sent, address=self._settings.base_url, secret=self._key.value),
            sdk_error=anthropic.AnthropicError,
            deadline=deadline,
        )

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def _call(self, request: Request, sent: Sent, deadline: Deadline) -> Completion | Declined:
        arguments = self._settings.to_arguments(request)
        create: Any = self._client.messages.with_streaming_response.create
        watch = Stopwatch()
        with create(**arguments, timeout=deadline.to_timeout()) as response, reading():
            answer = anthropic_answers.read(response, watch, streaming=self._settings.streaming)
            return answer.to_generation(sent)


def explain(error: Exception, sent: Sent, *, address: str, secret: str) -> Declined | CallError:
    """What an exception of the SDK says of a call."""
    import anthropic
    import httpx2

    if isinstance(error, anthropic.APIStatusError):  # inside a stream its status is 200
        headers = dict(error.response.headers)
        said = ProviderError.parse(error.body, status=error.status_code, headers=headers)
        return decide(said, sent=sent, secret=secret)
    if isinstance(error, EnclosedError):
        return decide(ProviderError.parse(error.body, status=200), sent=sent, secret=secret)
    if isinstance(error, anthropic.APIConnectionError | httpx2.HTTPError):
        return connection_fault(error, address=address, secret=secret)
    return request_fault(error, secret=secret)


class AnthropicFactory:
    """Builds the `anthropic` engine."""

    concurrency = 16
    shared = False
    max_tokens = 2048

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
        return with_body(replace(params, seed=None), settings.extra_body, limit="max_tokens")

    def prepare(self, config: EngineConfig) -> AbstractContextManager[EngineConfig]:
        """Nothing is shared."""
        return nullcontext(config)

    def build(self, config: EngineConfig) -> MessagesEngine:
        """The engine, with its client."""
        self.check(config)
        settings = MessagesSettings.from_config(config)
        info = _describe(settings, engine=config.name)
        return MessagesEngine(settings, info, key=_key(config, settings))

    def build_batches(self, config: EngineConfig) -> Batches:
        """What hands batches in."""
        from pytest_jsbench.engines.anthropic_batches import AnthropicBatches

        self.check(config)
        settings = MessagesSettings.from_config(config)
        return AnthropicBatches(settings, key=_key(config, settings))


def _key(config: EngineConfig, settings: MessagesSettings) -> Key:
    return find_key(config, ("ANTHROPIC_API_KEY", _BEARER), optional=not is_anthropic(settings.base_url))


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
