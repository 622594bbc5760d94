"""
The engines `anthropic-bedrock` and `anthropic-vertex`: Claude on Amazon Bedrock and Google Vertex AI.

Both use the Messages API with the cloud's credentials: the cloud's library signs each request or fetches a token.
These credentials are not in environment variables, so `CloudEngine` removes them from answers and errors.
"""

from __future__ import annotations

import logging
import re
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.core.secret_masking import Secrets, one_line
from pytest_jsbench.engines.base import Address
from pytest_jsbench.engines.engine_options import (
    Key,
    Options,
    find_address,
    find_key,
    from_environment,
    requirement_error,
)
from pytest_jsbench.engines.engine_secrets import mask_fault, mask_generation
from pytest_jsbench.engines.providers.anthropic_messages import PASSES_ON, VERSION, read_messages_settings
from pytest_jsbench.engines.providers.provider import PROVIDER_OPTIONS, ProviderEngine, ProviderFactory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_jsbench.core.generations import Completion, Declined, EngineInfo, Request
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.http.client import Client, Outgoing
    from pytest_jsbench.engines.providers.provider import Authorise, ProviderSettings

_BEARER = "AWS_BEARER_TOKEN_BEDROCK"
#: A token, a signature or a signature's scope, in a header with credentials.
_CREDENTIAL = re.compile(r"[^\s,=]{8,}")
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bedrock:
    """Amazon Bedrock, in one region."""

    region: str
    #: Name of a profile in the files in ~/.aws; None for the profile in AWS_PROFILE, or the default profile.
    profile: str | None

    def find_key(self, config: EngineConfig) -> Key:
        """Return the Bedrock key, or an empty key if there are AWS credentials; otherwise raise MissingRequirement."""
        key = find_key(config, (_BEARER,), optional=True)
        if key.value:
            if self.profile is None:
                return key
            message = f"engine '{config.name}': the option profile conflicts with a key ({_BEARER}); set only one"
            raise EngineError(message, where="profile")
        if _read_from_aws(self.profile, lambda session: session.get_credentials()) is not None:
            return key
        ways = f"set {_BEARER}, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or --jsbench-engine-option profile=NAME"
        raise requirement_error(config.name, "AWS credentials", ways)

    def place(self, _: str, body: Mapping[str, Any], model: str) -> tuple[str, Mapping[str, Any]]:
        """Return the path, which contains the model, and the body without the model."""
        rest = {"anthropic_version": VERSION, **body}
        model = quote(str(rest.pop("model", model)), safe=":")
        stream = rest.pop("stream", False)
        return f"/model/{model}/invoke{'-with-response-stream' if stream else ''}", rest

    def authoriser(self) -> Authorise:
        """Return a function that signs a request."""
        import botocore.eventstream  # noqa: F401  a stream is read with it: not within the time of the first call
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.session import Session

        # At level DEBUG, botocore logs what it signs, including session tokens, signatures and other credentials.
        logging.getLogger("botocore").setLevel(logging.INFO)
        session = Session(profile=self.profile)

        def sign(outgoing: Outgoing) -> Mapping[str, str]:
            credentials = session.get_credentials()
            if credentials is None:
                raise RuntimeError("the AWS credentials are no longer available")
            request = AWSRequest(outgoing.method, outgoing.url, dict(outgoing.headers), outgoing.body)
            SigV4Auth(credentials, "bedrock", self.region).add_auth(request)
            return dict(request.headers.items())

        return sign

    def fault_of(self, error: Exception) -> FaultKind | None:
        """
        Return the kind of fault if the error is about the credentials; otherwise None. `sign` raises RuntimeError if
        the credentials are no longer available.
        """
        from botocore.exceptions import BotoCoreError, HTTPClientError

        if isinstance(error, HTTPClientError):
            return FaultKind.CONNECTION
        return FaultKind.AUTH if isinstance(error, BotoCoreError | RuntimeError) else None


def bedrock_settings(config: EngineConfig) -> ProviderSettings:
    """Read the settings of Bedrock; raise EngineError if a setting is invalid."""
    options = Options(config, BEDROCK_OPTIONS)
    profile = options.text("profile", default=None)
    region = options.text("region", default=from_environment("AWS_REGION", "AWS_DEFAULT_REGION"))
    region = region or _read_from_aws(profile, lambda session: session.get_config_variable("region"))
    if region is None:
        raise requirement_error(config.name, "a region", "--jsbench-engine-option region=us-east-1, or set AWS_REGION")
    custom = find_address(config, "ANTHROPIC_BEDROCK_BASE_URL")
    address = custom or Address(url=f"https://bedrock-runtime.{region}.amazonaws.com")
    model = _require_model(config, "the id of a model or of an inference profile, us.anthropic.…")
    settings = read_messages_settings(config, options, address, model=model)
    return _with_cloud(settings, Bedrock(region=region, profile=profile), provider=None if custom else "aws")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """Google's Vertex AI, in one region."""

    region: str
    project: str

    def find_key(self, config: EngineConfig) -> Key:
        """
        Return the access token in the environment, or an empty key if there are Google credentials; otherwise raise
        MissingRequirement.
        """
        key = find_key(config, (), optional=True)
        if key.value:
            return key
        from google.auth.exceptions import GoogleAuthError

        try:
            _google_credentials()
        except GoogleAuthError as error:
            ways = (
                "gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS, or name the variable of "
                "an access token with --jsbench-api-key-env"
            )
            raise requirement_error(config.name, "Google Cloud credentials", ways) from error
        return key

    def place(self, _: str, body: Mapping[str, Any], model: str) -> tuple[str, Mapping[str, Any]]:
        """Return the path, which contains the project and the model, and the body without the model."""
        rest = {"anthropic_version": VERSION, **body}
        names = (self.project, self.region, str(rest.pop("model", model)))
        project, region, model = (quote(text, safe="") for text in names)
        verb = "streamRawPredict" if rest.get("stream") else "rawPredict"
        return f"/projects/{project}/locations/{region}/publishers/anthropic/models/{model}:{verb}", rest

    def authoriser(self) -> Authorise:
        """Return a function that adds a token to a request, and fetches a new token when the token has expired."""
        from google.auth.transport.urllib3 import Request
        from urllib3 import PoolManager

        credentials = _google_credentials()
        lock = threading.Lock()
        http = PoolManager()

        def add_token(_: Outgoing) -> Mapping[str, str]:
            with lock:
                if credentials.expired or not credentials.token:
                    credentials.refresh(Request(http))
            return {"authorization": f"Bearer {credentials.token}"}

        return add_token

    def fault_of(self, error: Exception) -> FaultKind | None:
        """Return the kind of fault if the error is about the credentials; otherwise None."""
        from google.auth.exceptions import GoogleAuthError, TransportError

        if isinstance(error, TransportError):
            return FaultKind.CONNECTION
        return FaultKind.AUTH if isinstance(error, GoogleAuthError) else None


