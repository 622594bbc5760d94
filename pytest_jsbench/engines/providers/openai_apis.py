"""OpenAI's two APIs, Chat Completions and Responses: build requests and parse answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, FaultKind, ResponseFormat, Usage
from pytest_jsbench.engines.http.calls import EnclosedError, as_object, count, get, items, parts
from pytest_jsbench.engines.providers.answer import read_tier
from pytest_jsbench.engines.providers.finish_reasons import CHAT_FINISH, RESPONSES_FINISH
from pytest_jsbench.engines.providers.provider import WireFormat
from pytest_jsbench.engines.providers.tool_calls import FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.core.messages import Message
    from pytest_jsbench.core.tool_offers import OfferedTool, ToolOffer
    from pytest_jsbench.engines.providers.answer import AnswerBuilder
    from pytest_jsbench.engines.providers.provider import ProviderSettings
    from pytest_jsbench.engines.providers.tool_calls import Place

CHAT_PATH = "/chat/completions"
RESPONSES_PATH = "/responses"
#: Types of parts with text; None is included because some servers omit the type.
_TEXT_PARTS = ("text", "output_text", None)
#: Known types of parts without text.
_NOT_TEXT_PARTS = ("image_url", "image", "audio", "input_audio", "file", "reference", "document_url")
#: Maximum number of digits of an index.
_MAX_INDEX_DIGITS = 6
#: Types of parts that some servers send directly as the content, without a list.
_SINGLE_PARTS = ("text", "output_text", "thinking", "refusal", "image_url")


def _chat_body(settings: ProviderSettings, request: Request) -> dict[str, Any]:
    usage = {"stream_options": {"include_usage": True}} if settings.streaming and settings.stream_options else {}
    return settings.body(request, {"messages": [turn.to_dict() for turn in _turns(settings, request)], **usage})


def _turns(settings: ProviderSettings, request: Request) -> list[Message]:
    """Return the messages; the role `developer` becomes `system` if the server does not accept `developer`."""
    return [
        replace(turn, role="system") if turn.role == "developer" and not settings.takes_developer else turn
        for turn in request.prompt.messages
    ]


def _named_schema(settings: ProviderSettings, **schema: Any) -> dict[str, Any]:
    """Return the schema with the fields `name` and `strict`."""
    return {"name": settings.schema_name, **schema, "strict": settings.strict}


def _chat_schema_fields(settings: ProviderSettings, schema: Schema) -> dict[str, Any]:
    match settings.response_format:
        case ResponseFormat.JSON_SCHEMA:
            return {"response_format": {"type": "json_schema", "json_schema": _named_schema(settings, schema=schema)}}
        case ResponseFormat.JSON_OBJECT:
            return {"response_format": {"type": "json_object"}}
        case ResponseFormat.TOOL:
            tools = [{"type": "function", "function": _named_schema(settings, parameters=schema)}]
            return {"tools": tools, "tool_choice": {"type": "function", "function": {"name": settings.schema_name}}}
        case ResponseFormat.TEXT:
            return {}


def _chat_offer_fields(settings: ProviderSettings, offer: ToolOffer) -> dict[str, Any]:
    tools = [{"type": "function", "function": _define_tool(settings, tool)} for tool in offer.tools]
    choice = {"type": "function", "function": {"name": offer.choice}} if offer.mode is None else offer.mode.value
    return {"tools": tools, "tool_choice": choice}


def _define_tool(settings: ProviderSettings, tool: OfferedTool) -> dict[str, Any]:
    """Return the definition of an offered tool, without fields that are not set."""
    description = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **description, "parameters": tool.parameters, **settings.strict_field(tool)}


def _add_chunk(answer: AnswerBuilder, event: Any) -> None:
    chunk = as_object(event)
    # The usage comes with the last choice, or after the last choice in a chunk without choices.
    if usage := chunk.get("usage"):
        _add_chat_usage(answer, usage)
    if tier := read_tier(chunk.get("service_tier")):
        answer.update_usage(Usage(service_tier=tier))
    _add_server_times(answer, chunk)
    _set_served_by(answer, chunk)
    for each in items(chunk, "choices"):
        choice = as_object(each)
        if not choice.get("index"):
            _add_choice(answer, choice, choice.get("delta"))


def _add_chat_answer(answer: AnswerBuilder, body: Mapping[str, Any]) -> None:
    choices = items(body, "choices")
    if not choices:
        raise CallError(FaultKind.BAD_RESPONSE, "the server answered without any choices")
    _add_chat_usage(answer, body.get("usage"))
    answer.update_usage(Usage(service_tier=read_tier(body.get("service_tier"))))
    _add_server_times(answer, body)
    _set_served_by(answer, body)
    choice = as_object(choices[0])
    message = choice.get("message")
    _add_choice(answer, choice, message, is_whole=True)
    if message is None:
        raise CallError(FaultKind.BAD_RESPONSE, "the server answered with a choice without a message")
    answer.end_without_reason()


def _add_choice(answer: AnswerBuilder, choice: Mapping[str, Any], message: object, *, is_whole: bool = False) -> None:
    """Add a choice to the answer: a whole message, or one delta."""
    if error := choice.get("error"):
        raise EnclosedError(error)
    part = as_object(message)
    content = part.get("content")
    if isinstance(content, str):  # the usual case; checked first, because a stream may have thousands of deltas
        answer.add_text(content)
    elif get(content, "type") in _SINGLE_PARTS or (isinstance(content, list) and all(map(_is_part, content))):
        for piece in parts(content):
            _add_part(answer, piece)
    else:  # there is no content, or the content is the parsed answer itself
        answer.add_text(content)
    # vLLM, Groq and OpenRouter send `reasoning`; a server that sends both fields repeats the text.
    if reasoning := part.get("reasoning_content") or part.get("reasoning"):
        answer.add_reasoning(reasoning)
    if calls := part.get("tool_calls"):
        _add_tool_calls(answer, calls, is_whole=is_whole)
    if call := part.get("function_call"):  # the older form of calls, without `tools`
        answer.add_call(FIRST, name=get(call, "name"), arguments=get(call, "arguments"))
    if refusal := part.get("refusal"):
        answer.add_refusal(refusal)
    if reason := choice.get("finish_reason"):
        # SGLang's own API sends an object as the finish reason, and some versions of SGLang forward this object.
        answer.set_finish_reason(get(reason, "type") or reason, get(reason, "message"))


def _add_tool_calls(answer: AnswerBuilder, calls: object, *, is_whole: bool) -> None:
    for number, call in enumerate(parts(calls)):
        function = get(call, "function")
        if function is None:  # a custom tool's call has no function and no schema
            continue
        identifier, name, arguments = get(call, "id"), get(function, "name"), get(function, "arguments")
        place = (number, 0)
        if not is_whole:
            index = _index(get(call, "index"))
            place = answer.by_index.place(index, number, identifier=identifier, name=name, arguments=arguments)
        answer.add_call(place, identifier=identifier, name=name, arguments=arguments)


def _index(value: object) -> int | None:
    """Return the index of a piece, which some servers send as text; None if the index is missing or invalid."""
    if isinstance(value, str) and value.isdecimal() and len(value) < _MAX_INDEX_DIGITS:
        return int(value)
    return value if isinstance(value, int) else None


def _is_part(piece: object) -> bool:
    """Return whether a list element is a part of a message's content; if not, the list is the parsed answer."""
    return isinstance(piece, str) or "text" in as_object(piece) or isinstance(get(piece, "type"), str)


