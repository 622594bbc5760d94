"""The table of variants in a project's configuration: `[[tool.jsbench.variants]]`, or a file of its own."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.errors import nearest
from pytest_jsbench.core.text import printable
from pytest_jsbench.plugin.options.declared import OPTIONS, Option
from pytest_jsbench.plugin.options.reading import placed

#: the options of which each value that is typed makes a variant; those of the engine by their keys
MULTIPLIED = (
    *("model", "prompt", "base-url", "response-format", "temperature", "max-tokens", "shots", "adapt", "concurrency"),
    "engine-option",
)
#: the options that a variant of the table may set
SETTABLE = ("engine", *MULTIPLIED, "api-key-env", "seed", "context")
#: what may be a file, and is looked for beside the table
_FILES = frozenset({"model", "prompt"})
#: each file that may hold the table, and the keys that lead to it
_PLACES: Mapping[str, tuple[str, ...]] = {"pyproject.toml": ("tool", "jsbench"), "jsbench.toml": ()}
_KEY = "variants"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]+")
_LONGEST_NAME = 100


def clean_name(text: str) -> str:
    """The text as a variant's name, fit for a node id, a gate and the name of a folder; it may be empty."""
    return _UNSAFE.sub("-", text)[:_LONGEST_NAME].strip("-.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVariant:
    """One variant of the table."""

    name: str = ""
    #: by the option's name
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantsTable:
    """The table, read whole: a mistake in a variant that is not asked for is one too."""

    #: None where there is none
    path: Path | None
    rows: tuple[TableVariant, ...]

    @classmethod
    def read(cls, config: pytest.Config) -> VariantsTable:
        """Look beside the ini file; pytest.UsageError names the file, the variant and the key that is wrong."""
        folder = config.rootpath if config.inipath is None else config.inipath.parent
        found = {path: rows for name in _PLACES if (rows := _read(path := folder / name)) is not None}
        if len(found) > 1:
            message = f"variants stand in {' and in '.join(map(str, found))}; keep them in one of the two"
            raise pytest.UsageError(message)
        for path, rows in found.items():
            return cls(path=path, rows=tuple(_rows(rows, path, here=config.invocation_params.dir)))
        return cls(path=None, rows=())

    def take(self, names: Sequence[str]) -> tuple[TableVariant, ...]:
        """The rows of these names, in their order; pytest.UsageError where one is not there."""
        if self.path is None:
            message = "--jsbench-variants: there is no [[tool.jsbench.variants]] in pyproject.toml, and no "
            raise pytest.UsageError(message + "[[variants]] in jsbench.toml beside it")
        known = {row.name: row for row in self.rows}
        if names == ("all",):
            return self.rows
        for name in names:
            if name not in known:
                message = f"--jsbench-variants: no variant '{printable(name, 60)}' in {self.path}: "
                raise pytest.UsageError(message + nearest(name, known))
        return tuple(known[name] for name in dict.fromkeys(names))


def _read(path: Path) -> list[Any] | None:
    """What the file holds under its key; None where it holds nothing of ours."""
    if not path.is_file():
        return None
    try:
        table: Any = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        message = f"{path}: cannot be read: {error}"
        raise pytest.UsageError(message) from None
    keys = _PLACES[path.name]
    for key in keys:
        table = table.get(key, {}) if isinstance(table, dict) else table
    where = f"[{'.'.join(keys)}] of {path}" if keys else str(path)
    if not isinstance(table, dict) or not isinstance(table.get(_KEY, []), list):
        message = f"{where}: expected [[{'.'.join([*keys, _KEY])}]], a table for each variant"
        raise pytest.UsageError(message)
    for key in table:
        if key != _KEY:
            message = f"{where}: unknown key '{printable(key, 60)}': {nearest(key, [_KEY])}"
            raise pytest.UsageError(message)
    return table.get(_KEY)


def _rows(found: list[Any], path: Path, *, here: Path) -> Iterator[TableVariant]:
    names: set[str] = set()
    for number, entry in enumerate(found, start=1):
        given = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(given, str) or not (name := clean_name(given)) or name == "all":
            expected = "expected a name with letters or digits, such as name = \"small\", and not 'all'"
            said = f"'{printable(given, 60)}'" if given and isinstance(given, str) else _shown(given)
            message = f"{path}: variant {number}: name is {said}; {expected}"
            raise pytest.UsageError(message)
        if name.casefold() in names:
            message = f"{path}: variant {number}: there is a variant '{name}' already; give each a name of its own"
            raise pytest.UsageError(message)
        names.add(name.casefold())
        yield TableVariant(name=name, values=dict(_values(entry, f"{path}: variant '{name}'", path.parent, here)))


def _values(entry: Mapping[str, Any], where: str, folder: Path, here: Path) -> Iterator[tuple[str, Any]]:
    known = {option.name.replace("-", "_"): option for option in OPTIONS if option.name in SETTABLE}
    for key, given in entry.items():
        if key == "name":
            continue
        if (option := known.get(key.replace("-", "_"))) is None:
            message = f"{where}: unknown key '{printable(key, 60)}': {nearest(key, ['name', *known])}"
            raise pytest.UsageError(message)
        try:
            value = _value(option, given)
        except ValueError as error:
            message = f"{where}: {key}: {error}"
            raise pytest.UsageError(message) from None
        if option.repeated:
            yield option.name, [(name, placed(one, folder, here)) for name, one in value]
        else:
            yield option.name, placed(value, folder, here) if option.name in _FILES else value


def _value(option: Option, given: object) -> Any:
    """The value as the option reads it; ValueError where it is of another kind."""
    if option.repeated:
        if not isinstance(given, dict) or not _is_json(given):
            message = f"expected a table such as {{ stream = false }}, found {_shown(given)}"
            raise ValueError(message)
        return list(given.items())
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        message = f"expected a text or a number, found {_shown(given)}"
        raise ValueError(message)
    return option.read(str(given))


def _is_json(value: object) -> bool:
    """Whether a value of TOML, which knows dates too, is one of JSON."""
    parts: Iterable[object] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, str | bool | int | float | dict | list) and all(map(_is_json, parts))


def _shown(value: object) -> str:
    """What kind of value it is: of an engine's option the value itself may be a secret."""
    kinds = {dict: "a table", list: "an array", str: "a text", type(None): "not there"}
    return "an empty text" if value == "" else kinds.get(type(value), f"a {type(value).__name__}")