def vertex_settings(config: EngineConfig) -> ProviderSettings:
    """Read the settings of Vertex AI; raise EngineError if a setting is invalid."""
    options = Options(config, VERTEX_OPTIONS)
    region = options.text("region", default=from_environment("CLOUD_ML_REGION"))
    if region is None:
        ways = "--jsbench-engine-option region=global, or set CLOUD_ML_REGION"
        raise requirement_error(config.name, "a region", ways)
    named = from_environment("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")
    project = options.text("project", default=named)
    if project is None:
        ways = "--jsbench-engine-option project=ID, or set ANTHROPIC_VERTEX_PROJECT_ID"
        raise requirement_error(config.name, "a Google Cloud project", ways)
    custom = find_address(config, "ANTHROPIC_VERTEX_BASE_URL")
    # These are the host names in Anthropic's SDK.
    if region == "global":
        host = "aiplatform"
    elif region in ("us", "eu"):
        host = f"aiplatform.{region}.rep"
    else:
        host = f"{region}-aiplatform"
    address = custom or Address(url=f"https://{host}.googleapis.com/v1")
    settings = read_messages_settings(config, options, address, model=_require_model(config, "claude-…"))
    return _with_cloud(settings, Vertex(region=region, project=project), provider=None if custom else "google")


class CloudEngine(ProviderEngine):
    """
    A ProviderEngine that authenticates with a cloud's credentials; each thread keeps the credentials of its last call,
    to remove them from the result.
    """

    def __init__(self, settings: ProviderSettings, info: EngineInfo, *, key: Key) -> None:
        super().__init__(settings, info, key=key)
        self._sent_secrets = threading.local()

    def new_client(self, key: Key) -> Client:
        """Return a client that stores the credentials of each request."""
        cloud = self._settings.cloud
        authorise = None if key.value or cloud is None else cloud.authoriser()

        def authorise_and_store(outgoing: Outgoing) -> Mapping[str, str]:
            headers = {**outgoing.headers, **(authorise(outgoing) if authorise else {})}
            lowered = {name.lower(): value for name, value in headers.items()}
            sent = (lowered.get(name, "") for name in ("authorization", "x-amz-security-token"))
            self._sent_secrets.texts = tuple(text for header in sent for text in (header, *_CREDENTIAL.findall(header)))
            return headers

        return self._settings.new_client(key, authorise_and_store)

    def generate(self, request: Request) -> Completion | Declined:
        """Make one call; signatures and tokens are removed from the result and from errors."""
        self._sent_secrets.texts = ()
        try:
            return mask_generation(super().generate(request), self._secrets())
        except CallError as error:
            raise mask_fault(error, self._secrets()) from None
        except Exception as error:
            cloud = self._settings.cloud
            kind = None if cloud is None else cloud.fault_of(error)
            if kind is None:
                raise
            raise CallError(kind, one_line(f"no credentials: {type(error).__name__}: {error}")) from None

    def _secrets(self) -> Secrets:
        return Secrets(self._sent_secrets.texts)


def _with_cloud(settings: ProviderSettings, cloud: Bedrock | Vertex, *, provider: str | None) -> ProviderSettings:
    return replace(settings, provider=provider, find_key=cloud.find_key, place=cloud.place, cloud=cloud)


def _require_model(config: EngineConfig, example: str) -> str:
    if config.model:
        return config.model
    message = f"--jsbench-model is required with engine '{config.name}'; expected {example}"
    raise EngineError(message, expected="the name of a model", option="model")


def _read_from_aws(profile: str | None, read: Callable[[Any], Any]) -> Any:
    """Read a setting from the machine's AWS configuration, such as the files in ~/.aws; None if not set."""
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError:
        return None
    with suppress(BotoCoreError):
        return read(Session(profile=profile)) or None
    return None


def _google_credentials() -> Any:
    import google.auth

    credentials, _ = google.auth.default(scopes=[_SCOPE])
    return credentials


BEDROCK_OPTIONS = PROVIDER_OPTIONS | {"region", "profile"}
VERTEX_OPTIONS = PROVIDER_OPTIONS | {"region", "project"}
BEDROCK = ProviderFactory(
    settings=bedrock_settings,
    options=BEDROCK_OPTIONS,
    extra="bedrock",
    engine=CloudEngine,
    packages={"botocore": "botocore"},
    passes_on=PASSES_ON,
)
VERTEX = ProviderFactory(
    settings=vertex_settings,
    options=VERTEX_OPTIONS,
    extra="vertex",
    engine=CloudEngine,
    packages={"google-auth": "google.auth"},
    passes_on=PASSES_ON,
)
