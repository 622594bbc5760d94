"""
The `litellm` engine: whatever the package litellm can call, and no other engine speaks.

litellm translates one request into the words of many providers: it rewrites a schema, makes a tool of it, or leaves it
out. Each record therefore says what was really sent, as litellm tells it before it sends it. Of a stream that breaks
off, litellm makes a complete answer; so answers come in one piece.
"""

from __future__ import annotations

import json
import logging
import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import CallError, EngineInfo, FaultKind, ResponseFormat, Sent
from pytest_jsbench.core.secrets import one_line
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.base import UnsharedFactory
from pytest_jsbench.engines.coroutines import AsyncEngine
from pytest_jsbench.engines.http.calls import reading
from pytest_jsbench.engines.http.faults import ProviderError, classify_error, connection_fault
from pytest_jsbench.engines.openai import chat
from pytest_jsbench.engines.options import Options, choose_format, tools_beside
from pytest_jsbench.engines.requirements import NO_KEY, Key, find_address, find_key, package_version, require_package
from pytest_jsbench.engines.secrets import public_extras

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Completion, Declined, GenerationParams, Request
    from pytest_jsbench.engines.base import EngineConfig

OPTIONS = frozenset({"strict", "schema_name", "extra_body", "extra_headers"})
FORMATS = (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL, ResponseFormat.JSON_OBJECT, ResponseFormat.TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteLLMSettings:
    """What litellm is asked with."""

    #: with its provider: `cohere_chat/command-a`
    model: str
    base_url: str | None
    response_format: ResponseFormat
    strict: bool
    schema_name: str
    #: further arguments of `litellm.completion`
    extra: Mapping[str, Any]
    headers: Mapping[str, str]

    @classmethod
    def from_config(cls, config: EngineConfig) -> LiteLLMSettings:
        """Read what a user said; EngineError for what cannot be done."""
        options = Options(config, OPTIONS)
        if not config.model:
            message = "--jsbench-model is needed with engine 'litellm': PROVIDER/MODEL, as litellm names them"
            raise EngineError(message, expected="PROVIDER/MODEL", where="--jsbench-model")
        find_address(config, None)  # an error says what is wrong with it
        return cls(
            model=config.model,
            base_url=config.base_url,
            response_format=choose_format(config, FORMATS),
            strict=options.flag("strict", default=True),
            schema_name=options.identifier("schema_name", default="output"),
            extra=options.mapping("extra_body"),
            headers=options.texts("extra_headers"),
        )

    def to_arguments(self, request: Request, key: Key) -> dict[str, Any]:
        """What `litellm.completion` is called with; what nobody asked for is left out."""
        params = request.params
        said = {
            "api_base": self.base_url,
            "api_key": None if key.value == NO_KEY else key.value,
            "temperature": params.temperature,
            "seed": params.seed,
            "extra_headers": dict(self.headers) or None,
        }
        return {
            "model": self.model,
            "messages": request.prompt.to_messages(),
            "max_tokens": params.max_tokens,
            "timeout": params.timeout,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,
            **{name: value for name, value in said.items() if value is not None},
            **chat.format_fields(self, request.schema),
            **self.extra,
        }


class LiteLLMEngine:
    """Calls litellm's coroutines on the one event loop of its AsyncEngine, which ends a call at its deadline."""

    def __init__(self, settings: LiteLLMSettings, info: EngineInfo, *, key: Key) -> None:
        self._settings = settings
        self._info = info
        self._key = key
        self._litellm = _imported()
        #: of each call that is not over yet, by its name: the body that litellm sends
        self._bodies: dict[str, object] = {}
        self._listener = _listener(self._bodies)
        self._litellm.input_callback.append(self._listener)

    @property
    def info(self) -> EngineInfo:
        """Who it is, for reports."""
        return self._info

    async def generate(self, request: Request) -> Completion | Declined:
        """One call; what litellm raises becomes a CallError or a Declined."""
        watch = Stopwatch()
        name = uuid4().hex
        self._bodies[name] = None
        try:
            answer = await self._litellm.acompletion(
                **self._settings.to_arguments(request, self._key), litellm_call_id=name
            )
        except Exception as error:  # noqa: BLE001  litellm lets errors of many libraries through
            outcome = self._explained(error, self._sent(name, request.schema))
            if isinstance(outcome, CallError):
                raise outcome from None  # its own words may quote the key
            return outcome
        else:
            with reading():
                return chat.read_whole(answer.model_dump(), watch).to_generation(self._sent(name, request.schema))
        finally:
            del self._bodies[name]

    def close(self) -> None:
        """Listen no longer; litellm keeps its clients for the whole process."""
        self._litellm.input_callback.remove(self._listener)

    def _sent(self, name: str, schema: Schema) -> Sent:
        """What was sent as litellm told it; where it did not, what it was asked to send."""
        body, asked = self._bodies[name], self._settings.response_format
        tools = tools_beside(asked, self._settings.schema_name, self._settings.extra)
        if body is None:
            return Sent(response_format=asked, tools=tools)
        sent = replace(read_sent(body, schema), tools=tools)
        held = {ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL}
        return replace(sent, left_out=asked in held and sent.response_format not in held)

    def _explained(self, error: Exception, sent: Sent) -> Completion | Declined | CallError:
        known, secret = self._litellm.exceptions, self._key.value
        if isinstance(error, known.Timeout):
            return CallError(FaultKind.TIMEOUT, one_line(str(error), secret=secret))
        unread = known.APIConnectionError | known.APIResponseValidationError | known.InternalServerError
        status = getattr(error, "status_code", None)
        if (isinstance(error, unread) or status is None) and (broken := self._unanswered(error)) is not None:
            return broken
        refused = {"type": "content_policy_violation"} if isinstance(error, known.ContentPolicyViolationError) else {}
        body = getattr(error, "body", None)
        said = body if isinstance(body, dict) else {"message": str(error)}
        headers = getattr(error, "litellm_response_headers", None) or {}
        parsed = ProviderError.parse({**said, **refused}, status=status, headers=dict(headers))
        return classify_error(parsed, sent=sent, secret=secret, route=self._settings.model)

    def _unanswered(self, error: Exception) -> CallError | None:
        """A connection that broke, or an answer that could not be read: litellm says 500 of both; None for neither."""
        from httpx import TransportError

        causes: list[BaseException] = [error]
        while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
            causes.append(cause)
        if any(isinstance(cause, TransportError | OSError) for cause in causes) or _BROKEN.search(str(error)):
            return connection_fault(error, address=self._settings.model, secret=self._key.value)
        if any(isinstance(cause, ValueError | RecursionError) for cause in causes) or _UNREAD.search(str(error)):
            return CallError(FaultKind.BAD_RESPONSE, one_line(str(error), secret=self._key.value))
        return None


#: litellm's words for a connection that broke, where it has thrown the cause away, and for a 200 that is no answer
_BROKEN = re.compile(r"Connection error")
_UNREAD = re.compile(r"Empty or invalid response|Invalid response object|provider returned 'choices'")
#: where a schema stands in what providers are sent, of an answer and of a tool
_PLACES = frozenset(
    {"schema", "format", "responseSchema", "response_schema", "responseJsonSchema", "response_json_schema"}
)
_PLACES_OF_TOOLS = frozenset({"input_schema", "json", "parameters", "parametersJsonSchema"})
_TOOLS = frozenset({"tools", "toolConfig", "functions"})
#: the conversation, which is no place for a schema
_SAID = frozenset({"messages", "contents", "system", "systemInstruction", "prompt", "input", "inputs"})


def read_sent(body: object, schema: Schema) -> Sent:
    """How the schema reached the provider, by the body of the request; `text` where it did not."""
    whole = json.loads(body) if isinstance(body, str | bytes) else body
    found = next(_schemas(whole, in_tool=False), None)
    if found is not None:
        in_tool, sent = found
        response_format = ResponseFormat.TOOL if in_tool else ResponseFormat.JSON_SCHEMA
        return Sent(response_format=response_format, schema=None if sent == schema else sent)
    plain = any(word in json.dumps(whole, default=str) for word in ('"json_object"', '"application/json"'))
    return Sent(response_format=ResponseFormat.JSON_OBJECT if plain else ResponseFormat.TEXT)


def _schemas(value: object, *, in_tool: bool) -> Iterator[tuple[bool, Schema]]:
    """Each schema, and whether it is a tool's."""
    for each in value if isinstance(value, list) else ():
        yield from _schemas(each, in_tool=in_tool)
    for name, each in value.items() if isinstance(value, dict) else ():
        within = in_tool or name in _TOOLS
        if name == "schema" and isinstance(each, str):  # Bedrock's Converse has it as a text
            yield within, json.loads(each)
        elif name in (_PLACES_OF_TOOLS if within else _PLACES) and not (isinstance(each, dict) and "schema" in each):
            yield within, each
        elif name not in _SAID:
            yield from _schemas(each, in_tool=within)


def _listener(bodies: dict[str, object]) -> Any:
    """A logger of litellm's, which notes the body of each call that is named there, before it is sent."""
    from litellm.integrations.custom_logger import CustomLogger

    class Listener(CustomLogger):  # type: ignore[misc]
        def log_pre_api_call(self, model: str, messages: Any, kwargs: Mapping[str, Any]) -> None:  # noqa: ARG002
            if (name := kwargs.get("litellm_call_id")) in bodies:
                bodies[name] = kwargs.get("additional_args", {}).get("complete_input_dict")

    return Listener()


def _imported() -> Any:
    """
    The package, as quiet as it can be made.

    Without these variables it fetches its price list and more from GitHub, and puts the folder's `.env` into the
    environment.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    # it has handlers of its own, which write to stderr
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm


_QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}


class LiteLLMFactory(UnsharedFactory):
    """Builds the `litellm` engine."""

    options = OPTIONS

    def check(self, config: EngineConfig) -> None:
        """See that the package is there; keys are litellm's to find, in each provider's own variables."""
        require_package(config.name, "litellm", extra="litellm", minimum=(1, 106))
        LiteLLMSettings.from_config(config)
        find_key(config, (), optional=True)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who the engine will be."""
        settings = LiteLLMSettings.from_config(config)
        return EngineInfo(
            engine=config.name,
            model=settings.model,
            response_format=settings.response_format,
            streaming=False,
            details={"litellm": package_version("litellm"), "strict": settings.strict, **public_extras(config)},
        )

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """As is asked for: what a provider does not take, litellm refuses."""
        LiteLLMSettings.from_config(config)
        return params

    def build(self, config: EngineConfig) -> AsyncEngine:
        """The engine, after seconds of importing."""
        self.check(config)
        settings = LiteLLMSettings.from_config(config)
        return AsyncEngine(LiteLLMEngine(settings, self.describe(config), key=find_key(config, (), optional=True)))


FACTORY = LiteLLMFactory()
