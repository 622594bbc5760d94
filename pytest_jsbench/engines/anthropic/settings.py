"""The `anthropic` engine: the Messages API, of Anthropic and of every server that speaks the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, assert_never

from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.engines.addresses import Address, client_options
from pytest_jsbench.engines.http.calls import timed
from pytest_jsbench.engines.options import (
    PROVIDER_OPTIONS,
    Options,
    ProviderSettings,
    asked_reasoning,
    read_provider_settings,
)
from pytest_jsbench.engines.reasoning import REASONING_OPTIONS, AskedReasoning
from pytest_jsbench.engines.requirements import Key, find_address, find_key, find_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import anthropic
    import httpx2

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import EngineConfig

    #: of an HTTP client, called with each request before it is sent, or with each response before its body is read
    Hooks = Sequence[Callable[..., Any]]

#: the smallest model that Anthropic documents with structured outputs
DEFAULT_MODEL = "claude-haiku-4-5"
HOME = "https://api.anthropic.com"
PATH = "/v1/messages"
FORMATS = (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL, ResponseFormat.TEXT)
OPTIONS = PROVIDER_OPTIONS | REASONING_OPTIONS

BEARER = "ANTHROPIC_AUTH_TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesSettings(ProviderSettings):
    """How one Messages server is called."""

    @classmethod
    def from_config(cls, config: EngineConfig) -> MessagesSettings:
        """Read what a user said; EngineError for what cannot be done."""
        options = Options(config, OPTIONS)
        address = find_address(config, "ANTHROPIC_BASE_URL") or Address(url=HOME)
        at_home = is_anthropic(address.url)
        model = find_model(config, url=None if at_home else address.url, default=DEFAULT_MODEL)
        return cls(
            **read_provider_settings(config, options, address, FORMATS, model=model, reasoning=read_thinking(options))
        )

    @property
    def provider(self) -> str | None:
        """The provider whose published prices hold; None where none do."""
        return "anthropic" if is_anthropic(self.base_url) else None

    def find_key(self, config: EngineConfig) -> Key:
        """The key by which the server is called; MissingRequirement where it wants one that is not there."""
        return find_key(config, ("ANTHROPIC_API_KEY", BEARER), optional=not is_anthropic(self.base_url))

    def new_client(
        self, key: Key, *, request: Hooks = (), response: Hooks = (), **options: Any
    ) -> anthropic.Anthropic | anthropic.AnthropicBedrock | anthropic.AnthropicVertex:
        """The SDK's client of that server alone, with the key as the server takes it, and hooks for what it carries."""
        import anthropic

        bearer = key.variable == BEARER
        return anthropic.Anthropic(
            api_key=None if bearer else key.value,
            auth_token=key.value if bearer else None,
            base_url=self.base_url,
            default_query=dict(self.extra_query),
            http_client=http_client(self, request=request, response=response),
            **options,
        )

    def to_body(self, request: Request) -> dict[str, Any]:
        """The body of one call; the API has no seed, and few models take a temperature."""
        messages = request.prompt.messages
        system = "\n\n".join(message.content for message in messages if message.role == "system")
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.params.max_tokens,
            "messages": [{"role": m.role, "content": m.content} for m in messages if m.role != "system"],
            **self._format(request.schema),
        }
        if system:
            body["system"] = system
        if request.params.temperature is not None:
            body["temperature"] = request.params.temperature
        if self.streaming:
            body["stream"] = True
        return self.with_extra(body, repeat=request.repeat)

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


def read_thinking(options: Options) -> AskedReasoning:
    """
    What the options say, in the words of the Messages API.

    An effort is of adaptive thinking, which newer models take alone; a budget is of the extended thinking of older
    ones. With both the effort is said beside the budget; `none`, or a budget of 0, turns thinking off.
    """
    asked = asked_reasoning(options)
    fields: dict[tuple[str, ...], str | int] = {}
    if asked.budget:
        fields = {("thinking", "type"): "enabled", ("thinking", "budget_tokens"): asked.budget}
    elif asked.details:
        off = asked.budget == 0 or asked.effort == "none"
        fields = {("thinking", "type"): "disabled" if off else "adaptive"}
    if asked.effort is not None and asked.effort != "none":
        fields["output_config", "effort"] = asked.effort
    return replace(asked, fields=fields)


def is_anthropic(url: str) -> bool:
    """Whether the address is Anthropic's own."""
    return url.rstrip("/") == HOME


def http_client(settings: MessagesSettings, *, request: Hooks = (), response: Hooks = ()) -> httpx2.Client:
    """What carries the SDK's calls to that server, and nowhere else."""
    import anthropic

    options = client_options(settings.address, sdk_error=anthropic.AnthropicError)
    hooks = {"request": [*options["event_hooks"]["request"], *request], "response": list(response)}
    return timed(anthropic.DefaultHttpxClient(**{**options, "event_hooks": hooks}))
