"""What an engine needs from outside (packages, a key, an address), and how to get what is absent."""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.engines.base import NO_KEY, Address, without_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_jsbench.engines.base import EngineConfig


_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A secret, and the environment variable that it came from (None where it came from elsewhere)."""

    value: str = field(repr=False)
    variable: str | None = None


def require_package(
    engine: str, package: str, *, extra: str, minimum: tuple[int, ...] = (), module: str | None = None
) -> None:
    """See that the package is there and new enough, without importing it; else MissingRequirement."""
    install = f"pip install 'pytest-jsbench[{extra}]'"
    if not is_installed(module or package):
        message = f"engine '{engine}' needs the package {package}: {install}"
        raise MissingRequirement(message, expected=package, where=install)
    installed = package_version(package)
    if minimum and tuple(map(int, _NUMBER.findall(installed)[: len(minimum)])) < minimum:
        wanted = ".".join(map(str, minimum))
        message = f"engine '{engine}' needs {package}>={wanted}, found {installed}: {install}"
        raise MissingRequirement(message, found=installed, expected=f"{package}>={wanted}", where=install)


def is_installed(package: str) -> bool:
    """Look whether the package is there, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the package that holds it
        return False


def package_version(package: str) -> str:
    """The installed version, `unknown` for a package without metadata."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def find_key(config: EngineConfig, variables: tuple[str, ...], *, optional: bool) -> Key:
    """The key by which the engine calls: the one given, or the first of the variables that is set."""
    if config.api_key is not None:
        return Key(value=config.api_key)
    wanted = (config.api_key_env,) if config.api_key_env else variables
    for variable in wanted:
        if value := os.environ.get(variable, "").strip():
            return Key(value=_sendable(config.name, variable, value), variable=variable)
    if config.api_key_env:
        message = (
            f"engine '{config.name}' finds no key: the variable {config.api_key_env}, named by"
            " --jsbench-api-key-env, is not set"
        )
        raise MissingRequirement(message, expected="a key", where=config.api_key_env)
    if optional:
        return Key(value=NO_KEY)
    message = (
        f"engine '{config.name}' needs a key: set {' or '.join(variables)}, or name another variable with"
        " --jsbench-api-key-env"
    )
    raise MissingRequirement(message, expected="a key", where=variables[0])


def headers_of_environment(variable: str, named: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the headers that an SDK reads from variables: from one of lines `Name: value`, and from named ones."""
    lines = (line.partition(":") for line in os.environ.get(variable, "").splitlines())
    headers = {name: os.environ.get(each, "").strip() for name, each in (named or {}).items()}
    own = {name.strip(): value.strip() for name, colon, value in lines if colon}
    return {name: value for name, value in {**headers, **own}.items() if value}


def _sendable(engine: str, variable: str, value: str) -> str:
    if value.isascii() and value.isprintable():
        return value
    message = (
        f"engine '{engine}' cannot send the key in {variable}: it holds characters that no HTTP header can"
        " carry; copy it again"
    )
    raise MissingRequirement(message, expected="printable ASCII characters", where=variable)


def find_address(config: EngineConfig, variable: str | None) -> Address | None:
    """The server's address from the option or the SDK's own variable; None for the provider's own server."""
    address = config.base_url or os.environ.get(variable or "", "").strip() or None
    if address is None:
        return None
    source = "--jsbench-base-url" if config.base_url else variable
    try:
        return Address.parse(address)
    except ValueError:
        shown = without_credentials(address)
        message = f"{source} is not an address: {shown!r}; expected http://host:port/path or https://…"
        raise EngineError(message, found=shown, expected="http://host:port/path", where=source) from None


def find_model(config: EngineConfig, *, url: str | None, default: str) -> str:
    """The model's name; a server that is not the provider's own has no default."""
    if config.model:
        return config.model
    if url is None:
        return default
    message = f"--jsbench-model is needed with {url} ({url.rstrip('/')}/models lists them)"
    raise EngineError(message, expected="the name of a model", option="model")
