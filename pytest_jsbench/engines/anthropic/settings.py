"""The `anthropic` engine: the Messages API, of Anthropic and of every server that speaks the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, assert_never

from pytest_jsbench.core.generations import CallError, ResponseFormat, Sent
from pytest_jsbench.engines.addresses import Address
from pytest_jsbench.engines.credentials import public_extras
from pytest_jsbench.engines.http.faults import classify_error, connection_fault, request_fault
from pytest_jsbench.engines.http.provider_errors import EnclosedError, ProviderError
from pytest_jsbench.engines.options import Options, choose_format
from pytest_jsbench.engines.origins import client_options
from pytest_jsbench.engines.requirements import (
    Key,
    find_address,
    find_model,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import anthropic

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Declined, Request
    from pytest_jsbench.engines.base import EngineConfig

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


def explain(error: Exception, sent: Sent, *, address: str, secret: str) -> Declined | CallError:
    """What an exception of the SDK says of a call."""
    import anthropic
    import httpx2

    if isinstance(error, anthropic.APIStatusError):  # inside a stream its status is 200
        headers = dict(error.response.headers)
        said = ProviderError.parse(error.body, status=error.status_code, headers=headers)
        return classify_error(said, sent=sent, secret=secret)
    if isinstance(error, EnclosedError):
        return classify_error(ProviderError.parse(error.body, status=200), sent=sent, secret=secret)
    if isinstance(error, anthropic.APIConnectionError | httpx2.HTTPError):
        return connection_fault(error, address=address, secret=secret)
    return request_fault(error, secret=secret)
