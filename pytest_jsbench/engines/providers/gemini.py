"""Gemini's `generateContent` API for the engine `gemini`: build requests and parse answers."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.files import Unreadable, parse_json
from pytest_jsbench.core.generations import CallError, FaultKind, ResponseFormat, Usage
from pytest_jsbench.core.messages import INSTRUCTING
from pytest_jsbench.core.tool_offers import ToolMode
from pytest_jsbench.engines.base import GEMINI_APIS, Address
from pytest_jsbench.engines.engine_options import Key, Options, find_address, find_key, find_model, read_reasoning
from pytest_jsbench.engines.http.calls import get, items, parts, text_or_default
from pytest_jsbench.engines.presets import KEYS
from pytest_jsbench.engines.providers.answer import read_tier
from pytest_jsbench.engines.providers.finish_reasons import GEMINI_FINISH
from pytest_jsbench.engines.providers.provider import PROVIDER_OPTIONS, ProviderBatchFactory, WireFormat, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.core.messages import Message, ToolCall
    from pytest_jsbench.core.tool_offers import ToolOffer
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.providers.answer import AnswerBuilder
    from pytest_jsbench.engines.providers.provider import ProviderSettings

#: Model in the examples of google-genai 3.4.
DEFAULT_MODEL = "gemini-3.8-flash"
HOME = "https://generativelanguage.googleapis.com"
#: Options of the engine; `strict` is excluded because the API has no such setting.
OPTIONS = PROVIDER_OPTIONS - {"strict"} | {"api_version"}

_GENERATION = "generationConfig"
#: Paths of the thinking settings in `generationConfig`: newer models accept a level, older ones a budget.
_LEVEL = "thinkingConfig.thinkingLevel"
_BUDGET = "thinkingConfig.thinkingBudget"
#: Replaces the thought signature of a function call in the conversation, because newer models require a signature.
_UNSIGNED = "skip_thought_signature_validator"


def _to_body(settings: ProviderSettings, request: Request) -> dict[str, Any]:
    """Return the body of one call; the extra body is merged into `generationConfig`."""
    messages = request.prompt.messages
    form = settings.question_fields(request)
    generation = {**settings.sampling_fields(request.params), **form.pop(_GENERATION, {})}
    body: dict[str, Any] = {
        "contents": _contents(messages),
        _GENERATION: settings.with_extra(generation, repeat=request.repeat),
        **form,
    }
    if system := [{"text": message.content} for message in messages if message.role in INSTRUCTING]:
        body["systemInstruction"] = {"parts": system}
    return {**body, **settings.outer_body}


def _schema_fields(settings: ProviderSettings, schema: Schema) -> dict[str, Any]:
    match settings.response_format:
        case ResponseFormat.JSON_SCHEMA:
            return {_GENERATION: {"responseMimeType": "application/json", "responseJsonSchema": schema}}
        case ResponseFormat.JSON_OBJECT:
            return {_GENERATION: {"responseMimeType": "application/json"}}
        case ResponseFormat.TOOL:
            declared = [{"name": settings.schema_name, "parametersJsonSchema": schema}]
            choice = {"mode": "ANY", "allowedFunctionNames": [settings.schema_name]}
            return {"tools": [{"functionDeclarations": declared}], "toolConfig": {"functionCallingConfig": choice}}
        case ResponseFormat.TEXT:
            return {}


#: Modes of function calling; a choice that names a tool has the mode `ANY`.
_MODES = {ToolMode.AUTO: "AUTO", ToolMode.REQUIRED: "ANY", ToolMode.NONE: "NONE"}


def _offer_fields(settings: ProviderSettings, offer: ToolOffer) -> dict[str, Any]:  # noqa: ARG001  a wire format's function
    declared = [
        {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
        for tool in offer.tools
    ]
    choice: dict[str, Any] = {"mode": "ANY", "allowedFunctionNames": [offer.choice]}
    if offer.mode is not None:
        choice = {"mode": _MODES[offer.mode]}
    return {"tools": [{"functionDeclarations": declared}], "toolConfig": {"functionCallingConfig": choice}}


def _contents(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the conversation without instructions; consecutive function results form one user turn, in their order."""
    contents: list[dict[str, Any]] = []
    calls: dict[str | None, ToolCall] = {}
    for is_result, group in groupby((m for m in messages if m.role not in INSTRUCTING), lambda m: m.role == "tool"):
        if is_result:
            results = {m.tool_call_id: m.content for m in group}
            parts = [_response(call, results[name]) for name, call in calls.items() if name in results]
            contents.append({"role": "user", "parts": parts})
            continue
        for message in group:
            role = "model" if message.role == "assistant" else "user"
            calls = {call.id: call for call in message.tool_calls}
            text = [{"text": message.content}] if message.content or not calls else []
            parts = [
                {"functionCall": {"name": call.name, "args": call.values}, "thoughtSignature": _UNSIGNED}
                for call in calls.values()
            ]
            contents.append({"role": role, "parts": [*text, *parts]})
    return contents


