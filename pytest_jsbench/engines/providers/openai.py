"""
The engines `openai` (also for presets) and `azure`: OpenAI's two APIs, at OpenAI and at compatible servers.

Azure identifies a model by the name of the model's deployment.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import CallError, Declined, DeclineReason, ResponseFormat
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines.base import Address
from pytest_jsbench.engines.engine_options import (
    Key,
    Options,
    RequestedReasoning,
    Sdk,
    find_address,
    find_key,
    find_model,
    from_environment,
    headers_of_environment,
    read_reasoning,
    requirement_error,
)
from pytest_jsbench.engines.http.calls import Deadline, EnclosedError, as_object, parse_json
from pytest_jsbench.engines.presets import KEYS, ProviderPreset, preset_of
from pytest_jsbench.engines.providers.finish_reasons import read_meaning
from pytest_jsbench.engines.providers.openai_apis import CHAT, CHAT_PATH, RESPONSES, RESPONSES_PATH
from pytest_jsbench.engines.providers.provider import (
    PROVIDER_OPTIONS,
    ProviderBatchFactory,
    ProviderEngine,
    ProviderFactory,
    bearer,
    read_settings,
    read_transport,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.core.cases import Prompt
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.providers.provider import ProviderSettings

#: A small model with structured outputs, and without a shutdown date in the list of models of openai 3.52.
DEFAULT_MODEL = "gpt-5.4-mini"
HOME = "https://api.openai.com/v1"
OPTIONS = (
    PROVIDER_OPTIONS
    | {"api", "formats", "unstreamed", "stream_options", "single_call"}
    | {"max_tokens_field", "seed_field", "effort_field", "budget_field", "transport"}
)
AZURE_OPTIONS = OPTIONS - {"transport"} | {"api_version"}
PASSES_ON = (CHAT_PATH, RESPONSES_PATH)
_RESOURCES = {CHAT_PATH: "chat.completions", RESPONSES_PATH: "responses"}

_ENDPOINT = "AZURE_OPENAI_ENDPOINT"
_VERSION = "OPENAI_API_VERSION"
#: Environment variable with a token of Entra ID, which is used instead of a key.
_TOKEN = "AZURE_OPENAI_AD_TOKEN"  # noqa: S105  the name of a variable
#: Path of the API at Azure's endpoint.
_AZURE_PATH = "/openai"


class Api(StrEnum):
    """The two APIs of a server."""

    CHAT = "chat"
    RESPONSES = "responses"


def openai_settings(config: EngineConfig) -> ProviderSettings:
    """Read the user's settings; raise EngineError if a setting is invalid."""
    options = Options(config, OPTIONS)
    preset = preset_of(config.name)
    # OpenAI's variable does not apply to other providers
    address = find_address(config, None if preset else "OPENAI_BASE_URL")
    address = address or Address(url=preset.base_url if preset else HOME)
    host = urlsplit(address.url).hostname or ""
    at_home = host == "api.openai.com" or host.endswith(".api.openai.com")  # in any region
    model = find_model(config, url=None if at_home else address.url, default=DEFAULT_MODEL)
    if preset is not None:
        limit: str = preset.max_tokens_field
    else:
        limit = "max_completion_tokens" if at_home else "max_tokens"
    settings = read_openai_settings(config, options, address, model=model, limit=limit, preset=preset, at_home=at_home)
    if preset is None:
        optional = not at_home
        keys = KEYS["openai"]
        provider = "openai" if at_home else None
    else:
        # A server at another address than the provider's may not need a key. OpenAI's key is never sent to another
        # provider.
        optional = preset.key is None or config.base_url is not None
        keys = () if preset.key is None else (preset.key,)
        provider = preset.prices if address.url == preset.base_url else None
    sdk = Sdk(package="openai", minimum=(2, 34), client="OpenAI", resource=_RESOURCES[settings.path])
    return replace(
        read_transport(options, settings, sdk),
        provider=provider,
        find_key=partial(find_key, variables=keys, optional=optional),
        takes_developer=at_home,
    )


def read_openai_settings(
    config: EngineConfig,
    options: Options,
    address: Address,
    *,
    model: str,
    limit: str,
    preset: ProviderPreset | None = None,
    at_home: bool = False,
) -> ProviderSettings:
    """
    Read the settings that all servers of OpenAI's APIs share; `limit` is the parameter for the token limit in Chat
    Completions.
    """
    api = options.choice("api", Api, default=Api(preset.apis[0]) if preset else Api.CHAT)
    in_chat = api is Api.CHAT
    chat = CHAT
    if preset is not None and preset.finish_reasons:
        own = {word: read_meaning(meaning) for word, meaning in preset.finish_reasons.items()}
        finish_reasons = CHAT.finish_reasons.with_additions(own, server=preset.title, source=preset.source)
        chat = replace(CHAT, finish_reasons=finish_reasons)
    settings = read_settings(
        config,
        options,
        address,
        formats=_formats(preset, api),
        model=model,
        wire=chat if in_chat else RESPONSES,
        path=CHAT_PATH if in_chat else RESPONSES_PATH,
        preset=preset,
        reasoning=_read_reasoning(options, api, preset),
    )
    seed = options.field("seed_field", default=preset.seed_field if preset else "seed")
    sends_schema = settings.response_format in (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL)
    account_headers = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
    # OpenAI's o-series rejects `parallel_tool_calls`, whatever the value; other servers may reject unknown parameters
    single_call = at_home and re.match(r"o\d", model) is None
    if preset is not None:
        single_call = preset.single_call
    return replace(
        settings,
        limit_field=options.text("max_tokens_field", default=limit if in_chat else "max_output_tokens"),
        seed_field=seed if in_chat else None,
        stream_options=options.flag("stream_options", default=preset is None or preset.stream_options),
        single_call=options.flag("single_call", default=single_call),
        has_template=preset is not None and preset.name == "llamacpp",
        headers=headers_of_environment("OPENAI_CUSTOM_HEADERS", account_headers),
        details={
            **({"strict": settings.strict} if sends_schema else {}),
            **({} if in_chat else {"api": api.value}),
            **settings.details,
            **({} if preset is None else {"preset": preset.version}),
        },
    )


