"""Anthropic's Messages API for the engine `anthropic`: build requests and parse answers."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import ResponseFormat, Usage
from pytest_jsbench.core.messages import INSTRUCTING
from pytest_jsbench.core.tool_offers import ToolMode
from pytest_jsbench.engines.base import Address
from pytest_jsbench.engines.engine_options import (
    Options,
    RequestedReasoning,
    Sdk,
    find_address,
    find_key,
    find_model,
    headers_of_environment,
)
from pytest_jsbench.engines.http.calls import get, parts
from pytest_jsbench.engines.presets import KEYS
from pytest_jsbench.engines.providers.answer import read_tier
from pytest_jsbench.engines.providers.finish_reasons import MESSAGES_FINISH
from pytest_jsbench.engines.providers.provider import (
    PROVIDER_OPTIONS,
    ProviderBatchFactory,
    WireFormat,
    read_settings,
    read_transport,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.core.messages import Message
    from pytest_jsbench.core.tool_offers import ToolOffer
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.providers.answer import AnswerBuilder
    from pytest_jsbench.engines.providers.provider import ProviderSettings

#: The smallest model for which Anthropic documents structured outputs.
DEFAULT_MODEL = "claude-haiku-4-5"
HOME = "https://api.anthropic.com"
OPTIONS = PROVIDER_OPTIONS | {"transport"}
PATH = "/v1/messages"
#: Version of the API that the SDK anthropic 2.13 requests.
VERSION = "2026-10-21"
#: Path of an application's calls, the same for all clouds.
PASSES_ON = ("/messages",)


def _to_body(settings: ProviderSettings, request: Request) -> dict[str, Any]:
    messages = request.prompt.messages
    system = "\n\n".join(message.content for message in messages if message.role in INSTRUCTING)
    instructions = {"system": system} if system else {}
    return settings.body(request, {"messages": _turns(messages), **_declare_tools(messages), **instructions})


def _schema_fields(settings: ProviderSettings, schema: Schema) -> dict[str, Any]:
    match settings.response_format:
        case ResponseFormat.JSON_SCHEMA:
            return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        case ResponseFormat.TOOL:
            tool = {"name": settings.schema_name, "input_schema": schema, "strict": settings.strict}
            choice = {"type": "tool", "name": settings.schema_name, "disable_parallel_tool_use": True}
            return {"tools": [tool], "tool_choice": choice}
        case ResponseFormat.TEXT | ResponseFormat.JSON_OBJECT:
            return {}


#: Types of the tool choice, by mode; a choice that names a tool has the type `tool`.
_CHOICES = {ToolMode.AUTO: "auto", ToolMode.REQUIRED: "any", ToolMode.NONE: "none"}


def _offer_fields(settings: ProviderSettings, offer: ToolOffer) -> dict[str, Any]:
    tools = [
        {
            "name": tool.name,
            **({"description": tool.description} if tool.description else {}),
            "input_schema": tool.parameters,
            **settings.strict_field(tool),
        }
        for tool in offer.tools
    ]
    choice = {"type": "tool", "name": offer.choice} if offer.mode is None else {"type": _CHOICES[offer.mode]}
    return {"tools": tools, "tool_choice": choice}


def _turns(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the conversation without instructions; consecutive tool results form one user turn."""
    turns: list[dict[str, Any]] = []
    for is_result, group in groupby((m for m in messages if m.role not in INSTRUCTING), lambda m: m.role == "tool"):
        if is_result:
            results = [{"type": "tool_result", "tool_use_id": m.tool_call_id, "content": m.content} for m in group]
            turns.append({"role": "user", "content": results})
        else:
            turns += ({"role": m.role, "content": _blocks(m) if m.tool_calls else m.content} for m in group)
    return turns


def _blocks(message: Message) -> list[dict[str, Any]]:
    """Return the assistant's text, if any, and its tool calls; an empty text is omitted because the API rejects it."""
    text = [{"type": "text", "text": message.content}] if message.content else []
    calls = message.tool_calls
    return [*text, *({"type": "tool_use", "id": call.id, "name": call.name, "input": call.values} for call in calls)]


