"""How an OpenAI server, or one that speaks the same, is spoken to."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.engines.addresses import Address
from pytest_jsbench.engines.http.answer_builder import API
from pytest_jsbench.engines.openai import chat, responses
from pytest_jsbench.engines.options import Options
from pytest_jsbench.engines.presets import ProviderPreset, preset_of
from pytest_jsbench.engines.provider import PROVIDER_OPTIONS, ProviderSettings, read_provider_settings
from pytest_jsbench.engines.reasoning import AskedReasoning, read_reasoning
from pytest_jsbench.engines.requirements import Key, find_address, find_key, find_model, headers_of_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.core.generations import GenerationParams, Request
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.http.client import Client

#: small, with structured outputs, and without a shutdown date in the list of models of openai 3.52
DEFAULT_MODEL = "gpt-5.4-mini"
HOME = "https://api.openai.com/v1"
FORMATS = (
    ResponseFormat.JSON_SCHEMA,
    ResponseFormat.JSON_OBJECT,
    ResponseFormat.TOOL,
    ResponseFormat.TEXT,
)
OPTIONS = (
    PROVIDER_OPTIONS
    | {"api", "formats", "unstreamed", "stream_options", "single_call"}
    | {"max_tokens_field", "seed_field", "effort_field", "budget_field"}
)


class Api(StrEnum):
    """Which of the server's two interfaces is called."""

    CHAT = "chat"
    RESPONSES = "responses"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings(ProviderSettings):
    """How one server is called."""

    #: of chat `max_completion_tokens` at OpenAI and what the preset says or `max_tokens` elsewhere; of responses
    #: `max_output_tokens`
    max_tokens_field: str
    #: of chat; None where the server takes none
    seed_field: str | None = "seed"
    #: whether usage is asked for in a stream; some servers refuse the question and say it all the same
    stream_options: bool = True
    #: whether a forced tool goes with `parallel_tool_calls: false`
    single_call: bool = False
    api_name: Api = Api.CHAT
    #: whether it is a server of llama.cpp, which can say what a prompt becomes in its model's chat template
    has_template: bool = False
    #: what is known of the provider; None for one that was not named
    preset: ProviderPreset | None = None
    #: whether the environment's proxies are used
    proxies: bool = True

    @property
    def takes_developer(self) -> bool:
        """Whether the server knows OpenAI's own role for instructions; nearly all others refuse it."""
        return is_openai(self.base_url)

    @classmethod
    def from_config(cls, config: EngineConfig) -> OpenAISettings:
        """Read what a user said; EngineError for what cannot be done."""
        options = Options(config, OPTIONS)
        preset = preset_of(config.name)
        # OpenAI's variable says nothing of another provider
        address = find_address(config, None if preset else "OPENAI_BASE_URL")
        address = address or Address(url=preset.base_url if preset else HOME)
        at_home = is_openai(address.url)
        model = find_model(config, url=None if at_home else address.url, default=DEFAULT_MODEL)
        limit = preset.max_tokens_field if preset else "max_completion_tokens" if at_home else "max_tokens"
        return cls(**read_openai_settings(config, options, address, model=model, limit=limit, preset=preset))

    def find_key(self, config: EngineConfig) -> Key:
        """The key by which the server is called; MissingRequirement where it wants one that is not there."""
        if (preset := self.preset) is None:
            return find_key(config, ("OPENAI_API_KEY",), optional=not is_openai(self.base_url))
        # another address than the provider's may want none; OpenAI's own key is never sent to either
        variables = () if preset.key is None else (preset.key,)
        return find_key(config, variables, optional=not variables or config.base_url is not None)

    def new_client(self, key: Key) -> Client:
        """Return the client of that server alone, with what the SDK's own variables add to each call."""
        from pytest_jsbench.engines.http.client import Client

        of_account = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
        return Client(
            self.address,
            headers={**self.authorization(key), **headers_of_environment("OPENAI_CUSTOM_HEADERS", of_account)},
            query=self.extra_query,
            proxies=self.proxies,
            secret=key.value,
        )

    def authorization(self, key: Key) -> dict[str, str]:
        """Return the headers that let a caller in."""
        return {"authorization": f"Bearer {key.value}"}

    @property
    def api(self) -> API:
        """The module that reads its answers."""
        return chat if self.api_name is Api.CHAT else responses

    @property
    def path(self) -> str:
        """Where a call goes, below the server's address."""
        return chat.PATH if self.api_name is Api.CHAT else responses.PATH

    @property
    def provider(self) -> str | None:
        """The provider whose published prices hold; None where none do."""
        if (preset := self.preset) is not None:
            return preset.prices if self.base_url == preset.base_url else None
        return "openai" if is_openai(self.base_url) else None

    @property
    def details(self) -> Mapping[str, Any]:
        """What else may be shown of how it is called."""
        strict = self.response_format in (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL)
        return {
            **({"strict": self.strict} if strict else {}),
            **({} if self.api_name is Api.CHAT else {"api": self.api_name.value}),
            **self.extras,
            **({} if self.preset is None else {"preset": self.preset.version}),
        }

    def sampled(self, params: GenerationParams) -> GenerationParams:
        """As is asked for, but for what the extra body says, and a seed that the API does not know."""
        if self.api_name is Api.RESPONSES or self.seed_field is None:
            params = replace(params, seed=None)
        return self.overridden(params, limit=self.max_tokens_field, seed=self.seed_field or "seed")

    def to_body(self, request: Request) -> dict[str, Any]:
        """The body of one call; what nobody asked for is not sent."""
        params = request.params
        turns = [
            replace(turn, role="system") if turn.role == "developer" and not self.takes_developer else turn
            for turn in request.prompt.messages
        ]
        body: dict[str, Any] = {"model": self.model, self.max_tokens_field: params.max_tokens}
        if self.api_name is Api.CHAT:
            body |= {"messages": [turn.to_dict() for turn in turns], **chat.format_fields(self, request.schema)}
            if params.seed is not None and self.seed_field is not None:
                body[self.seed_field] = params.seed
            if self.streaming and self.stream_options:
                body["stream_options"] = {"include_usage": True}
        else:
            body["input"] = [item for turn in turns for item in responses.input_items(turn)]
            body["store"] = False  # as chat does it: otherwise OpenAI keeps every answer for a month
            body |= responses.format_fields(self, request.schema)
        if params.temperature is not None:
            body["temperature"] = params.temperature
        if self.streaming:
            body["stream"] = True
        if self.single_call and self.response_format is ResponseFormat.TOOL:
            body["parallel_tool_calls"] = False
        return self.with_extra(body, repeat=request.repeat, seed=self.seed_field or "seed")


