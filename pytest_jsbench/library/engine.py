"""Provide engines in the Python API: open one to call it directly, or pass it to `evaluate`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike, fspath
from typing import Any, Self

from pytest_jsbench.adaptation import Adapted, Inexpressible
from pytest_jsbench.adaptation.adapter import adapter
from pytest_jsbench.core.arguments import arguments, one_of
from pytest_jsbench.core.cases import Case, Prompt, PromptLength, Schema, estimate, prompt_of
from pytest_jsbench.core.errors import EngineError, nearest
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    EngineInfo,
    Request,
    ResponseFormat,
    Usage,
)
from pytest_jsbench.core.json_values import copy_of
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.text import kind_of
from pytest_jsbench.engines.base import EngineFactory
from pytest_jsbench.engines.engine_secrets import build, check, prepare
from pytest_jsbench.engines.registry import AnswerFunction, FunctionFactory, as_factory, find
from pytest_jsbench.library.evaluation_options import EvaluationOptions, argument_names_in_errors, with_argument_names
from pytest_jsbench.run.attempts import inexpressible
from pytest_jsbench.run.variants import Variant
from pytest_jsbench.settings.call_options import Ask
from pytest_jsbench.settings.options import RecordingOptions, readers

#: Name of an engine, a factory, or a function that answers requests.
EngineLike = str | EngineFactory | AnswerFunction


@arguments(
    readers(
        *("model", "base_url", "api_key_env", "response_format"),
        *("tool_choice", "temperature", "max_tokens", "seed", "timeout"),
    ),
    adapt=Ask.adapt.of_value,
)
def open_engine(
    engine: EngineLike,
    *,
    model: str | None = None,
    base_url: str | None = None,
    api_key_env: str | None = None,
    response_format: ResponseFormat | str | None = None,
    tool_choice: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    adapt: str | None = None,
    client: Any = None,
    **options: Any,
) -> OpenEngine:
    """
    Start an engine, given as a name (as for `--jsbench-engine`) or as a function that answers a request.

    The named arguments correspond to the options of the same names; other arguments are options of the engine. Close
    the engine, or use it in `with`. The address, the key and the headers can come from `client`, which is a client of a
    provider's SDK such as `openai.OpenAI(…)`.
    """
    with argument_names_in_errors():
        factory, name = factory_of(engine)
        key = None
        if client is not None:
            base_url, key, client_options = _read_client(client, base_url)
            options = {**client_options, **options}
        values = {
            "model": model,
            "base_url": base_url,
            "api_key_env": api_key_env,
            "response_format": response_format,
            "tool_choice": tool_choice,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "seed": seed,
            "timeout": timeout,
            "adapt": adapt,
        }
        own = {option: fspath(value) if isinstance(value, PathLike) else value for option, value in options.items()}
        ask = Ask({**values, "engine": name, "engine_option": list(own.items())})
        variant = Variant.of("", ask, RecordingOptions(), factory=factory)
        if api_key_env is None:
            variant = replace(variant, engine=replace(variant.engine, api_key=key))
        try:
            return OpenEngine(variant)
        except EngineError as error:
            if error.found not in options or error.where != name:
                raise
            arguments = inspect.signature(open_engine).parameters.keys() - {"engine", "options"}
            names = sorted(arguments.union(error.expected if isinstance(error.expected, list) else ()))
            is_evaluate_option = error.found in EvaluationOptions.__annotations__
            offer = "pass it to evaluate(…)" if is_evaluate_option else nearest(str(error.found), names)
            message = f"open_engine has no argument '{error.found}', and engine '{name}' has no such option: {offer}"
            raise EngineError(message, found=error.found, expected=names, where="open_engine") from None


#: Headers that are not copied from an SDK's client, since each call sets them itself, or since they identify the SDK.
_CALL_HEADERS = re.compile(r"accept|content-type|user-agent|authorization|(x-)?api-key|x-stainless-.*", re.IGNORECASE)


def _read_client(client: Any, base_url: str | None) -> tuple[str, str | None, dict[str, Any]]:
    """Return the address, the key and the options from the public attributes of an SDK's client."""
    try:
        address = str(client.base_url)
        key = client.api_key or getattr(client, "auth_token", None)
        headers = dict(client.default_headers)
        query = dict(client.default_query)
    except AttributeError as error:
        found = f"{kind_of(client)} and has no attribute '{error.name}'"
        message = f"client is {found}; expected openai.OpenAI or anthropic.Anthropic"
        raise EngineError(message, found=type(client).__name__, expected="openai.OpenAI", where="client") from None
    own = {
        name: value for name, value in headers.items() if isinstance(value, str) and not _CALL_HEADERS.fullmatch(name)
    }
    options = {"extra_headers": own, "extra_query": {name: str(value) for name, value in query.items()}}
    return base_url or address, key, {name: value for name, value in options.items() if value}


