"""The `anthropic` engine: the Messages API, of Anthropic and of every server that speaks the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, assert_never

from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.core.messages import INSTRUCTING
from pytest_jsbench.engines.addresses import Address
from pytest_jsbench.engines.anthropic import answers
from pytest_jsbench.engines.options import Options
from pytest_jsbench.engines.provider import (
    PROVIDER_OPTIONS,
    ProviderSettings,
    read_provider_settings,
)
from pytest_jsbench.engines.provider_batches import ProviderBatchFactory
from pytest_jsbench.engines.reasoning import AskedReasoning, asked_reasoning
from pytest_jsbench.engines.requirements import Key, find_address, find_key, find_model, headers_of_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import GenerationParams, Request
    from pytest_jsbench.core.messages import Message
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.http.answer_builder import API
    from pytest_jsbench.engines.http.client import Client, Outgoing

    #: gives the headers that let a request in
    Authorise = Callable[[Outgoing], Mapping[str, str]]

#: the smallest model that Anthropic documents with structured outputs
DEFAULT_MODEL = "claude-haiku-4-5"
HOME = "https://api.anthropic.com"
PATH = "/v1/messages"
#: of the API, as anthropic 2.13 names it
VERSION = "2026-10-21"
#: what an application calls in any of its clouds
PASSES_ON = ("/messages",)
FORMATS = (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL, ResponseFormat.TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesSettings(ProviderSettings):
    """How one Messages server is called."""

    api: ClassVar[API] = answers
    path: ClassVar[str] = PATH

    @classmethod
    def from_config(cls, config: EngineConfig) -> MessagesSettings:
        """Read what a user said; EngineError for what cannot be done."""
        options = Options(config, PROVIDER_OPTIONS)
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
        return find_key(config, ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), optional=not is_anthropic(self.base_url))

    def new_client(self, key: Key, authorise: Authorise | None = None) -> Client:
        """Return the client of that server alone, which `authorise` lets in where no key does."""
        from pytest_jsbench.engines.http.client import Client

        return Client(
            self.address,
            headers={
                "anthropic-version": VERSION,
                **self.authorization(key),
                **headers_of_environment("ANTHROPIC_CUSTOM_HEADERS"),
            },
            query=self.extra_query,
            authorise=authorise,
            secret=key.value,
        )

    def place(self, path: str, body: Mapping[str, Any], model: str) -> tuple[str, Mapping[str, Any]]:  # noqa: ARG002
        """Return the one place of all calls; an application's own names it below another address."""
        return PATH, body

    def authorization(self, key: Key) -> dict[str, str]:
        """Return the header that lets a caller in; what a cloud signs needs none."""
        return {"authorization": f"Bearer {key.value}"} if key.value else {}

    @property
    def details(self) -> Mapping[str, Any]:
        """What else may be shown of how it is called."""
        strict = {"strict": self.strict} if self.response_format is ResponseFormat.TOOL else {}
        return {**strict, **self.extras}

    def sampled(self, params: GenerationParams) -> GenerationParams:
        """As is asked for, but for what the extra body says; the API has no seed."""
        return self.overridden(replace(params, seed=None), limit="max_tokens")

    def to_body(self, request: Request) -> dict[str, Any]:
        """The body of one call; the API has no seed, and few models take a temperature."""
        messages = request.prompt.messages
        system = "\n\n".join(message.content for message in messages if message.role in INSTRUCTING)
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.params.max_tokens,
            "messages": _turns(messages),
            **_called_tools(messages),
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


def _turns(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The conversation without its instructions; what the tools gave back is one turn of the user's."""
    turns: list[dict[str, Any]] = []
    for is_result, group in groupby((m for m in messages if m.role not in INSTRUCTING), lambda m: m.role == "tool"):
        if is_result:
            results = [{"type": "tool_result", "tool_use_id": m.tool_call_id, "content": m.content} for m in group]
            turns.append({"role": "user", "content": results})
        else:
            turns += ({"role": m.role, "content": _blocks(m) if m.tool_calls else m.content} for m in group)
    return turns


def _blocks(message: Message) -> list[dict[str, Any]]:
    """What the assistant said, if anything, and the tools that it called; an empty text is refused."""
    text = [{"type": "text", "text": message.content}] if message.content else []
    calls = message.tool_calls
    return [*text, *({"type": "tool_use", "id": call.id, "name": call.name, "input": call.values} for call in calls)]


def _called_tools(messages: Iterable[Message]) -> dict[str, Any]:
    """
    The tools that were called, which may not be called now: a conversation with calls is refused without any tool.

    Tools of the user's extra body, or the one that the schema is, take their place.
    """
    names = dict.fromkeys(call.name for message in messages for call in message.tool_calls)
    if not names:
        return {}
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    return {"tools": tools, "tool_choice": {"type": "none"}}


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
    """True where the address is Anthropic's own."""
    return url.rstrip("/") == HOME


FACTORY = ProviderBatchFactory(
    MessagesSettings,
    PROVIDER_OPTIONS,
    extra="anthropic",
    passes_on=PASSES_ON,
    batches="pytest_jsbench.engines.anthropic.batches:AnthropicBatches",
)
