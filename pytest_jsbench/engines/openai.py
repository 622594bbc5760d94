"""The `openai` engine: Chat Completions, of OpenAI and of every server that speaks the same."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_jsbench.engines import openai_answers
from pytest_jsbench.engines.calls import settle
from pytest_jsbench.engines.deadlines import Deadline
from pytest_jsbench.engines.faults import connection_fault, decide, foreign_fault
from pytest_jsbench.engines.options import Options, choose_format
from pytest_jsbench.engines.provider_errors import EnclosedError, ProviderError
from pytest_jsbench.engines.requirements import (
    find_key,
    find_model,
    find_url,
    package_version,
    require_package,
)
from pytest_jsbench.generations import CallError, Declined, EngineInfo, ResponseFormat, Sent
from pytest_jsbench.timing import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from pytest_jsbench.cases import Schema
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.generations import Completion, Request

#: small, with structured outputs, and without a shutdown date in the list of models of openai 3.52
DEFAULT_MODEL = "gpt-5.4-mini"
HOME = "https://api.openai.com/v1"
FORMATS = (
    ResponseFormat.JSON_SCHEMA,
    ResponseFormat.JSON_OBJECT,
    ResponseFormat.TOOL,
    ResponseFormat.TEXT,
)
OPTIONS = frozenset({"stream", "strict", "schema_name", "max_tokens_field", "extra_body", "extra_headers"})

#: OpenAI's own, and every other server's
_TOKENS_FIELDS = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """How one chat server is spoken to."""

    model: str
    base_url: str
    response_format: ResponseFormat
    streaming: bool
    #: whether the server is told to hold to the schema, or only shown it
    strict: bool
    #: the schema's, or the tool's, name; a constant, because a model may read it as a hint
    schema_name: str
    #: `max_completion_tokens` at OpenAI, `max_tokens` everywhere else
    max_tokens_field: str
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: whether the environment's proxies are used
    proxies: bool = True

    @classmethod
    def from_config(cls, config: EngineConfig) -> ChatSettings:
        """Read what a user said; EngineError for what cannot be done."""
        options = Options(config, OPTIONS)
        url = find_url(config, "OPENAI_BASE_URL")
        at_home = url is None or is_openai(url)
        tokens_field = _TOKENS_FIELDS[0] if at_home else _TOKENS_FIELDS[1]
        return cls(
            model=find_model(config, url=None if at_home else url, default=DEFAULT_MODEL),
            base_url=url or HOME,
            response_format=choose_format(config, FORMATS),
            streaming=options.flag("stream", default=True),
            strict=options.flag("strict", default=True),
            schema_name=options.identifier("schema_name", default="output"),
            max_tokens_field=options.text("max_tokens_field", default=tokens_field),
            extra_body=options.mapping("extra_body"),
            extra_headers=options.headers("extra_headers"),
        )

    def to_arguments(self, request: Request) -> dict[str, Any]:
        """The arguments of the SDK's `create`; what nobody asked for is not sent."""
        params = request.params
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": request.prompt.to_messages(),
            **self._format(request.schema),
        }
        body = dict(self.extra_body)
        # the SDK takes no name that OpenAI does not have
        limit = arguments if self.max_tokens_field in _TOKENS_FIELDS else body
        limit.setdefault(self.max_tokens_field, params.max_tokens)
        if params.temperature is not None:
            arguments["temperature"] = params.temperature
        if params.seed is not None:
            arguments["seed"] = params.seed
        if self.streaming:
            arguments |= {"stream": True, "stream_options": {"include_usage": True}}
        if body:
            arguments["extra_body"] = body
        if self.extra_headers:
            arguments["extra_headers"] = dict(self.extra_headers)
        return arguments

    def _format(self, schema: Schema) -> dict[str, Any]:
        match self.response_format:
            case ResponseFormat.TEXT:
                return {}
            case ResponseFormat.JSON_OBJECT:
                return {"response_format": {"type": "json_object"}}
            case ResponseFormat.JSON_SCHEMA:
                shape = {"name": self.schema_name, "schema": schema, "strict": self.strict}
                return {"response_format": {"type": "json_schema", "json_schema": shape}}
            case ResponseFormat.TOOL:
                function = {"name": self.schema_name, "parameters": schema, "strict": self.strict}
                choice = {"type": "function", "function": {"name": self.schema_name}}
                return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}