def _declare_tools(messages: Iterable[Message]) -> dict[str, Any]:
    """
    Declare the tools called in the conversation, and forbid new calls, because the API rejects calls of undeclared
    tools.

    Tools in the user's extra body, or the tool for the schema, replace these declarations.
    """
    names = dict.fromkeys(call.name for message in messages for call in message.tool_calls)
    if not names:
        return {}
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    return {"tools": tools, "tool_choice": {"type": "none"}}


#: Types of blocks that the model writes for the client; `None` is a text without a type.
_OWN_BLOCKS = ("text", "thinking", "redacted_thinking", "tool_use", "None")
#: Types of blocks for the provider's tools, from ContentBlock and BetaContentBlock in anthropic 2.14.
_OTHER_BLOCKS = frozenset(
    (
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "advisor_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "mcp_tool_listing",
        "container_upload",
        "compaction",
        "fallback",
    )
)


def _add_event(answer: AnswerBuilder, event: object) -> None:
    match get(event, "type"):
        case "message_start":
            answer.set_served_by(model=get(event, "message", "model"))
            _add_usage(answer, get(event, "message", "usage"))
        case "content_block_start":
            _begin_block(answer, _number(event), get(event, "content_block"))
        case "content_block_delta":
            _add_delta(answer, _number(event), get(event, "delta"))
        case "content_block_stop" if (_number(event), 0) in answer.calls:
            answer.complete_call((_number(event), 0))
        case "message_delta":
            _add_usage(answer, get(event, "usage"))
            _add_stop_reason(answer, get(event, "delta"))


def _add_answer(answer: AnswerBuilder, body: Mapping[str, Any]) -> None:
    answer.set_served_by(model=body.get("model"))
    for number, block in enumerate(parts(body.get("content"))):
        _begin_block(answer, number, block)
        if (number, 0) in answer.calls:
            answer.complete_call((number, 0))
    _add_stop_reason(answer, body)
    _add_usage(answer, get(body, "usage"))


def _number(event: object) -> int:
    number = get(event, "index")
    return number if isinstance(number, int) else 0


def _begin_block(answer: AnswerBuilder, number: int, block: object) -> None:
    """Add a block at its start, or a whole block; only a `tool_use` block calls a tool of the client."""
    kind = get(block, "type")
    answer.kinds[number] = str(kind)
    match kind:
        case "thinking" | "redacted_thinking":
            answer.begin_reasoning()
            answer.add_reasoning(get(block, "thinking"))
        case "tool_use":
            # If the arguments are an empty object, no pieces follow.
            answer.add_call((number, 0), identifier=get(block, "id"), name=get(block, "name"), default=_input(block))
        case "text":
            answer.add_text(get(block, "text"), (number, 0))
        case None:  # some servers send the text, or the parsed JSON value, without a block
            answer.add_text(block, (number, 0))
        case _:
            answer.set_provider_tool((number, 0))
            if kind not in _OTHER_BLOCKS:
                answer.note_unknown(kind)


def _add_delta(answer: AnswerBuilder, number: int, delta: object) -> None:
    """Add a delta to its block, unless the block belongs to one of the provider's tools."""
    if answer.kinds.get(number, "text") not in _OWN_BLOCKS:
        return
    answer.add_reasoning(get(delta, "thinking"))
    answer.add_text(get(delta, "text"), (number, 0))
    if piece := get(delta, "partial_json"):
        answer.add_call((number, 0), arguments=piece)


def _input(block: object) -> str | None:
    """Return the arguments of a call as text, because the API sends an object."""
    value = get(block, "input")
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _add_stop_reason(answer: AnswerBuilder, part: object) -> None:
    reason = get(part, "stop_reason")
    if reason is not None:
        answer.set_finish_reason(reason, get(part, "stop_details", "explanation"))


_CACHE_READ = "cache_read_input_tokens"
_CACHE_WRITE = "cache_creation_input_tokens"
_CACHE_WRITE_1H = "ephemeral_1h_input_tokens"
_INPUT = ("input_tokens", _CACHE_WRITE, _CACHE_READ)


