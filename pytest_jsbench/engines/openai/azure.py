"""The `azure` engine: OpenAI's models of an Azure resource, each asked for by the name of its deployment."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.engines.openai import responses
from pytest_jsbench.engines.openai.engine import PASSES_ON, OpenAIEngine
from pytest_jsbench.engines.openai.settings import OPTIONS, OpenAISettings, read_openai_settings
from pytest_jsbench.engines.options import Options
from pytest_jsbench.engines.provider import ProviderFactory
from pytest_jsbench.engines.requirements import Key, find_address, find_key, find_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.engines.addresses import Address
    from pytest_jsbench.engines.base import EngineConfig

_ENDPOINT = "AZURE_OPENAI_ENDPOINT"
_VERSION = "OPENAI_API_VERSION"
#: a token of Entra ID, in the place of a key
_TOKEN = "AZURE_OPENAI_AD_TOKEN"  # noqa: S105  the name of a variable
#: below the endpoint
_PATH = "/openai"


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureSettings(OpenAISettings):
    """How the deployments of one resource are called."""

    api_version: str

    @property
    def takes_developer(self) -> bool:
        """As OpenAI's own do."""
        return True

    @classmethod
    def from_config(cls, config: EngineConfig) -> AzureSettings:
        """Read what a user said; EngineError for what cannot be done."""
        options = Options(config, AZURE_OPTIONS)
        address = _address(config)
        model = find_model(config, url=address.url, default="")
        read = read_openai_settings(config, options, address, model=model, limit="max_completion_tokens")
        version = options.text("api_version", default=os.environ.get(_VERSION, "").strip() or _UNSAID)
        if version == _UNSAID:
            message = (
                f"engine '{config.name}' needs the API's version: --jsbench-engine-option"
                f" api_version=2025-04-01-preview, or set {_VERSION}"
            )
            raise MissingRequirement(message, expected="a version", where="api_version")
        more = {"extras": {**read["extras"], "api_version": version}, "api_version": version}
        return cls(**{**read, **more, "extra_query": {"api-version": version, **read["extra_query"]}})

    def find_key(self, config: EngineConfig) -> Key:
        """The resource's key, or a token of Entra ID; another server may want neither."""
        return find_key(config, ("AZURE_OPENAI_API_KEY", _TOKEN), optional=config.base_url is not None)

    def authorization(self, key: Key) -> dict[str, str]:
        """Return the resource's key, or the token, in the header of each."""
        return {"authorization": f"Bearer {key.value}"} if key.variable == _TOKEN else {"api-key": key.value}

    def place(self, path: str, body: Mapping[str, Any], model: str) -> tuple[str, Mapping[str, Any]]:
        """Return the path of the deployment, and the body; Responses names it in its body alone."""
        return path if path == responses.PATH else f"/deployments/{quote(model, safe='')}{path}", body


def _address(config: EngineConfig) -> Address:
    address = find_address(config, _ENDPOINT)
    if address is None:
        message = f"engine '{config.name}' needs the resource's address: set {_ENDPOINT}, or --jsbench-base-url"
        raise MissingRequirement(message, expected="https://RESOURCE.openai.azure.com", where=_ENDPOINT)
    url = address.url.rstrip("/")
    if url.endswith(f"{_PATH}/v1"):
        message = f"{url} speaks OpenAI's own API, without versions: --jsbench-engine=openai --jsbench-base-url={url}"
        raise EngineError(message, found=url, expected="https://RESOURCE.openai.azure.com", where="--jsbench-base-url")
    return replace(address, url=url if url.endswith(_PATH) else url + _PATH)


_UNSAID = "-"
AZURE_OPTIONS = OPTIONS | {"api_version"}
FACTORY = ProviderFactory(AzureSettings, AZURE_OPTIONS, extra="openai", engine=OpenAIEngine, passes_on=PASSES_ON)
