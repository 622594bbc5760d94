"""Terms: what one of a project's own tests asks for, as the arguments of its marker say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.errors import ContractError, nearest
from pytest_jsbench.generations import ResponseFormat
from pytest_jsbench.prompts import Message

if TYPE_CHECKING:
    from pytest_jsbench.generations import GenerationParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The schema, the prompt, how often, and how the engine is to be called; None means as the run says."""

    #: a JSON Schema, a type, or the path of a schema file
    schema: object = None
    prompt: str | None = None
    messages: tuple[Message, ...] | None = None
    #: how often the test runs
    repeats: int = 1
    #: how often it must pass; None: always
    min_pass: int | None = None
    engine: str | None = None
    model: str | None = None
    base_url: str | None = field(default=None, repr=False)
    api_key_env: str | None = None
    response_format: ResponseFormat | None = None
    engine_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    timeout: float | None = None

    @classmethod
    def of(cls, marks: Iterable[tuple[tuple[object, ...], Mapping[str, object]]]) -> Self:
        """The terms of a test's markers, the closest first; ContractError for an argument that is none."""
        terms = cls()
        for positional, named in reversed(list(marks)):
            if positional:
                known = ", ".join(_READERS)
                message = f"the marker jsbench takes keywords only ({known}), found {positional[0]!r}"
                raise ContractError(message)
            terms = terms.changed(named, of="the marker jsbench")
        return terms

    def changed(self, changes: Mapping[str, object], *, of: str) -> Self:
        """The terms with these changes; ContractError names an argument of `of` that is none, or no value for one."""
        read: dict[str, Any] = {}
        for name, value in changes.items():
            if name not in _READERS:
                message = f"{of} has no argument '{name}': {nearest(name, _READERS)}"
                raise ContractError(message)
            try:
                read[name] = None if value is None else _READERS[name](value)
            except (TypeError, ValueError) as error:
                message = f"{of}: {name} is {error}, not {value!r:.80}"
                raise ContractError(message) from None
        if read.get("prompt") is not None and read.get("messages") is not None:
            message = f"{of}: prompt and messages are two ways to say the same; give one"
            raise ContractError(message)
        if "prompt" in read or "messages" in read:
            read = {"prompt": None, "messages": None, **read}
        if "engine" in read:
            # an address, a key or an option of one engine says nothing to another
            read = {
                **dict.fromkeys(("model", "base_url", "api_key_env", "response_format")),
                "engine_options": {},
                **read,
            }
        terms = dataclasses.replace(self, **read)
        if terms.min_pass is not None and terms.min_pass > terms.repeats:
            message = f"{of}: min_pass={terms.min_pass} is more than repeats={terms.repeats}"
            raise ContractError(message)
        return terms

    def said(self) -> dict[str, Any]:
        """What they say of engine and sampling, fit to be kept beside an answer."""
        said = EngineConfig(
            name=self.engine or "", model=self.model, response_format=self.response_format, options=self.engine_options
        ).said()
        said |= {name: getattr(self, name) for name in ("temperature", "max_tokens", "seed")}
        return {name: value for name, value in said.items() if value not in (None, "")}

    def engine_config(self, run: EngineConfig) -> EngineConfig:
        """The engine to ask: the run's, with what the terms say of it, or another."""
        base = run if self.engine in {None, run.name} else EngineConfig(name=str(self.engine))
        said = {name: getattr(self, name) for name in ("model", "base_url", "api_key_env", "response_format")}
        changes = {name: value for name, value in said.items() if value is not None}
        return dataclasses.replace(base, **changes, options={**base.options, **self.engine_options})

    def params(self, run: GenerationParams) -> GenerationParams:
        """How to sample: as the run says, but for what the terms say."""
        said = {name: getattr(self, name) for name in ("temperature", "max_tokens", "seed", "timeout")}
        return dataclasses.replace(run, **{name: value for name, value in said.items() if value is not None})


def read_messages(value: object) -> tuple[Message, ...]:
    """Messages as the chat APIs take them, or `Message`s; ValueError for anything else."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(_MESSAGES)
    return tuple(map(_message, value))


_MESSAGES = "a list of {'role': 'system', 'user' or 'assistant', 'content': text}"


def _message(value: object) -> Message:
    if isinstance(value, Message):
        return value
    if isinstance(value, Mapping) and value.keys() == {"role", "content"}:
        role, content = value["role"], value["content"]
        if role in {"system", "user", "assistant"} and isinstance(content, str):
            return Message(role=role, content=content)
    raise ValueError(_MESSAGES)


def _any(value: object) -> object:
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text")
    return value


def _number(kind: type[int] | type[float], *, above: float, what: str) -> Callable[[object], float]:
    def read(value: object) -> float:
        kinds = int if kind is int else (int, float)
        if not isinstance(value, kinds) or isinstance(value, bool) or not above < value < float("inf"):
            raise ValueError(what)
        return value

    return read


def _response_format(value: object) -> ResponseFormat:
    if isinstance(value, str) and value in set(ResponseFormat):
        return ResponseFormat(value)
    raise ValueError(f"one of {', '.join(ResponseFormat)}")


def _options(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ValueError("a dict of names and values")
    return value


_POSITIVE = "a whole number of at least 1"
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "schema": _any,
    "prompt": _text,
    "messages": read_messages,
    "repeats": _number(int, above=0, what=_POSITIVE),
    "min_pass": _number(int, above=0, what=_POSITIVE),
    "engine": _text,
    "model": _text,
    "base_url": _text,
    "api_key_env": _text,
    "response_format": _response_format,
    "engine_options": _options,
    "temperature": _number(float, above=-1e-12, what="a number of at least 0"),
    "max_tokens": _number(int, above=0, what=_POSITIVE),
    "seed": _number(int, above=-1, what="a whole number of at least 0"),
    "timeout": _number(float, above=0, what="seconds above 0"),
}