def _add_usage(answer: AnswerBuilder, usage: object) -> None:
    answer.store_counts(usage, (*_INPUT, "output_tokens"))
    answer.store_counts(get(usage, "output_tokens_details"), ["thinking_tokens"])
    answer.store_counts(get(usage, "cache_creation"), [_CACHE_WRITE_1H])
    counts = answer.counts
    answer.update_usage(
        Usage(
            # The API's `input_tokens` excludes tokens that were read from or written to the cache.
            input_tokens=sum(counts.get(name, 0) for name in _INPUT) if "input_tokens" in counts else None,
            output_tokens=counts.get("output_tokens"),
            cached_tokens=counts.get(_CACHE_READ),
            cache_write_tokens=counts.get(_CACHE_WRITE),
            cache_write_1h_tokens=counts.get(_CACHE_WRITE_1H),
            reasoning_tokens=counts.get("thinking_tokens"),
            service_tier="fast" if get(usage, "speed") == "fast" else read_tier(get(usage, "service_tier")),
        )
    )


MESSAGES = WireFormat(
    to_body=_to_body,
    formats=(ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL, ResponseFormat.TEXT),
    schema_fields=_schema_fields,
    offer_fields=_offer_fields,
    finish_reasons=MESSAGES_FINISH,
    add_event=_add_event,
    add_answer=_add_answer,
)


def messages_settings(config: EngineConfig) -> ProviderSettings:
    """Read the user's settings; raise EngineError if a setting is invalid."""
    address = find_address(config, "ANTHROPIC_BASE_URL") or Address(url=HOME)
    at_home = address.url.rstrip("/") == HOME
    model = find_model(config, url=None if at_home else address.url, default=DEFAULT_MODEL)
    options = Options(config, OPTIONS)
    settings = read_messages_settings(config, options, address, model=model)
    sdk = Sdk(package="anthropic", minimum=(2,), client="Anthropic", resource="messages")
    return replace(
        read_transport(options, settings, sdk),
        provider="anthropic" if at_home else None,
        find_key=partial(find_key, variables=KEYS["anthropic"], optional=not at_home),
    )


def read_messages_settings(config: EngineConfig, options: Options, address: Address, *, model: str) -> ProviderSettings:
    """Read the settings that all servers of the Messages API share."""
    settings = read_settings(
        config, options, address, model=model, wire=MESSAGES, path=PATH, reasoning=_read_thinking(options)
    )
    strict = {"strict": settings.strict} if settings.response_format is ResponseFormat.TOOL else {}
    return replace(
        settings,
        details={**strict, **settings.details},
        headers={"anthropic-version": VERSION, **headers_of_environment("ANTHROPIC_CUSTOM_HEADERS")},
        place=_place,
    )


def _place(_: str, body: Mapping[str, Any], __: str) -> tuple[str, Mapping[str, Any]]:
    """Return the API's path; an application's path is ignored, because it may be relative to another base URL."""
    return PATH, body


def _read_thinking(options: Options) -> RequestedReasoning:
    """
    Map the reasoning options to fields of the Messages API.

    An effort enables adaptive thinking, the only mode of newer models; a budget enables the extended thinking of older
    models. If both options are set, both are sent; the effort `none`, or a budget of 0, disables thinking.
    """
    reasoning = RequestedReasoning.from_options(options)
    fields: dict[tuple[str, ...], str | int] = {}
    if reasoning.budget:
        fields = {("thinking", "type"): "enabled", ("thinking", "budget_tokens"): reasoning.budget}
    elif reasoning.details:
        off = reasoning.budget == 0 or reasoning.effort == "none"
        fields = {("thinking", "type"): "disabled" if off else "adaptive"}
    if reasoning.effort is not None and reasoning.effort != "none":
        fields["output_config", "effort"] = reasoning.effort
    return replace(reasoning, fields=fields)


FACTORY = ProviderBatchFactory(
    settings=messages_settings,
    options=OPTIONS,
    extra="anthropic",
    passes_on=PASSES_ON,
    default_model=DEFAULT_MODEL,
    batches="AnthropicBatches",
)