def _response(call: ToolCall, content: str) -> dict[str, Any]:
    """Return the part with a function's result: a JSON object unchanged, any other value in the field `output`."""
    try:
        value = parse_json(content)
    except Unreadable:
        value = content
    response = value if isinstance(value, dict) else {"output": value}
    return {"functionResponse": {"name": call.name, "response": response}}


#: Kinds of parts for tools that Gemini runs, from Part in google-genai 3.6.
_OTHER_PARTS = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse", "functionResponse")
#: Kinds of parts with media.
_MEDIA_PARTS = ("inlineData", "fileData")


def _add_response(answer: AnswerBuilder, part: object) -> None:
    """Add an answer, or an event of a stream, which has the same form as an answer."""
    answer.set_served_by(model=get(part, "modelVersion"))
    answer.store_counts(get(part, "usageMetadata"), _COUNTS)
    answer.update_usage(_usage(answer.counts))
    answer.update_usage(Usage(service_tier=read_tier(get(part, "usageMetadata", "serviceTier"))))
    if (blocked := get(part, "promptFeedback", "blockReason")) is not None:
        words = get(part, "promptFeedback", "blockReasonMessage")
        answer.add_refusal(text_or_default(words, f"the provider blocked the prompt: {blocked}"))
    for candidate in items(part, "candidates")[:1]:
        for piece in parts(get(candidate, "content", "parts")):
            _add_part(answer, piece)
        if (reason := get(candidate, "finishReason")) is not None:
            answer.set_finish_reason(reason, get(candidate, "finishMessage"))


def _add_part(answer: AnswerBuilder, piece: object) -> None:
    """Add a part; parts have no index, so they are numbered in order of arrival, and consecutive texts are joined."""
    number = len(answer.kinds)
    if get(piece, "thought") is True:
        answer.add_reasoning(get(piece, "text"))
    elif (call := get(piece, "functionCall")) is not None:
        if get(call, "partialArgs") or get(call, "willContinue"):
            message = "the server streams the arguments of a call in parts; remove streamFunctionCallArguments"
            raise CallError(FaultKind.BAD_RESPONSE, message)
        args = get(call, "args")
        # The API omits empty arguments.
        arguments = "{}" if args is None else json.dumps(args, ensure_ascii=False)
        answer.kinds[number] = "functionCall"
        answer.add_call((number, 0), identifier=get(call, "id"), name=get(call, "name"), arguments=arguments)
    elif (kind := _other_kind(piece)) is not None:
        answer.kinds[number] = kind
        if kind not in _MEDIA_PARTS:
            answer.set_provider_tool((number, 0))
        if kind not in (*_OTHER_PARTS, *_MEDIA_PARTS):
            answer.note_unknown(kind)
    else:
        answer.add_text(get(piece, "text") if isinstance(piece, dict) else piece, (number, 0))


