"""How Gemini, or a server that speaks the same, is spoken to."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, assert_never
from urllib.parse import quote

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.files import Unreadable, parse_json
from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.core.messages import INSTRUCTING
from pytest_jsbench.engines.addresses import Address
from pytest_jsbench.engines.gemini import answers
from pytest_jsbench.engines.options import Options
from pytest_jsbench.engines.provider import (
    PROVIDER_OPTIONS,
    ProviderSettings,
    read_provider_settings,
)
from pytest_jsbench.engines.provider_batches import ProviderBatchFactory
from pytest_jsbench.engines.reasoning import read_reasoning
from pytest_jsbench.engines.requirements import Key, find_address, find_key, find_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import GenerationParams, Request
    from pytest_jsbench.core.messages import Message, ToolCall
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.http.answer_builder import API
    from pytest_jsbench.engines.http.client import Client

#: the one in the examples of google-genai 3.4
DEFAULT_MODEL = "gemini-3.8-flash"
HOME = "https://generativelanguage.googleapis.com"
FORMATS = (
    ResponseFormat.JSON_SCHEMA,
    ResponseFormat.JSON_OBJECT,
    ResponseFormat.TOOL,
    ResponseFormat.TEXT,
)
#: the API has no word for how strictly a schema is held to
OPTIONS = PROVIDER_OPTIONS - {"strict"} | {"api_version"}
#: in the SDK's order
KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")

_GENERATION = "generationConfig"
#: of thinking, in there: newer models take a level, older ones a budget
_LEVEL, _BUDGET = "thinkingConfig.thinkingLevel", "thinkingConfig.thinkingBudget"
#: newer models want the signature of their thoughts back with each call; this one says that there is none
_UNSIGNED = "skip_thought_signature_validator"


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiSettings(ProviderSettings):
    """How one server is called; the extra body is what stands in `generationConfig`."""

    api: ClassVar[API] = answers
    #: the SDK's own default; names such as gemini-flash-latest are known to v1beta alone
    api_version: str = "v1"
    #: the rest of the extra body
    extra_fields: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_config(cls, config: EngineConfig) -> GeminiSettings:
        """Read what a user said; EngineError for what cannot be done."""
        options = Options(config, OPTIONS)
        address = find_address(config, "GOOGLE_GEMINI_BASE_URL") or Address(url=HOME)
        model = find_model(config, url=None if is_gemini(address.url) else address.url, default=DEFAULT_MODEL)
        reasoning = read_reasoning(options, effort=_LEVEL, budget=_BUDGET)
        read = read_provider_settings(config, options, address, FORMATS, model=model, reasoning=reasoning)
        fields = dict(read.pop("extra_body"))
        generation = fields.pop(_GENERATION, {})
        if not isinstance(generation, dict):
            message = f"option 'extra_body' of engine '{config.name}': {_GENERATION} is a JSON object"
            raise EngineError(message, found=type(generation).__name__, expected="a JSON object", where="extra_body")
        reasoning.check_beside(generation, config.name)
        version = options.identifier("api_version", default="v1")
        return cls(**read, extra_body=generation, extra_fields=fields, api_version=version)

    @property
    def provider(self) -> str | None:
        """Google, unless another server is called."""
        return "google" if is_gemini(self.base_url) else None

    @property
    def details(self) -> Mapping[str, Any]:
        """What else may be shown of how it is called."""
        return {"api_version": self.api_version, **self.extras}

    def find_key(self, config: EngineConfig) -> Key:
        """The key by which the server is called; MissingRequirement where it wants one that is not there."""
        return find_key(config, KEYS, optional=not is_gemini(self.base_url))

    def sampled(self, params: GenerationParams) -> GenerationParams:
        """As is asked for, but for what the extra body says."""
        return self.overridden(params, limit="maxOutputTokens")

    @property
    def further_fields(self) -> Mapping[str, Any]:
        """The fields that a user adds to a body, beside `generationConfig`."""
        return self.extra_fields

    def new_client(self, key: Key) -> Client:
        """Return the client of that server alone."""
        from pytest_jsbench.engines.http.client import Client

        return Client(self.address, headers={"x-goog-api-key": key.value}, query=self.extra_query, secret=key.value)

    @property
    def model_path(self) -> str:
        """Where the model is, below the server's address; a tuned one says by itself what it is."""
        kinds = ("models/", "tunedModels/")
        model = self.model if self.model.startswith(kinds) else f"models/{self.model}"
        return f"/{self.api_version}/{quote(model)}"

    @property
    def path(self) -> str:
        """Where a call goes, below the server's address."""
        return f"{self.model_path}:{'streamGenerateContent?alt=sse' if self.streaming else 'generateContent'}"

    def to_body(self, request: Request) -> dict[str, Any]:
        """The body of one call, in the words of the REST API."""
        messages, params = request.prompt.messages, request.params
        given = {"maxOutputTokens": params.max_tokens, "temperature": params.temperature, "seed": params.seed}
        form, beside = self._format(request.schema)
        generation = {**{name: value for name, value in given.items() if value is not None}, **form}
        body: dict[str, Any] = {
            "contents": _contents(messages),
            _GENERATION: self.with_extra(generation, repeat=request.repeat),
            **beside,
        }
        if system := [{"text": message.content} for message in messages if message.role in INSTRUCTING]:
            body["systemInstruction"] = {"parts": system}
        return {**body, **self.extra_fields}

    def _format(self, schema: Schema) -> tuple[dict[str, Any], dict[str, Any]]:
        """What says the response format inside of `generationConfig`, and beside it."""
        as_json = {"responseMimeType": "application/json"}
        match self.response_format:
            case ResponseFormat.TEXT:
                return {}, {}
            case ResponseFormat.JSON_OBJECT:
                return as_json, {}
            case ResponseFormat.JSON_SCHEMA:
                return {**as_json, "responseJsonSchema": schema}, {}
            case ResponseFormat.TOOL:
                tool = {"name": self.schema_name, "parametersJsonSchema": schema}
                choice = {"mode": "ANY", "allowedFunctionNames": [self.schema_name]}
                return {}, {
                    "tools": [{"functionDeclarations": [tool]}],
                    "toolConfig": {"functionCallingConfig": choice},
                }
            case never:
                assert_never(never)


