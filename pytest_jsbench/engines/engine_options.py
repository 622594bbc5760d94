"""
Read the options of an engine (`--jsbench-engine-option KEY=VALUE`), and check their names and types.

This module also finds the packages, keys and addresses that an engine requires; if one is missing, the error states how
to provide it.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_jsbench.core.errors import EngineError, MissingRequirement, nearest
from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.engines.base import Address, without_credentials
from pytest_jsbench.engines.engine_secrets import FROM_ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.presets import ProviderPreset

Word = TypeVar("Word", bound="StrEnum")
Text = TypeVar("Text", bound="str | None")
Count = TypeVar("Count", bound="int | None")

#: Options of every engine that can request reasoning.
REASONING_OPTIONS = frozenset({"reasoning_effort", "reasoning_budget"})
_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _is_share(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value)


class Options:
    """The options of one engine; an unknown name is an error."""

    __slots__ = ("_values", "engine")

    def __init__(self, config: EngineConfig, known: frozenset[str]) -> None:
        self.engine = config.name
        self._values = config.options
        for name in self._values:
            if name not in known:
                message = f"engine '{self.engine}' has no option '{name}': {nearest(name, known)}"
                raise EngineError(message, found=name, expected=sorted(known), where=self.engine)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean option; the default if not given."""
        return bool(self._check_value(name, default, lambda value: isinstance(value, bool), "true or false"))

    def text(self, name: str, *, default: Text) -> str | Text:
        """Return a string option, which must not be empty; the default if not given."""
        text: str | Text = self._check_value(name, default, _is_word, "a non-empty string")
        return text

    def required_text(self, name: str, what: str, remedy: str) -> str:
        """
        Return a required string option; if it is not given, raise MissingRequirement with `what` and `remedy` in the
        message.
        """
        text = self.text(name, default=None)
        if text is None:
            raise requirement_error(self.engine, what, remedy, where=name)
        return text

    def choice(self, name: str, of: type[Word], *, default: Word) -> Word:
        """Return an option that must be a member of the enumeration `of`; the default if not given."""
        value = self._values.get(name, default)
        chosen = next((word for word in of if word == value), None)
        if chosen is None:
            message = (
                f"option '{name}' of engine '{self.engine}' must be {' or '.join(of)}, found {one_line(repr(value))}"
            )
            raise EngineError(message, found=value, expected=[word.value for word in of], where=name)
        return chosen

    def words(self, name: str, of: type[Word], *, default: tuple[Word, ...], least: int = 0) -> tuple[Word, ...]:
        """Return an option that must be a list of at least `least` members of `of`, or a single member."""
        value = self._values.get(name, default)
        listed = value if isinstance(value, list | tuple) else [value]
        words = tuple(word for text in listed for word in of if word == text)
        if not least <= len(listed) == len(words):
            self._reject(name, f"one of {', '.join(of)}, or a list of these")
        return words

    def field(self, name: str, *, default: str | bool) -> str | None:
        """
        Return the name of a request parameter; None if the option is false, which means that the
        parameter is not sent.
        """
        expected = "the name of a parameter, or false"
        return self._check_value(name, default, lambda value: value is False or _is_word(value), expected) or None

    def count(self, name: str, *, default: Count, least: int = 1) -> int | Count:
        """Return an integer option, which must be at least `least`; the default if not given."""
        expected = "a whole number above 0" if least else "a whole number"
        number: int | Count = self._check_value(
            name, default, lambda value: type(value) is int and value >= least, expected
        )
        return number

    def share(self, name: str) -> float | None:
        """Return a number option, which must be greater than 0 and at most 1; None if not given."""
        expected = "a number above 0 and up to 1"
        number = self._check_value(name, None, _is_share, expected)
        return None if number is None else float(number)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return a JSON object option, with `env:VAR` replaced by the variable's value; empty if not given."""
        value = self._check_value(name, {}, lambda value: isinstance(value, dict), "a JSON object")
        resolved: Mapping[str, Any] = self._with_environment(value, name)
        return resolved

    def texts(self, name: str) -> Mapping[str, str]:
        """Return an option that must be a JSON object of strings; empty if not given."""
        value: Mapping[str, str] = self.mapping(name)
        if not all(isinstance(text, str) for text in value.values()):
            self._reject(name, "a JSON object of strings")
        return value

    def identifier(self, name: str, *, default: str) -> str:
        """Return an option that providers accept as the name of a schema or a tool; the default if not given."""
        value = self.text(name, default=default)
        expected = "1 to 64 characters from A-Z a-z 0-9 _ -"
        return value if _IDENTIFIER.fullmatch(value) else str(self._reject(name, expected))

    def _check_value(self, name: str, default: Any, is_valid: Callable[[Any], bool], expected: str) -> Any:
        """Return the value if it is valid; the default if not given."""
        if name not in self._values:
            return default
        value = self._values[name]
        return value if is_valid(value) else self._reject(name, expected)

    def _with_environment(self, value: Any, name: str) -> Any:
        """Replace each `env:VAR` in the value by the variable's value; raise EngineError if the variable is not set."""
        match value:
            case str() if value.startswith(FROM_ENVIRONMENT):
                variable = value.removeprefix(FROM_ENVIRONMENT)
                if text := os.environ.get(variable, "").strip():
                    return text
                message = f"option '{name}' of engine '{self.engine}' reads the environment variable {variable}, "
                raise EngineError(f"{message}which is not set", expected=variable, where=name)
            case dict():
                return {inner: self._with_environment(each, name) for inner, each in value.items()}
            case list():
                return [self._with_environment(each, name) for each in value]
            case _:
                return value

    def _reject(self, name: str, expected: str) -> Any:
        # The value is not shown, because a header may contain a secret.
        kind = type(self._values[name]).__name__
        message = f"option '{name}' of engine '{self.engine}' must be {expected}, found {kind}"
        raise EngineError(message, found=kind, expected=expected, where=name)


