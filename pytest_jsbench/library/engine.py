"""An engine that is open: asked for single answers, or given to `evaluate`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike, fspath
from typing import Any, Self

from pytest_jsbench.adaptation import Adapted, Inexpressible
from pytest_jsbench.adaptation.adapter import adapter
from pytest_jsbench.core.arguments import arguments, one_of, text
from pytest_jsbench.core.cases import Case, Schema
from pytest_jsbench.core.errors import EngineError, nearest
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    EngineInfo,
    GenerationParams,
    Request,
    ResponseFormat,
    Usage,
)
from pytest_jsbench.core.json_values import copy_of
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.prompts import Prompt, PromptLength, estimate, prompt_of
from pytest_jsbench.engines.base import EngineConfig, EngineFactory
from pytest_jsbench.engines.functions import AnswerFunction, FunctionFactory
from pytest_jsbench.engines.presets import adaptation
from pytest_jsbench.engines.registry import as_factory, find
from pytest_jsbench.engines.secrets import build, check
from pytest_jsbench.library.options import EvaluationOptions, named, said_to_programs
from pytest_jsbench.prompts import template_of
from pytest_jsbench.run.attempts import inexpressible
from pytest_jsbench.settings.options import readers
from pytest_jsbench.settings.variant import Variant

#: an engine by its name, a factory of one, or a function that answers
EngineLike = str | EngineFactory | AnswerFunction


def _model(value: object) -> str:
    return text(fspath(value) if isinstance(value, PathLike) else value)


@arguments(
    readers("base_url", "api_key_env", "response_format", "temperature", "max_tokens", "seed", "timeout", "adapt"),
    model=_model,
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
    timeout: float = 120.0,
    adapt: str = "verbatim",
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
        factory = _factory(engine)
        address, key, of_client = (base_url, None, {}) if client is None else _of_client(client, base_url)
        options = {**of_client, **options}
        config = EngineConfig(
            name=engine if isinstance(engine, str) else getattr(factory, "name", type(factory).__name__),
            model=model,
            base_url=address,
            api_key_env=api_key_env,
            api_key=None if api_key_env else key,
            response_format=None if response_format is None else ResponseFormat(response_format),
            options={name: fspath(said) if isinstance(said, PathLike) else said for name, said in options.items()},
        )
        mode, _, subset = adapt.partition(":")
        sampling = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        variant = Variant(
            factory=factory,
            engine=config,
            said={**config.said(), **{name: value for name, value in sampling.items() if value is not None}},
            template=template_of("schema", shots=0),
            params=GenerationParams(
                max_tokens=factory.max_tokens if max_tokens is None else max_tokens,
                temperature=temperature,
                seed=seed,
                timeout=timeout,
            ),
            adapt=adaptation(mode, subset, engine=config.name),
            concurrency=factory.concurrency,
        )
        try:
            return OpenEngine(variant)
        except EngineError as error:
            if error.found not in options or error.where != config.name:
                raise
            own = inspect.signature(open_engine).parameters.keys() - {"engine", "options"}
            known = sorted(own.union(error.expected if isinstance(error.expected, list) else ()))
            is_of_run = error.found in EvaluationOptions.__annotations__
            offer = "say it to evaluate(…)" if is_of_run else nearest(str(error.found), known)
            message = f"open_engine has no argument '{error.found}', and engine '{config.name}' no such option: {offer}"
            raise EngineError(message, found=error.found, expected=known, where="open_engine") from None


#: of a call, and not of a client: these are ours, or name an SDK that is not used
_OF_CALL = re.compile(r"accept|content-type|user-agent|authorization|(x-)?api-key|x-stainless-.*", re.IGNORECASE)


def _of_client(client: Any, base_url: str | None) -> tuple[str, str | None, dict[str, Any]]:
    """Return the address, the key and the options that an SDK's client says by its public attributes."""
    try:
        address, key = str(client.base_url), client.api_key or getattr(client, "auth_token", None)
        headers, query = dict(client.default_headers), dict(client.default_query)
    except AttributeError as error:
        kind = type(client).__name__
        message = f"client is a {kind} without {error.name}: expected openai.OpenAI, or anthropic.Anthropic"
        raise EngineError(message, found=kind, expected="openai.OpenAI", where="client") from None
    own = {name: value for name, value in headers.items() if isinstance(value, str) and not _OF_CALL.fullmatch(name)}
    options = {"extra_headers": own, "extra_query": {name: str(value) for name, value in query.items()}}
    return base_url or address, key, {name: value for name, value in options.items() if value}


def _factory(engine: EngineLike) -> EngineFactory:
    if isinstance(engine, str):
        return find(engine)
    if (factory := as_factory(engine)) is not None:
        return factory
    if not callable(engine):
        message = f"engine is a {type(engine).__name__}; expected its name, a factory, or a function of a request"
        raise EngineError(message, found=type(engine).__name__, where="engine")
    return FunctionFactory(engine)


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
        self._adapter = _adapter(variant.adapt)
        check(variant.factory, variant.engine)
        with ExitStack() as resources:
            config = resources.enter_context(variant.factory.prepare(variant.engine))
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
        """Who it is."""
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

        For a case the prompt is that of the preset `schema` unless another is given, and its schema is adapted.
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
        asked = _as_prompt(prompt)
        tokens = self.engine.count_tokens(asked)
        return estimate(asked) if tokens is None else PromptLength(tokens=tokens, exact=True)

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


def _adapter(said: str) -> Callable[[Schema], Adapted | Inexpressible] | None:
    try:
        return adapter(said)
    except ValueError as error:
        raise EngineError(f"adapt: {error}", found=said, where="adapt") from None


def _as_prompt(prompt: Prompt | str) -> Prompt:
    return prompt if isinstance(prompt, Prompt) else Prompt(messages=(Message(role="user", content=prompt),))