def _contents(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The conversation without its instructions; what functions gave back is one turn of the user's, in their order."""
    contents: list[dict[str, Any]] = []
    calls: dict[str | None, ToolCall] = {}
    for is_result, group in groupby((m for m in messages if m.role not in INSTRUCTING), lambda m: m.role == "tool"):
        if is_result:
            results = {m.tool_call_id: m.content for m in group}
            parts = [_response(call, results[name]) for name, call in calls.items() if name in results]
            contents.append({"role": "user", "parts": parts})
            continue
        for message in group:
            role, calls = "model" if message.role == "assistant" else "user", {c.id: c for c in message.tool_calls}
            text = [{"text": message.content}] if message.content or not calls else []
            parts = [
                {"functionCall": {"name": call.name, "args": call.values}, "thoughtSignature": _UNSIGNED}
                for call in calls.values()
            ]
            contents.append({"role": role, "parts": [*text, *parts]})
    return contents


def _response(call: ToolCall, content: str) -> dict[str, Any]:
    """What a function gave back: the JSON object that it is, or else its text."""
    try:
        value = parse_json(content)
    except Unreadable:
        value = content
    response = value if isinstance(value, dict) else {"output": value}
    return {"functionResponse": {"name": call.name, "response": response}}


def is_gemini(url: str) -> bool:
    """True where the address is Google's own."""
    return url.rstrip("/") == HOME


FACTORY = ProviderBatchFactory(
    GeminiSettings, OPTIONS, extra="gemini", batches="pytest_jsbench.engines.gemini.batches:GeminiBatches"
)