def choose_format(
    config: EngineConfig, offered: tuple[ResponseFormat, ...], preset: ProviderPreset | None = None
) -> ResponseFormat:
    """
    Return the requested response format, or the first offered format if none is requested; raise EngineError if the
    requested format is not offered.
    """
    if config.response_format is None:
        return offered[0]
    if config.response_format in offered:
        return config.response_format
    presets_formats = {} if preset is None else preset.formats
    apis = [api for api, formats in presets_formats.items() if config.response_format in formats]
    if apis:
        remedy = f"set --jsbench-engine-option api={apis[0]}"
    else:
        remedy = f"if this is out of date, pass --jsbench-engine-option formats={config.response_format}"
    message = (
        f"engine '{config.name}' has no response format '{config.response_format}'"
        f" (one of {', '.join(sorted(offered))}){_source_and_remedy(preset, remedy)}"
    )
    expected = [each.value for each in offered]
    raise EngineError(message, found=config.response_format.value, expected=expected, option="response_format")


def _source_and_remedy(preset: ProviderPreset | None, remedy: str) -> str:
    """Return the end of an error message: a preset's source, and what to do if the preset is out of date."""
    return "" if preset is None else f" ({preset.source}; {remedy})"


def choose_streaming(
    config: EngineConfig, options: Options, chosen: ResponseFormat, preset: ProviderPreset | None = None
) -> bool:
    """
    Return whether to stream; raise EngineError if streaming is requested but the response format
    does not support it.
    """
    unstreamed = options.words("unstreamed", ResponseFormat, default=preset.unstreamed if preset else ())
    streaming = options.flag("stream", default=chosen not in unstreamed)
    if streaming and chosen in unstreamed:
        source = _source_and_remedy(preset, "if this is out of date, pass --jsbench-engine-option unstreamed=[]")
        message = f"engine '{config.name}' does not stream {chosen}: remove stream=true{source}"
        raise EngineError(message, found=True, expected=False, where="stream")
    return streaming


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedReasoning:
    """The requested settings for a model's reasoning; a setting is None for the provider's default."""

    #: Reasoning effort, one of the provider's levels: none, minimal, low, medium, high, …
    effort: str | None = None
    #: Maximum number of reasoning tokens.
    budget: int | None = None
    #: Values of these settings in a request's body, by the path of the body's field.
    fields: Mapping[tuple[str, ...], str | int] = field(default_factory=dict)

    @classmethod
    def from_options(cls, options: Options) -> RequestedReasoning:
        """Read the reasoning options from the engine's options; `fields` stays empty."""
        effort = options.text("reasoning_effort", default=None)
        return cls(effort=effort, budget=options.count("reasoning_budget", default=None, least=0))

    @property
    def details(self) -> dict[str, Any]:
        """The reasoning settings that are set, by option name."""
        values = {"reasoning_effort": self.effort, "reasoning_budget": self.budget}
        return {name: value for name, value in values.items() if value is not None}

    def put_into(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the body with the reasoning fields added; other fields of nested objects are kept."""
        whole = dict(body)
        for (*outer, name), value in self.fields.items():
            part = whole
            for step in outer:
                inner = part.get(step)
                part[step] = part = dict(inner) if isinstance(inner, Mapping) else {}
            part[name] = value
        return whole

    def refuse_duplicates(self, extra_body: Mapping[str, Any], engine: str) -> None:
        """Raise EngineError if the extra body also sets one of the reasoning fields."""
        for path in self.fields:
            value: object = extra_body
            for name in path:
                value = value.get(name) if isinstance(value, Mapping) else None
            if value is not None:
                names = " and ".join(self.details)
                message = f"engine '{engine}': {'.'.join(path)} in extra_body conflicts with {names}; set only one"
                raise EngineError(message, found=value, expected=None, where="extra_body")


def read_reasoning(options: Options, *, effort: str | None, budget: str | None) -> RequestedReasoning:
    """Read the reasoning options; `effort` and `budget` are the paths of the body's parameters, separated by dots."""
    reasoning = RequestedReasoning.from_options(options)
    places = {"reasoning_effort": effort, "reasoning_budget": budget}
    fields = {}
    for name, value in reasoning.details.items():
        if (place := places[name]) is None:
            option = f"{name.removeprefix('reasoning_')}_field"
            message = (
                f"engine '{options.engine}' has no known parameter for {name}: "
                f"name the server's parameter with --jsbench-engine-option {option}=NAME, or remove the option"
            )
            raise EngineError(message, found=name, expected=option, where=name)
        fields[tuple(place.split("."))] = value
    return replace(reasoning, fields=fields)


_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An API key, empty if not needed, and the name of the environment variable from which the key was read, if any."""

    value: str = field(repr=False)
    variable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdk:
    """An official SDK, and the method that calls one API."""

    #: Name of the package and of its module.
    package: str
    #: Lowest supported version.
    minimum: tuple[int, ...]
    #: Name of the client's class.
    client: str
    #: Path of attributes from the client to the API, separated by dots.
    resource: str


def require_package(
    engine: str, package: str, *, extra: str, minimum: tuple[int, ...] = (), module: str | None = None
) -> None:
    """Raise MissingRequirement unless a package that the engine requires is installed and new enough."""
    require_package_for(f"engine '{engine}'", package, extra=extra, minimum=minimum, module=module)


def require_package_for(
    user: str, package: str, *, extra: str, minimum: tuple[int, ...] = (), module: str | None = None
) -> None:
    """Raise MissingRequirement unless the package is installed and new enough; `user` is the subject of the message."""
    install = f"pip install 'pytest-jsbench[{extra}]'"
    if not is_installed(module or package):
        raise user_requirement_error(user, f"the package {package}", install, expected=package, where=install)
    installed = package_version(package)
    if minimum and tuple(map(int, _NUMBER.findall(installed)[: len(minimum)])) < minimum:
        wanted = ".".join(map(str, minimum))
        needed = f"{package}>={wanted}"
        found = f"{needed}, found {installed}"
        raise user_requirement_error(user, found, install, found=installed, expected=needed, where=install)


def requirement_error(engine: str, what: str, remedy: str, **facts: Any) -> MissingRequirement:
    """Return the error for a missing requirement of an engine; `remedy` states how to provide the requirement."""
    return user_requirement_error(f"engine '{engine}'", what, remedy, **facts)


def user_requirement_error(user: str, what: str, remedy: str, **facts: Any) -> MissingRequirement:
    """Return the error for a missing requirement; `user` is the subject of the message."""
    return MissingRequirement(f"{user} needs {what}: {remedy}", **{"expected": what, **facts})


def is_installed(package: str) -> bool:
    """Return whether the package is installed, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def package_version(package: str) -> str:
    """Return the package's installed version, or `unknown` for a package without metadata."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def from_environment(*variables: str) -> str | None:
    """Return the value of the first variable that is set and not empty."""
    values = (os.environ.get(variable, "").strip() for variable in variables)
    return next(filter(None, values), None)


def find_key(config: EngineConfig, variables: tuple[str, ...], *, optional: bool) -> Key:
    """Return the engine's key: the given key, or the value of the first environment variable that is set."""
    if config.api_key is not None:
        return Key(value=config.api_key)
    wanted = (config.api_key_env,) if config.api_key_env else variables
    for variable in wanted:
        if value := os.environ.get(variable, "").strip():
            return Key(value=_check_key(config.name, variable, value), variable=variable)
    if config.api_key_env:
        message = (
            f"engine '{config.name}' has no key: the environment variable {config.api_key_env}, named by"
            " --jsbench-api-key-env, is not set"
        )
        raise MissingRequirement(message, expected="a key", where=config.api_key_env)
    if optional:
        return Key(value="")
    remedy = f"set {' or '.join(variables)}, or name another variable with --jsbench-api-key-env"
    raise requirement_error(config.name, "a key", remedy, where=variables[0])


def headers_of_environment(variable: str, named: Mapping[str, str] | None = None) -> dict[str, str]:
    """
    Return the headers that an SDK's environment variables set: `variable` contains lines `Name: value`, and each
    variable in `named` contains the value of one header.
    """
    lines = (line.partition(":") for line in os.environ.get(variable, "").splitlines())
    headers = {name: os.environ.get(each, "").strip() for name, each in (named or {}).items()}
    own = {name.strip(): value.strip() for name, colon, value in lines if colon}
    return {name: value for name, value in {**headers, **own}.items() if value}


def _check_key(engine: str, variable: str, value: str) -> str:
    if value.isascii() and value.isprintable():
        return value
    message = (
        f"engine '{engine}' cannot send the key in {variable}: it contains characters that are not allowed in"
        " HTTP headers; copy the key again"
    )
    raise MissingRequirement(message, expected="printable ASCII characters", where=variable)


def find_address(config: EngineConfig, variable: str | None) -> Address | None:
    """Return the server's address from --jsbench-base-url or `variable`; None for the provider's server."""
    address = config.base_url or from_environment(variable or "")
    if address is None:
        return None
    source = "--jsbench-base-url" if config.base_url else variable
    try:
        return Address.parse(address)
    except ValueError:
        shown = without_credentials(address)
        message = f"{source} is not a valid URL: {shown!r}; expected http://host:port/path or https://…"
        raise EngineError(message, found=shown, expected="http://host:port/path", where=source) from None


def find_model(config: EngineConfig, *, url: str | None, default: str) -> str:
    """Return the model's name; raise EngineError if no model is given for a server other than the provider's."""
    if config.model:
        return config.model
    if url is None:
        return default
    message = f"--jsbench-model is required with {url} ({url.rstrip('/')}/models lists the models)"
    raise EngineError(message, expected="the name of a model", option="model")