def _add_part(answer: AnswerBuilder, piece: object) -> None:
    """Add content: a text, or one part of a list; reasoning and images are not part of the answer."""
    if not isinstance(piece, dict):
        answer.add_text(piece)
    elif piece.get("type") in _TEXT_PARTS:
        answer.add_text(piece.get("text"))
    elif piece.get("type") == "thinking":
        for part in items(piece, "thinking"):
            answer.add_reasoning(get(part, "text"))
    elif piece.get("type") == "refusal":
        answer.add_refusal(piece.get("refusal"))
    elif piece.get("type") not in _NOT_TEXT_PARTS:
        answer.note_unknown(piece.get("type"))


def _add_chat_usage(answer: AnswerBuilder, usage: object) -> None:
    if usage is None:
        return
    prompt, completion = count(get(usage, "prompt_tokens")), count(get(usage, "completion_tokens"))
    thought = count(get(usage, "completion_tokens_details", "reasoning_tokens"))
    if thought and prompt is not None and completion is not None:
        # xAI does not count reasoning tokens as completion tokens; only the total shows this.
        uncounted = get(usage, "total_tokens") == prompt + completion + thought
        completion += thought if uncounted else 0
    answer.update_usage(
        Usage(
            input_tokens=prompt,
            output_tokens=completion,
            cached_tokens=count(get(usage, "prompt_tokens_details", "cached_tokens")),
            cache_write_tokens=count(get(usage, "prompt_tokens_details", "cache_write_tokens")),
            reasoning_tokens=thought,
        )
    )


