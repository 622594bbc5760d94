"""How Gemini, or a server that speaks the same, is spoken to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, assert_never

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.engines.addresses import Address
from pytest_jsbench.engines.options import (
    PROVIDER_OPTIONS,
    Options,
    ProviderSettings,
    read_provider_settings,
    read_reasoning,
)
from pytest_jsbench.engines.reasoning import REASONING_OPTIONS
from pytest_jsbench.engines.requirements import find_address, find_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import EngineConfig

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
OPTIONS = PROVIDER_OPTIONS - {"strict"} | REASONING_OPTIONS | {"api_version"}
#: in the SDK's order
KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")

_GENERATION = "generationConfig"
#: of thinking, in there: newer models take a level, older ones a budget
_LEVEL, _BUDGET = "thinkingConfig.thinkingLevel", "thinkingConfig.thinkingBudget"
_ROLES = {"assistant": "model"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiSettings(ProviderSettings):
    """How one server is called; the extra body is what stands in `generationConfig`."""

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

    def to_body(self, request: Request) -> dict[str, Any]:
        """The body of one call, in the words of the REST API."""
        messages, params = request.prompt.messages, request.params
        given = {"maxOutputTokens": params.max_tokens, "temperature": params.temperature, "seed": params.seed}
        form, beside = self._format(request.schema)
        generation = {**{name: value for name, value in given.items() if value is not None}, **form}
        body: dict[str, Any] = {
            "contents": [
                {"role": _ROLES.get(m.role, m.role), "parts": [{"text": m.content}]}
                for m in messages
                if m.role != "system"
            ],
            _GENERATION: self.with_extra(generation, repeat=request.repeat),
            **beside,
        }
        if system := [{"text": message.content} for message in messages if message.role == "system"]:
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


def is_gemini(url: str) -> bool:
    """Whether the address is Google's own."""
    return url.rstrip("/") == HOME
