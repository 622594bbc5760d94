"""One option, and how its text becomes a value."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def at_least(least: float, kind: type[int] | type[float]) -> Callable[[str], float]:
    """Reads a number that is not below another."""

    def parse(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = None
        if number is None or not least <= number < float("inf"):
            what = "a whole number" if kind is int else "a number"
            message = f"expected {what} of at least {least:g}, found {text!r}"
            raise ValueError(message)
        return number

    return parse


def assignment(text: str) -> tuple[str, Any]:
    """Reads KEY=VALUE, the value as JSON where it is JSON."""
    key, separator, value = text.partition("=")
    if not (key and separator):
        # what is without a = may be a value, and so a secret
        message = f"expected KEY=VALUE, found {'no =' if not separator else 'no KEY'}"
        raise ValueError(message)
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def shown_assignment(text: str) -> str:
    """The text as it may be shown: an engine's option that may hold a secret is `KEY=…`."""
    from pytest_jsbench.engines.secrets import HIDDEN, shown_option

    key, value = assignment(text)
    return text if shown_option(key, value) == value else f"{key}={HIDDEN}"


def shown_address(text: str) -> str:
    """The URL as it may be shown: without user, password and query."""
    from pytest_jsbench.engines.addresses import without_credentials

    return without_credentials(text)


def export(text: str) -> tuple[str, str]:
    """Reads NAME=PATH."""
    name, separator, path = text.partition("=")
    if not (name and separator and path):
        message = f"expected NAME=PATH, such as every_eval_ever=exported, found {text!r}"
        raise ValueError(message)
    return name, path


def shard(text: str) -> Any:
    """Reads a shard such as 2/5."""
    from pytest_jsbench.datasets.selection import Shard

    return Shard.parse(text)


def names(text: str) -> tuple[str, ...]:
    """Reads names with commas between them."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        message = f"expected names with commas between them, found {text!r}"
        raise ValueError(message)
    return found


def extra_fields(text: str) -> str | tuple[str, ...]:
    """Reads what is to become of fields that no schema names."""
    return text if text in {"fail", "allow"} else names(text)


def sample(text: str) -> tuple[int, int]:
    """Reads the size of a sample, and its seed."""
    size, separator, seed = text.partition(":")
    if not (size.isascii() and size.isdecimal() and int(size)) or (separator and not seed.isdecimal()):
        message = f"expected a whole number of at least 1, or with a seed such as 300:7, found {text!r}"
        raise ValueError(message)
    return int(size), int(seed or 0)


def adaptation(text: str) -> tuple[str, str]:
    """Reads a mode of adaptation, and its subset."""
    from pytest_jsbench.adaptation.subsets import SUBSETS

    mode, separator, subset = text.partition(":")
    if mode not in {"verbatim", "narrow", "relax"} or (bool(separator) != (subset in SUBSETS)):
        message = f"expected verbatim, narrow or relax, or such as narrow:openai ({', '.join(SUBSETS)}), found {text!r}"
        raise ValueError(message)
    return mode, subset


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: `--jsbench-<name>` and the ini key `jsbench_<name>`."""

    name: str
    metavar: str
    help: str
    #: text to value, for the command line and the ini file alike; ValueError says what is wrong
    parse: Callable[[str], Any] = str
    choices: tuple[str, ...] | None = None
    #: given several times, the values add up
    repeated: bool = False
    #: its value where it is given without one
    bare: str | None = None
    #: the text as it may be shown, for one that may hold a secret
    shown: Callable[[str], str] = str

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--jsbench-{self.name}"

    @property
    def dest(self) -> str:
        """The attribute on `config.option`, and the ini key."""
        return f"jsbench_{self.name.replace('-', '_')}"

    def read(self, text: str) -> Any:
        """The value of a text; ValueError says what was expected and found."""
        if self.choices is not None and text not in self.choices:
            message = f"expected one of {', '.join(self.choices)}, found {text!r}"
            if self.bare is not None:
                message += f"; before a path, say {self.flag}={self.bare}"
            raise ValueError(message)
        return self.parse(text)