def factory_of(engine: Any) -> tuple[EngineFactory, str]:
    """Return the factory for an engine's name, factory or function, and the name of the engine."""
    if isinstance(engine, str):
        return find(engine), engine
    factory = as_factory(engine)
    if factory is None and not callable(engine):
        message = f"engine is {kind_of(engine)}; expected its name, a factory, or a function of a request"
        raise EngineError(message, found=type(engine).__name__, where="engine")
    factory = factory or FunctionFactory(engine)
    return factory, getattr(factory, "name", type(factory).__name__)


class OpenEngine:
    """
    A started engine, with counts of its calls and tokens.

    Use `open_engine` to start an engine. Any thread may call it; `evaluate` uses a thread for each call in flight.
    `close` closes the engine, and stops the server of a local model.
    """

    def __init__(self, variant: Variant) -> None:
        #: Variant with the engine's options. A run with this engine may use another prompt than the variant.
        self.variant = variant
        #: Sampling parameters of calls, including those that the engine is known to add.
        self.params = variant.sampled
        self._adapter = adapter(variant.adapt)
        check(variant.factory, variant.engine)
        with ExitStack() as resources:
            config = resources.enter_context(prepare(variant.factory, variant.engine))
            #: The engine that is called, with a count of its usage.
            self.engine = build(variant.factory, config)
            resources.callback(self.engine.close)
            self._resources = resources.pop_all()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<engine {self.info.engine}, model {self.info.model} ({self.info.response_format})>"

    @property
    def info(self) -> EngineInfo:
        """Identity of the engine in reports: names, response format, streaming and details."""
        return self.engine.info

    @property
    def calls(self) -> int:
        """Number of calls that the engine has answered."""
        return self.engine.calls

    @property
    def usage(self) -> Usage:
        """Number of tokens of each kind in all answers; None for a kind that no answer reported."""
        return self.engine.usage

    @arguments(
        request=one_of("a case with a schema, or a Request", Case, Request),
        prompt=one_of("a Prompt, or its text", Prompt, str),
    )
    def generate(self, request: Request | Case, prompt: Prompt | str | None = None) -> Completion | Declined:
        """
        Make one call, without retries; raise CallError if it fails.

        For a case, the default prompt is the built-in prompt `schema`, and the case's schema is adapted.
        """
        self.require_open()
        if isinstance(request, Case):
            adapted = self.adapt(request.schema)
            if isinstance(adapted, Inexpressible):
                return inexpressible(adapted)
            request = Request(
                key=request.key,
                repeat=0,
                prompt=prompt_of(request, self.variant.template.render) if prompt is None else _as_prompt(prompt),
                schema=copy_of(adapted.schema),
                params=self.params,
                offer=request.offer,
            )
        elif prompt is not None:
            request = replace(request, prompt=_as_prompt(prompt))
        try:
            return self.engine.generate(request)
        except CallError as error:
            error.message = with_argument_names(error.message)
            error.args = (error.message,)
            raise

    def adapt(self, schema: Schema) -> Adapted | Inexpressible:
        """Return the schema as it would be sent, with the changes that the engine's `adapt` option makes."""
        return Adapted(schema=schema) if self._adapter is None else self._adapter(schema)

    def count_tokens(self, prompt: Prompt | str) -> PromptLength:
        """Return the number of tokens in a prompt: exact if the engine can count tokens, otherwise a low estimate."""
        prompt = _as_prompt(prompt)
        tokens = self.engine.count_tokens(prompt)
        return estimate(prompt) if tokens is None else PromptLength(tokens=tokens, exact=True)

    def tokenize(self, text: str) -> Sequence[int]:
        """Return the model's token ids for a text; raise EngineError if the engine cannot tokenize."""
        tokens = self.engine.tokenize(text)
        if tokens is None:
            name = self.variant.engine.name
            message = f"engine '{name}' cannot tokenize; expected an engine with a model on this machine, such as local"
            raise EngineError(message, found=name, expected="local")
        return tokens

    def close(self) -> None:
        """Close the connections, and end the processes that were started."""
        self._closed = True
        self._resources.close()

    def require_open(self) -> None:
        """Raise EngineError if the engine is closed."""
        if self._closed:
            message = f"engine '{self.variant.engine.name}' is closed: call it inside its `with`, or open it again"
            raise EngineError(message, found=self.variant.engine.name, where="engine")


def _as_prompt(prompt: Prompt | str) -> Prompt:
    """Return the prompt unchanged; return a text as a prompt with one message."""
    return prompt if isinstance(prompt, Prompt) else Prompt(messages=(Message(role="user", content=prompt),))