#: Maximum value of a time in a server's answer; larger values are ignored.
_MAX_SERVER_TIME = 1e8
#: Fields with times measured by the servers of Cerebras and Groq, by the field names of `Timing`.
_SECONDS = {"server_queue": "queue_time", "server_prefill": "prompt_time", "server_decode": "completion_time"}
_SERVER_TIMES = (
    ("timings", 1e-3, {"server_prefill": "prompt_ms", "server_decode": "predicted_ms"}),
    ("time_info", 1.0, _SECONDS),
    ("usage", 1.0, _SECONDS),
)


def _add_server_times(answer: AnswerBuilder, body: Mapping[str, Any]) -> None:
    """Add the times that the server has measured, if the server sends them."""
    for group, unit, names in _SERVER_TIMES:
        times = body.get(group)
        if not isinstance(times, dict):  # the usual case in the chunks of a stream
            continue
        for name, field in names.items():
            value: Any = times.get(field)
            if type(value) in (int, float) and 0 <= value < _MAX_SERVER_TIME:
                answer.server_times[name] = value * unit


def _set_served_by(answer: AnswerBuilder, body: Mapping[str, Any]) -> None:
    """Store the model and the fingerprint, and the provider that OpenRouter names."""
    if answer.served_by is None:  # each event of a stream repeats them
        answer.set_served_by(
            model=body.get("model"), fingerprint=body.get("system_fingerprint"), provider=body.get("provider")
        )


CHAT = WireFormat(
    to_body=_chat_body,
    schema_fields=_chat_schema_fields,
    offer_fields=_chat_offer_fields,
    finish_reasons=CHAT_FINISH,
    add_event=_add_chunk,
    add_answer=_add_chat_answer,
)


def _response_body(settings: ProviderSettings, request: Request) -> dict[str, Any]:
    turns = [item for turn in _turns(settings, request) for item in _input_items(turn)]
    # By default, OpenAI stores answers of Responses for a month, while answers of Chat Completions are not stored.
    return settings.body(request, {"input": turns, "store": False})


def _input_items(turn: Message) -> Iterator[dict[str, Any]]:
    """Yield the items for one message; calls and results are separate items."""
    if turn.role == "tool":
        yield {"type": "function_call_output", "call_id": turn.tool_call_id, "output": turn.content}
    elif turn.role != "assistant":
        yield {"role": turn.role, "content": turn.content}
    elif turn.content or not turn.tool_calls:
        # The long form is used because llama.cpp accepts no other form for messages of the assistant.
        content = [{"type": "output_text", "text": turn.content}]
        yield {"type": "message", "role": turn.role, "content": content}
    for call in turn.tool_calls:
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _response_schema_fields(settings: ProviderSettings, schema: Schema) -> dict[str, Any]:
    match settings.response_format:
        case ResponseFormat.JSON_SCHEMA:
            return {"text": {"format": {"type": "json_schema", **_named_schema(settings, schema=schema)}}}
        case ResponseFormat.JSON_OBJECT:
            return {"text": {"format": {"type": "json_object"}}}
        case ResponseFormat.TOOL:
            tools = [{"type": "function", **_named_schema(settings, parameters=schema)}]
            return {"tools": tools, "tool_choice": {"type": "function", "name": settings.schema_name}}
        case ResponseFormat.TEXT:
            return {}


