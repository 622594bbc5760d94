"""Define the type of an option of a run: its help, checks and parsing; and the type of a group of options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, StrEnum, auto
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from pytest_jsbench.core.arguments import Reader, flag, text

T = TypeVar("T")
#: Values of options by name.
Values = Mapping[str, Any]
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
class Option(Generic[T]):
    """
    An option of a run, under one name for every entry point; it is an attribute of an `OptionGroup`.

    pytest accepts `--jsbench-<name>` (with `-` for `_`) and the ini key `jsbench_<name>`. Commands accept `--<name>`,
    and tables of variants and functions accept `<name>`. The attribute of the class is the option itself, and the
    attribute of an instance is the option's value, of the type `T`.
    """

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
    #: Paths in a run's metadata of the values by which runs are compared; empty for the entry of the option's name in
    #: `options`.
    recorded: tuple[str, ...] = ()
    #: Name of the attribute.
    name: str = field(default="", init=False)

    def __set_name__(self, owner: type, name: str) -> None:
        object.__setattr__(self, "name", name)

    @overload
    def __get__(self, group: None, owner: type) -> Self: ...

    @overload
    def __get__(self, group: object, owner: type) -> T: ...

    def __get__(self, group: object | None, owner: type) -> Self | T:
        if group is None:
            return self
        value: T = vars(group)[self.name]
        return value

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
    def places(self) -> tuple[str, ...]:
        """Paths in a run's metadata of the values by which runs are compared; empty if they are not compared by it."""
        if self.affects is None:
            return ()
        return self.recorded or (f"options.{self.name}",)

    @property
    def is_switch(self) -> bool:
        """Whether the option is on or off; its value is True or False."""
        return self.choices == ON_OFF

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
        if self.is_switch:
            return flag(value)
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
        return value == "on" if self.is_switch else self.parse(str(value))


class OptionGroup:
    """
    Base class of a group of options; an instance has one value of each option, and cannot be changed.

    It is no dataclass, since pytest imports the options in every session, and creating dataclasses takes longer.
    """

    #: Heading of the group in help texts.
    heading: ClassVar[str]
    #: Options of the group by name, in the order of help texts.
    options: ClassVar[Mapping[str, Option[Any]]] = {}

    def __init_subclass__(cls, *, heading: str = "") -> None:
        cls.heading = heading
        inherited = {
            name: option for base in reversed(cls.__bases__) for name, option in vars(base).get("options", {}).items()
        }
        own = {name: option for name, option in vars(cls).items() if isinstance(option, Option)}
        cls.options = {**inherited, **own}

    def __init__(self, values: Values = MappingProxyType({}), /) -> None:
        """Take the group's options from values by name; an option without a value, or with None, gets its default."""
        for name, option in self.options.items():
            value = values.get(name)
            vars(self)[name] = option.default if value is None else value

    def pick(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of these options by name, without options that are not set."""
        return {name: value for name in names if (value := vars(self)[name]) is not None}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: {name}")


def _number(given: str) -> int | float | str:
    """Convert the text to a number; if it is not a number, return the text, which the check then rejects."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(given)
    return given