def _formats(preset: ProviderPreset | None, api: Api) -> tuple[ResponseFormat, ...] | None:
    if preset is None:
        return None
    if api in preset.formats:
        return preset.formats[api]
    message = f"engine '{preset.name}' supports {' and '.join(preset.apis)}, not {api} ({preset.source})"
    raise EngineError(message, found=api.value, expected=preset.apis, where="api")


def _read_reasoning(options: Options, api: Api, preset: ProviderPreset | None) -> RequestedReasoning:
    """Read the reasoning options; Responses has its own parameter for the effort, and no parameter for a budget."""
    effort: str | bool = "reasoning.effort" if api is Api.RESPONSES else "reasoning_effort"
    budget: str | bool = False
    if api is Api.CHAT and preset is not None:
        effort, budget = preset.effort_field, preset.budget_field
    return read_reasoning(
        options,
        effort=options.field("effort_field", default=effort),
        budget=options.field("budget_field", default=budget),
    )


def azure_settings(config: EngineConfig) -> ProviderSettings:
    """Read the settings of an Azure resource; raise EngineError if a setting is invalid."""
    options = Options(config, AZURE_OPTIONS)
    address = _azure_address(config)
    model = find_model(config, url=address.url, default="")
    settings = read_openai_settings(config, options, address, model=model, limit="max_completion_tokens")
    version = options.text("api_version", default=from_environment(_VERSION))
    if version is None:
        ways = f"--jsbench-engine-option api_version=2025-04-01-preview, or set {_VERSION}"
        raise requirement_error(config.name, "the API's version", ways, expected="a version", where="api_version")
    return replace(
        settings,
        extra_query={"api-version": version, **settings.extra_query},
        details={**settings.details, "api_version": version},
        # A server at another address than Azure's may need neither a key nor a token.
        find_key=partial(find_key, variables=("AZURE_OPENAI_API_KEY", _TOKEN), optional=config.base_url is not None),
        authorization=_azure_authorization,
        place=_place_at_deployment,
        takes_developer=True,
    )


def _azure_address(config: EngineConfig) -> Address:
    address = find_address(config, _ENDPOINT)
    if address is None:
        ways = f"set {_ENDPOINT}, or --jsbench-base-url"
        expected = "https://RESOURCE.openai.azure.com"
        raise requirement_error(config.name, "the resource's address", ways, expected=expected, where=_ENDPOINT)
    url = address.url.rstrip("/")
    if url.endswith(f"{_AZURE_PATH}/v1"):
        message = f"{url} provides OpenAI's own API: use --jsbench-engine=openai --jsbench-base-url={url}"
        raise EngineError(message, found=url, expected="https://RESOURCE.openai.azure.com", option="base_url")
    return replace(address, url=url if url.endswith(_AZURE_PATH) else url + _AZURE_PATH)


def _azure_authorization(key: Key) -> dict[str, str]:
    return bearer(key) if key.variable == _TOKEN else {"api-key": key.value}


def _place_at_deployment(path: str, body: Mapping[str, Any], model: str) -> tuple[str, Mapping[str, Any]]:
    """
    Return the path, which contains the deployment, and the body; in Responses, only the body names
    the deployment.
    """
    return path if path == RESPONSES_PATH else f"/deployments/{quote(model, safe='')}{path}", body


class OpenAIEngine(ProviderEngine):
    """A ProviderEngine that can also use llama.cpp's additional endpoints."""

    def check_prompt(self, prompt: Prompt) -> Declined | None:
        """Return a Declined if the model's chat template omits a tool call of the prompt; else None."""
        if not self._settings.has_template or not any(message.tool_calls for message in prompt.messages):
            return None
        url = self.build_url("/apply-template")
        rendered = self.query_server(url, {"messages": prompt.to_messages()}).get("prompt")
        names = [call.name for turn in prompt.messages for call in turn.tool_calls]
        hidden = [name for name in names if isinstance(rendered, str) and name not in rendered]
        if not hidden:
            return None
        message = (
            f"the model's chat template omits the assistant's call of '{printable(hidden[0], 60)}'; nothing was sent; "
            "use a model with tools, or messages without tool_calls"
        )
        return Declined(reason=DeclineReason.UNSUPPORTED_MESSAGES, message=message)

    def build_url(self, path: str) -> str:
        """Return the URL of a server's endpoint that is not part of OpenAI's API."""
        return self._settings.address.url.rstrip("/").removesuffix("/v1") + path

    def query_server(self, url: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post to an endpoint, with a timeout of 10 s; return the JSON object in the response, or {} on failure."""
        try:
            with closing(self._client.post(url, body, deadline=Deadline(10.0))) as response:
                return dict(as_object(parse_json(response.read().decode())))
        except (CallError, EnclosedError, ValueError, RecursionError):
            return {}


FACTORY = ProviderBatchFactory(
    settings=openai_settings,
    options=OPTIONS,
    extra="openai",
    engine=OpenAIEngine,
    passes_on=PASSES_ON,
    default_model=DEFAULT_MODEL,
    batches="OpenAIBatches",
)
AZURE = ProviderFactory(
    settings=azure_settings, options=AZURE_OPTIONS, extra="openai", engine=OpenAIEngine, passes_on=PASSES_ON
)
