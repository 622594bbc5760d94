"""Define the type of an option of a run: its name, help, checks and parsing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from enum import Enum, StrEnum, auto
from typing import Any

from pytest_jsbench.core.arguments import Reader, flag, text

#: Choices of an option that is a switch.
ON_OFF = ("on", "off")


class Bearing(StrEnum):
    """The part of a run that a setting affects."""

    ANSWERS = "answers"
    #: The setting affects how strictly answers are judged.
    VERDICTS = "verdicts"
    #: The setting affects how values are compared with the expected values.
    VALUES = "values"
    #: The setting affects which cases are used, and how often.
    CASES = "cases"
    #: The setting affects only how long answers take.
    TIMES = "times"


class PerVariant(Enum):
    """How an option can differ between the variants of a run."""

    #: All variants have the same value.
    SHARED = auto()
    #: A variant may set its own value in the table of variants.
    OWN = auto()
    #: A variant may set its own value, and each of several values on the command line defines a variant.
    MULTIPLIED = auto()


class FileUse(Enum):
    """Whether the value of an option is the path of a file or directory, relative to where the option is set."""

    NEVER = auto()
    #: Other values than the path of an existing file or a glob stay unchanged.
    MAYBE = auto()
    ALWAYS = auto()


class HiddenPart(Enum):
    """The part of an option's text that may be a secret."""

    NOTHING = auto()
    #: The user, the password and the query of a URL.
    CREDENTIALS = auto()
    #: The value in KEY=VALUE, depending on the key.
    VALUE = auto()


@dataclass(frozen=True, slots=True)
class Option:
    """
    An option of a run, under one name for every entry point.

    pytest accepts `--jsbench-<name>` (with `-` for `_`) and the ini key `jsbench_<name>`. Commands accept `--<name>`,
    and tables of variants and functions accept `<name>`.
    """

    name: str
    help: str
    #: Placeholder for the value in help texts; empty if the option has choices.
    metavar: str = ""
    _: KW_ONLY
    #: Function that checks and converts a number; raises a ValueError with the expected value.
    check: Reader | None = None
    #: Function that parses a text; raises a ValueError that states why the text is invalid.
    parse: Callable[[str], Any] = str
    #: Function that converts a Python value to the text that `parse` expects.
    argument: Reader = text
    choices: tuple[str, ...] = ()
    #: Value that applies if the option is not set.
    default: Any = None
    #: Whether the option may be given several times, so that its value is a list.
    repeated: bool = False
    #: Value that applies if the option is given without a value; None if a value is required.
    bare: str | None = None
    #: Part of the text that may be a secret, and is hidden wherever the text is shown.
    hidden: HiddenPart = HiddenPart.NOTHING
    file: FileUse = FileUse.NEVER
    variants: PerVariant = PerVariant.SHARED
    #: Name of the argument of `evaluate` if it is not the option's name; empty if only pytest has the option.
    keyword: str | None = None
    #: Part of a run that the option affects; None if runs are not compared by the option.
    affects: Bearing | None = None
    #: Paths in a run's metadata of the values by which runs are compared.
    recorded: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """Name of the option on pytest's command line, such as `--jsbench-model`."""
        return f"--jsbench-{self.name.replace('_', '-')}"

    @property
    def argument_name(self) -> str:
        """Name of the argument of `evaluate`; empty if it has none."""
        return self.name if self.keyword is None else self.keyword

    @property
    def placeholder(self) -> str:
        """Placeholder for the value in help texts, or the choices."""
        return self.metavar or "|".join(self.choices)

    @property
    def dest(self) -> str:
        """Attribute of `config.option`, which is also the ini key."""
        return f"jsbench_{self.name}"

    def of_value(self, value: object) -> Any:
        """Check and convert a value from Python code; raise a ValueError with the expected value."""
        if self.check is not None:
            return self.check(value)
        if self.repeated:
            if isinstance(value, Mapping):
                return list(value.items())
            values = [value] if isinstance(value, str) or not isinstance(value, Iterable) else value
            return [self.parse(self.argument(part)) for part in values]
        if self.choices == ON_OFF:
            return ON_OFF[not flag(value)]
        if self.choices:
            return self._choice(self.bare if value is True else value)
        return self.parse(self.argument(value))

    def of_text(self, given: str) -> Any:
        """Parse a text from the command line or ini file; raise a ValueError with the expected and the found value."""
        if self.check is None and not self.choices:
            return self.parse(given)
        try:
            return self._choice(given) if self.check is None else self.check(_number(given))
        except ValueError as error:
            raise ValueError(f"expected {error}, found {given!r}") from None

    def _choice(self, value: object) -> Any:
        if value not in self.choices:
            raise ValueError(f"one of {', '.join(self.choices)}")
        return self.parse(str(value))


def _number(given: str) -> int | float | str:
    """Convert the text to a number; if it is not a number, return the text, which the check then rejects."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(given)
    return given