def _other_kind(piece: object) -> str | None:
    """Return the kind of a part without text: the name of its first known member, or of its first object."""
    if not isinstance(piece, dict) or "text" in piece:
        return None
    known = [name for name in (*_OTHER_PARTS, *_MEDIA_PARTS) if name in piece]
    objects = [name for name, value in piece.items() if isinstance(value, dict)]
    return next(iter([*known, *objects]), None)


_COUNTS = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount")


def _usage(counts: Mapping[str, int]) -> Usage:
    thoughts = counts.get("thoughtsTokenCount")
    written = [number for number in (counts.get("candidatesTokenCount"), thoughts) if number is not None]
    return Usage(
        # This count includes cached tokens.
        input_tokens=counts.get("promptTokenCount"),
        # The API's candidate count excludes thoughts, and is absent if it is 0.
        output_tokens=sum(written) if written else None,
        cached_tokens=counts.get("cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )


GENERATE_CONTENT = WireFormat(
    to_body=_to_body,
    schema_fields=_schema_fields,
    offer_fields=_offer_fields,
    finish_reasons=GEMINI_FINISH,
    add_event=_add_response,
    add_answer=_add_response,
)


def gemini_settings(config: EngineConfig) -> ProviderSettings:
    """Read the user's settings; raise EngineError if a setting is invalid."""
    options = Options(config, OPTIONS)
    address = find_address(config, "GOOGLE_GEMINI_BASE_URL") or Address(url=HOME)
    at_home = address.url.rstrip("/") == HOME
    model = find_model(config, url=None if at_home else address.url, default=DEFAULT_MODEL)
    # v1 is the SDK's default; aliases such as gemini-flash-latest exist only in v1beta.
    version = options.identifier("api_version", default="v1")
    path = _model_path(version, model)
    reasoning = read_reasoning(options, effort=_LEVEL, budget=_BUDGET)
    settings = read_settings(
        config, options, address, model=model, wire=GENERATE_CONTENT, path=path, reasoning=reasoning
    )
    fields = dict(settings.extra_body)
    generation = fields.pop(_GENERATION, {})
    if not isinstance(generation, dict):
        message = f"option 'extra_body' of engine '{config.name}': {_GENERATION} must be a JSON object"
        raise EngineError(message, found=type(generation).__name__, expected="a JSON object", where="extra_body")
    reasoning.refuse_duplicates(generation, config.name)
    method = "streamGenerateContent?alt=sse" if settings.streaming else "generateContent"
    return replace(
        settings,
        path=f"{path}:{method}",
        place=partial(_place, version),
        limit_field="maxOutputTokens",
        seed_field="seed",
        extra_body=generation,
        outer_body=fields,
        provider="google" if at_home else None,
        details={"api_version": version, **settings.details},
        find_key=partial(find_key, variables=KEYS["gemini"], optional=not at_home),
        authorization=_authorization,
    )


def _model_path(version: str, model: str) -> str:
    # the name of a tuned model contains its prefix
    named = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
    return f"/{version}/{quote(named)}"


def _place(version: str, path: str, body: Mapping[str, Any], model: str) -> tuple[str, Mapping[str, Any]]:
    """Return the path of a call; the path of an application's call is only the method."""
    if path not in GEMINI_APIS:
        return path, body
    method = path.removeprefix("/")
    return f"{_model_path(version, model)}:{method}{'?alt=sse' if method.startswith('stream') else ''}", body


def _authorization(key: Key) -> dict[str, str]:
    return {"x-goog-api-key": key.value}


FACTORY = ProviderBatchFactory(
    settings=gemini_settings,
    options=OPTIONS,
    extra="gemini",
    default_model=DEFAULT_MODEL,
    batches="GeminiBatches",
    passes_on=GEMINI_APIS,
)
