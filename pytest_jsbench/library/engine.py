"""An engine that is open: asked for single answers, or given to `evaluate`."""

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
from pytest_jsbench.library.evaluation_options import EvaluationOptions, named, said_to_programs
from pytest_jsbench.run.attempts import inexpressible
from pytest_jsbench.settings.options import BY_NAME, readers, with_defaults
from pytest_jsbench.settings.variants import Variant

#: an engine by its name, a factory of one, or a function that answers
EngineLike = str | EngineFactory | AnswerFunction


@arguments(
    readers("model", "base_url", "api_key_env", "response_format", "temperature", "max_tokens", "seed", "timeout"),
    adapt=BY_NAME["adapt"].of_value,
)
def open_engine(
    engine: EngineLike,
    *,
    model: str | None = None,
    base_url: str | None = None,
    api_key_env: str | None = None,
    response_format: ResponseFormat | str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    adapt: str | None = None,
    client: Any = None,
    **options: Any,
) -> OpenEngine:
    """
    Start an engine: one that `--jsbench-engine` knows by that name, or a function that takes a request.

    Each argument is that of the option with its name; all others are the engine's own. Close it, or use it in `with`. A
    `client` of a provider's SDK, such as `openai.OpenAI(…)`, says where the server is, and with which key and headers
    it is called.
    """
    with said_to_programs():
        factory, name = factory_of(engine)
        key = None
        if client is not None:
            base_url, key, of_client = _of_client(client, base_url)
            options = {**of_client, **options}
        values = {
            "model": model,
            "base_url": base_url,
            "api_key_env": api_key_env,
            "response_format": response_format,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "seed": seed,
            "timeout": timeout,
            "adapt": adapt,
        }
        own = {option: fspath(value) if isinstance(value, PathLike) else value for option, value in options.items()}
        variant = Variant.of("", {**with_defaults(values), "engine": name, "engine_option": own}, factory=factory)
        if api_key_env is None:
            variant = replace(variant, engine=replace(variant.engine, api_key=key))
        try:
            return OpenEngine(variant)
        except EngineError as error:
            if error.found not in options or error.where != name:
                raise
            arguments = inspect.signature(open_engine).parameters.keys() - {"engine", "options"}
            names = sorted(arguments.union(error.expected if isinstance(error.expected, list) else ()))
            is_of_run = error.found in EvaluationOptions.__annotations__
            offer = "say it to evaluate(…)" if is_of_run else nearest(str(error.found), names)
            message = f"open_engine has no argument '{error.found}', and engine '{name}' no such option: {offer}"
            raise EngineError(message, found=error.found, expected=names, where="open_engine") from None


#: of a call, and not of a client: these are ours, or name an SDK that is not used
_OF_CALL = re.compile(r"accept|content-type|user-agent|authorization|(x-)?api-key|x-stainless-.*", re.IGNORECASE)


def _of_client(client: Any, base_url: str | None) -> tuple[str, str | None, dict[str, Any]]:
    """Return the address, the key and the options that an SDK's client says by its public attributes."""
    try:
        address, key = str(client.base_url), client.api_key or getattr(client, "auth_token", None)
        headers, query = dict(client.default_headers), dict(client.default_query)
    except AttributeError as error:
        message = f"client is {kind_of(client)} without {error.name}: expected openai.OpenAI, or anthropic.Anthropic"
        raise EngineError(message, found=type(client).__name__, expected="openai.OpenAI", where="client") from None
    own = {name: value for name, value in headers.items() if isinstance(value, str) and not _OF_CALL.fullmatch(name)}
    options = {"extra_headers": own, "extra_query": {name: str(value) for name, value in query.items()}}
    return base_url or address, key, {name: value for name, value in options.items() if value}


def factory_of(engine: Any) -> tuple[EngineFactory, str]:
    """Return what makes the engine of a name, a factory or a function, and how it is called."""
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
    An engine that has been started, and what it has used so far.

    `open_engine` makes one. Any thread may call it; `evaluate` does so from as many as there are calls in flight. It
    ends with `close`, and the server of a local model with it.
    """

    def __init__(self, variant: Variant) -> None:
        #: one way to ask, which a run may ask in other words
        self.variant = variant
        #: the sampling, as far as is known how the engine samples
        self.params = variant.sampled
        self._adapter = adapter(variant.adapt)
        check(variant.factory, variant.engine)
        with ExitStack() as resources:
            config = resources.enter_context(prepare(variant.factory, variant.engine))
            #: what is called; it counts what it uses
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
        """The identity of who answers, as reports have it."""
        return self.engine.info

    @property
    def calls(self) -> int:
        """The number of calls that it has answered."""
        return self.engine.calls

    @property
    def usage(self) -> Usage:
        """The tokens of all its answers; None for a kind of which no answer said how many."""
        return self.engine.usage

    @arguments(
        request=one_of("a case that holds a schema, or a Request", Case, Request),
        prompt=one_of("a Prompt, or its text", Prompt, str),
    )
    def generate(self, request: Request | Case, prompt: Prompt | str | None = None) -> Completion | Declined:
        """
        Make one call, without retries; CallError where it fails.

        For a case the prompt is the one named `schema` unless another is given, and its schema is adapted.
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
            )
        elif prompt is not None:
            request = replace(request, prompt=_as_prompt(prompt))
        try:
            return self.engine.generate(request)
        except CallError as error:
            error.message = named(error.message)
            error.args = (error.message,)
            raise

    def adapt(self, schema: Schema) -> Adapted | Inexpressible:
        """The schema as it is sent, with each change, by the `adapt` that the engine was opened with."""
        return Adapted(schema=schema) if self._adapter is None else self._adapter(schema)

    def count_tokens(self, prompt: Prompt | str) -> PromptLength:
        """The tokens of a prompt: counted where the engine can, and else a low estimate."""
        prompt = _as_prompt(prompt)
        tokens = self.engine.count_tokens(prompt)
        return estimate(prompt) if tokens is None else PromptLength(tokens=tokens, exact=True)

    def tokenize(self, text: str) -> Sequence[int]:
        """The model's tokens of a text; EngineError where the engine cannot say."""
        tokens = self.engine.tokenize(text)
        if tokens is None:
            name = self.variant.engine.name
            message = f"engine '{name}' does not say its tokens: expected one whose model is here, as local"
            raise EngineError(message, found=name, expected="local")
        return tokens

    def close(self) -> None:
        """Close the connections, and end what was started."""
        self._closed = True
        self._resources.close()

    def require_open(self) -> None:
        """EngineError where it has been closed."""
        if self._closed:
            message = f"engine '{self.variant.engine.name}' is closed: call it inside its `with`, or open it again"
            raise EngineError(message, found=self.variant.engine.name, where="engine")


def _as_prompt(prompt: Prompt | str) -> Prompt:
    """Return the prompt, or that of a text by itself."""
    return prompt if isinstance(prompt, Prompt) else Prompt(messages=(Message(role="user", content=prompt),))