def is_openai(url: str) -> bool:
    """Whether the address is OpenAI's own, in any region."""
    host = urlsplit(url).hostname or ""
    return host == "api.openai.com" or host.endswith(".api.openai.com")


class ChatEngine:
    """Calls one chat server, with one client for its whole life."""

    def __init__(self, settings: ChatSettings, info: EngineInfo, *, key: str) -> None:
        import openai

        self._settings = settings
        self._info = info
        self._key = key
        self._client = openai.OpenAI(
            api_key=key,
            base_url=settings.base_url,
            max_retries=0,
            http_client=None if settings.proxies else openai.DefaultHttpxClient(trust_env=False),
        )

    @property
    def info(self) -> EngineInfo:
        """Who it is, for reports."""
        return self._info

    def generate(self, request: Request) -> Completion | Declined:
        """One call; what the SDK raises becomes a CallError or a Declined."""
        import openai

        sent = Sent(response_format=self._settings.response_format)
        deadline = Deadline(request.params.timeout)
        return settle(
            lambda: self._call(request, sent, deadline),
            lambda error: self._explain(error, sent),
            sdk_error=openai.OpenAIError,
            deadline=deadline,
        )

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def _call(self, request: Request, sent: Sent, deadline: Deadline) -> Completion | Declined:
        arguments = self._settings.to_arguments(request)
        create = self._client.chat.completions.with_streaming_response.create
        watch = Stopwatch()
        with (
            create(**arguments, timeout=deadline.to_timeout()) as response,
            deadline.cutting(response.http_response),
        ):
            answer = openai_answers.read(response, watch, streaming=self._settings.streaming)
            return answer.to_generation(sent)

    def _explain(self, error: Exception, sent: Sent) -> Declined | CallError:
        import httpx2
        import openai

        secret = self._key
        if isinstance(error, openai.APIStatusError):
            said = ProviderError.parse(error.body, status=error.status_code, headers=dict(error.response.headers))
            return decide(said, sent=sent, secret=secret)
        if isinstance(error, openai.APIConnectionError | httpx2.HTTPError):
            return connection_fault(error, address=self._settings.base_url, secret=secret)
        if isinstance(error, openai.APIError | EnclosedError):
            said = ProviderError.parse(error.body or str(error), status=200)
            return decide(said, sent=sent, secret=secret)
        return foreign_fault(error, secret=secret)


class OpenAIFactory:
    """Builds the `openai` engine."""

    concurrency = 16
    shared = False
    max_tokens = 2048

    def check(self, config: EngineConfig) -> None:
        """See that the package and the key are there, and that every option is known."""
        require_package(config.name, "openai", extra="openai", minimum=(3,))
        _key(config, ChatSettings.from_config(config))

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who the engine will be."""
        return describe(ChatSettings.from_config(config), engine=config.name)

    def prepare(self, config: EngineConfig) -> AbstractContextManager[EngineConfig]:
        """Nothing is shared."""
        return nullcontext(config)

    def build(self, config: EngineConfig) -> ChatEngine:
        """The engine, with its client."""
        self.check(config)
        settings = ChatSettings.from_config(config)
        return ChatEngine(settings, describe(settings, engine=config.name), key=_key(config, settings))


def _key(config: EngineConfig, settings: ChatSettings) -> str:
    return find_key(config, ("OPENAI_API_KEY",), optional=not is_openai(settings.base_url)).value


def describe(settings: ChatSettings, *, engine: str) -> EngineInfo:
    """Who an engine with these settings is."""
    details: dict[str, Any] = {"openai": package_version("openai")}
    if settings.response_format in (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL):
        details["strict"] = settings.strict
    if settings.extra_body:
        details["extra_body"] = dict(settings.extra_body)
    return EngineInfo(
        engine=engine,
        model=settings.model,
        response_format=settings.response_format,
        streaming=settings.streaming,
        details=details,
    )


FACTORY = OpenAIFactory()