def _response_offer_fields(settings: ProviderSettings, offer: ToolOffer) -> dict[str, Any]:
    tools = [{"type": "function", **_define_tool(settings, tool)} for tool in offer.tools]
    choice = {"type": "function", "name": offer.choice} if offer.mode is None else offer.mode.value
    return {"tools": tools, "tool_choice": choice}


#: Separator between the parts of a reasoning summary.
_PART_SEPARATOR = "\n\n"
#: Events that end a stream, with the status that is used if the response in the event has no status.
_LAST_EVENTS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
#: Phase of a message that contains the model's commentary instead of the answer.
_COMMENTARY = "commentary"
#: Types of items for tools that the provider runs or that have no schema, from ResponseOutputItem in openai 3.57.
_OTHER_ITEMS = frozenset(
    (
        "file_search_call",
        "function_call_output",
        "web_search_call",
        "computer_call",
        "computer_call_output",
        "program",
        "program_output",
        "tool_search_call",
        "tool_search_output",
        "additional_tools",
        "compaction",
        "image_generation_call",
        "code_interpreter_call",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "custom_tool_call",
        "custom_tool_call_output",
    )
)


def _add_event(answer: AnswerBuilder, event: object) -> None:
    kind = get(event, "type")
    match kind:
        case "response.output_text.delta":
            answer.add_text(get(event, "delta"), _place(answer, event))
        case "response.output_text.done":
            answer.complete_text(get(event, "text"), _place(answer, event))
        case "response.content_part.done" if get(event, "part", "type") == "output_text":
            answer.complete_text(get(event, "part", "text"), _place(answer, event))
        case "response.function_call_arguments.delta":
            answer.add_call((_number(answer, event), 0), arguments=get(event, "delta"))
        case "response.function_call_arguments.done":
            place = (_number(answer, event), 0)
            answer.complete_call(place, name=get(event, "name"), arguments=get(event, "arguments"))
        case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
            answer.add_reasoning(get(event, "delta"))
        case "response.reasoning_summary_part.added" if answer.reasoned:
            answer.add_reasoning(_PART_SEPARATOR)
        case "response.output_item.added":
            _begin_item(answer, _number(answer, event), get(event, "item"))
        case "response.output_item.done":
            _add_item(answer, _number(answer, event), get(event, "item"))
        case "response.refusal.delta":
            answer.add_refusal(get(event, "delta"))
        case "response.refusal.done" if not answer.refused:
            answer.add_refusal(get(event, "refusal"))
        case str() if kind in _LAST_EVENTS:
            _add_last_event(answer, get(event, "response"), status=_LAST_EVENTS[kind])


def _number(answer: AnswerBuilder, event: object) -> int:
    """Return the number of the item that an event belongs to, found by the index or the identifier in the event."""
    index = _index(get(event, "output_index"))
    identifier = get(event, "item_id") or get(event, "item", "id")
    identifier = identifier if isinstance(identifier, str) else None
    return answer.number_of_item(index, identifier)


def _place(answer: AnswerBuilder, event: object) -> Place:
    return _number(answer, event), _index(get(event, "content_index")) or 0


def _add_response(answer: AnswerBuilder, response: object) -> None:
    """Add a whole response: its items, finish reason and usage."""
    answer.set_served_by(model=get(response, "model"))
    for number, item in enumerate(items(response, "output")):
        _add_item(answer, number, item)
    _add_ending(answer, response, status=get(response, "status"))


def _add_last_event(answer: AnswerBuilder, response: object, *, status: str) -> None:
    """
    Add the last event of a stream; its response repeats the answer, and may contain text or calls that were missing in
    earlier events.
    """
    answer.set_served_by(model=get(response, "model"))
    output = items(response, "output")
    if answer.empty:
        answer.calls.clear()  # these calls have no arguments, and the response repeats them
        answer.kinds.clear()
        for number, item in enumerate(output):
            _add_item(answer, number, item)
    elif not answer.refused:
        _complete_calls(answer, [item for item in output if get(item, "type") == "function_call"])
    if not answer.reasoned:
        answer.add_reasoning(_PART_SEPARATOR.join(_reasoning(response)))
    _add_ending(answer, response, status=get(response, "status") or status)