def _formats(preset: ProviderPreset | None, api: Api) -> tuple[ResponseFormat, ...]:
    if preset is None:
        return FORMATS
    if api in preset.formats:
        return preset.formats[api]
    message = f"engine '{preset.name}' speaks {' and '.join(preset.apis)}, not {api} ({preset.source})"
    raise EngineError(message, found=api.value, expected=preset.apis, where="api")


def read_openai_settings(
    config: EngineConfig,
    options: Options,
    address: Address,
    *,
    model: str,
    limit: str,
    preset: ProviderPreset | None = None,
) -> dict[str, Any]:
    """The fields of OpenAISettings; `limit` is what chat's limit of tokens is called."""
    api = options.choice("api", Api, default=Api(preset.apis[0]) if preset else Api.CHAT)
    limit = "max_output_tokens" if api is Api.RESPONSES else limit
    reasoning = _reasoning(options, api, preset)
    return {
        **read_provider_settings(
            config, options, address, _formats(preset, api), model=model, preset=preset, reasoning=reasoning
        ),
        "max_tokens_field": options.text("max_tokens_field", default=limit),
        "seed_field": options.field("seed_field", default=preset.seed_field if preset else "seed"),
        "stream_options": options.flag("stream_options", default=preset is None or preset.stream_options),
        # OpenAI's o-series refuses the parameter, whatever it says; servers of others may refuse what they do not know
        "single_call": options.flag(
            "single_call",
            default=preset.single_call if preset else is_openai(address.url) and re.match(r"o\d", model) is None,
        ),
        "api_name": api,
        "has_template": preset is not None and preset.name == "llamacpp",
        "preset": preset,
    }


def _reasoning(options: Options, api: Api, preset: ProviderPreset | None) -> AskedReasoning:
    """How the model is asked to reason; Responses has one parameter of its own, and no budget."""
    effort: str | bool = "reasoning.effort" if api is Api.RESPONSES else "reasoning_effort"
    budget: str | bool = False
    if api is Api.CHAT and preset is not None:
        effort, budget = preset.effort_field, preset.budget_field
    return read_reasoning(
        options,
        effort=options.field("effort_field", default=effort),
        budget=options.field("budget_field", default=budget),
    )


def is_openai(url: str) -> bool:
    """True of an address of OpenAI's own, in any region."""
    host = urlsplit(url).hostname or ""
    return host == "api.openai.com" or host.endswith(".api.openai.com")