def _complete_calls(answer: AnswerBuilder, whole: list[Any]) -> None:
    """Complete the calls whose name or arguments were missing in earlier events."""
    begun = sorted(answer.calls)
    begun += [(answer.new_number(), 0) for _ in range(len(whole) - len(begun))]
    for place, item in zip(begun, whole, strict=False):
        call = answer.calls.get(place)
        if call is None or not call.pieces:
            answer.complete_call(place, name=get(item, "name"), arguments=get(item, "arguments"))
        elif not call.names:
            answer.add_call(place, name=get(item, "name"))


def _add_ending(answer: AnswerBuilder, response: object, *, status: object) -> None:
    answer.update_usage(_usage(get(response, "usage")))
    answer.update_usage(Usage(service_tier=read_tier(get(response, "service_tier"))))
    if status == "failed":
        unexplained = {"message": "the response failed, and the server gave no reason", "type": "server_error"}
        raise EnclosedError(get(response, "error") or unexplained)
    if status == "completed" and answer.empty and not isinstance(get(response, "output"), list):
        raise CallError(FaultKind.BAD_RESPONSE, "the server answered without any output")
    if status is None and answer.empty:
        raise CallError(FaultKind.BAD_RESPONSE, "the server answered without a status and without any output")
    reason = get(response, "incomplete_details", "reason") if status == "incomplete" else None
    if reason or status:
        answer.set_finish_reason(reason or status)
    answer.end_without_reason()


def _begin_item(answer: AnswerBuilder, number: int, item: object) -> None:
    """Add an item at its start: the kind of the item and, for a call, the name of the tool."""
    kind = get(item, "type")
    answer.kinds[number] = str(kind)
    match kind:
        case "reasoning":
            answer.begin_reasoning()
        case "function_call":
            answer.add_call((number, 0), default=get(item, "arguments") or None)
            if name := get(item, "name"):
                answer.calls[number, 0].names[:] = [name] if isinstance(name, str) else []
        case "message":
            if get(item, "phase") == _COMMENTARY:
                answer.set_comment(number)
        case _:
            answer.set_provider_tool((number, 0))
            if kind not in _OTHER_ITEMS:
                answer.note_unknown(kind)


def _add_item(answer: AnswerBuilder, number: int, item: object) -> None:
    """Add a whole item of the output: a message's text and refusals, a call, or reasoning."""
    _begin_item(answer, number, item)
    match get(item, "type"):
        case "message":
            refused = answer.refused
            for place, part in enumerate(parts(get(item, "content"))):
                answer.complete_text(get(part, "text") if get(part, "type") else part, (number, place))
                if not refused:
                    answer.add_refusal(get(part, "refusal"))
        case "function_call":
            answer.complete_call((number, 0), arguments=get(item, "arguments"))
        case "reasoning" if not answer.reasoned:
            answer.add_reasoning(_PART_SEPARATOR.join(_reasoning({"output": [item]})))


def _reasoning(response: object) -> Iterator[str]:
    """Yield the texts of the reasoning items: the full text if there is one, otherwise a summary."""
    for item in items(response, "output"):
        if get(item, "type") == "reasoning":
            shown = items(item, "content") or items(item, "summary")
            yield from (text for part in shown if isinstance(text := get(part, "text"), str))


def _usage(usage: object) -> Usage:
    return Usage(
        input_tokens=count(get(usage, "input_tokens")),
        output_tokens=count(get(usage, "output_tokens")),
        cached_tokens=count(get(usage, "input_tokens_details", "cached_tokens")),
        cache_write_tokens=count(get(usage, "input_tokens_details", "cache_write_tokens")),
        reasoning_tokens=count(get(usage, "output_tokens_details", "reasoning_tokens")),
    )


RESPONSES = WireFormat(
    to_body=_response_body,
    schema_fields=_response_schema_fields,
    offer_fields=_response_offer_fields,
    finish_reasons=RESPONSES_FINISH,
    add_event=_add_event,
    add_answer=_add_response,
)
