"""Variants: the ways in which the same cases are asked, made by options that are typed more than once or by a table."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import pytest

from pytest_jsbench.plugin.options.declared import OPTIONS, Option, assignment, shown_assignment
from pytest_jsbench.plugin.options.variants_table import MULTIPLIED, SETTABLE, TableVariant, VariantsTable, clean_name

_BY_NAME = {option.name: option for option in OPTIONS}
#: the options whose values are names; before any other value stands what it is of
_NAMED = frozenset({"model", "prompt", "base-url", "response-format", "adapt"})
#: characters that one option gives to a variant's name
_LONGEST_PART = 40
#: what belongs to one engine
_OF_ENGINE = ("model", "base-url", "api-key-env", "response-format")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way in which the cases are asked: what the options say, with some values replaced."""

    #: empty where there is one way only
    name: str
    #: of all options, by their names
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants:
    """All variants of a run, in their order."""

    all: tuple[Variant, ...]
    #: why those of the table are not among them; empty where they are, or there is no table
    left_out: str = ""

    @classmethod
    def read(cls, config: pytest.Config, values: Mapping[str, Any], *, recorded: bool = False) -> Variants:
        """
        The variants of a run whose options have these values; pytest.UsageError says what is wrong with one.

        Where answers are recorded or replayed a table holds only if it is asked for, for a project's own tests record
        and replay without it.
        """
        typed = typed_values(config)
        if len(dict.fromkeys(typed.get("engine", ()))) > 1:
            message = "--jsbench-engine is given more than once: every model would be asked of every engine; name each "
            raise pytest.UsageError(message + "in a table of its own, [[tool.jsbench.variants]] in pyproject.toml")
        rows, left_out = _rows(config, values, typed, recorded=recorded)
        asked = [
            (_join(row.name, *(point.name for point in points)), _replaced(values, row, points, typed))
            for row, points in itertools.product(rows, list(itertools.product(*_axes(typed))))
        ]
        names = [name for name, _ in asked] if len(asked) == 1 else _made_unique(name for name, _ in asked)
        variants = (Variant(name=name, values=changed) for name, (_, changed) in zip(names, asked, strict=True))
        return cls(all=tuple(variants), left_out=left_out)

    def of_run(self, path: Path) -> Variants:
        """The variants of a run that is replayed, where nobody names any: each asks as it asked then."""
        from pytest_jsbench.core.errors import JSBenchError
        from pytest_jsbench.runs import journal

        (one,) = self.all
        try:
            found = journal.read_header(path).variants if holds_run(path) else ()
        except JSBenchError:  # the engine that replays says what is wrong with it
            found = ()
        known = [
            Variant(name=then.variant, values={**one.values, "prompt": then.prompt, "shots": then.shots})
            for then in found
        ]
        return replace(self, all=tuple(known)) if known else self


def holds_run(path: Path) -> bool:
    """Whether it is the records of a run that are there, or its folder, and no recordings of single answers."""
    return path.is_file() or (path / "records.jsonl").is_file()


def typed_values(config: pytest.Config, names: Sequence[str] = SETTABLE) -> Mapping[str, Sequence[str]]:
    """What was typed for this very run, and in no `addopts`: by the option, in the order of `OPTIONS`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, fromfile_prefix_chars="@")
    for name in names:  # the order on the command line makes no other names
        parser.add_argument(_BY_NAME[name].flag, action="append", dest=name, default=argparse.SUPPRESS)
    found, _ = parser.parse_known_args(list(map(str, config.invocation_params.args)))
    return {option.name: getattr(found, option.name) for option in OPTIONS if hasattr(found, option.name)}


def _rows(
    config: pytest.Config, values: Mapping[str, Any], typed: Mapping[str, Sequence[str]], *, recorded: bool
) -> tuple[Sequence[TableVariant], str]:
    """The rows of the table that are asked for, or one that changes nothing; and why a table is left out."""
    nothing = (TableVariant(values={}),)
    table, names = VariantsTable.read(config), values["variants"]
    rows = table.rows if names is None else table.take(names)
    if not rows:
        return nothing, ""
    if recorded and names is None:
        return nothing, f"the variants in {table.path} are left out: --jsbench-variants=all records or replays them"
    both = next((both for row in rows if (both := _said_twice(row, typed))), None)
    if both is None:
        return rows, ""
    option, row_name = both
    nobody_else = values["engine"] is None and not recorded
    if names is not None and (nobody_else or config.getoption("jsbench_variants") is not None):
        message = f"{option} and variant '{row_name}' in {table.path} say the same thing in two ways: leave out "
        raise pytest.UsageError(f"{message}{option} or --jsbench-variants")
    return nothing, f"the variants in {table.path} are left out, since {option} is given here"


def _said_twice(row: TableVariant, typed: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """What was typed though the row says it too, and the row's name; None where there is nothing of the kind."""
    for name, texts in typed.items():
        if name != "engine-option" and name in row.values:
            return _BY_NAME[name].flag, row.name
        keys = {key for key, _ in row.values.get("engine-option", ())} if name == "engine-option" else set()
        for key, _ in map(assignment, texts) if keys else ():
            if key in keys:
                return f"{_BY_NAME[name].flag}={key}", row.name
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """One of the values of an option that was typed with several."""

    #: what it adds to the variant's name
    name: str
    option: str
    value: Any


def _axes(typed: Mapping[str, Sequence[str]]) -> Iterator[tuple[_Point, ...]]:
    """The values of each option that has several, in their order; a value that is typed twice is one."""
    for name in typed:
        if name not in MULTIPLIED:
            continue
        option = _BY_NAME[name]
        by_key: dict[str, dict[str, _Point]] = {}
        for text in typed[name]:
            value = _read(option, text)
            key = value[0] if option.repeated else ""
            point = _Point(name=_part(option, text), option=name, value=value)
            by_key.setdefault(key, {}).setdefault(repr(value), point)
        yield from (tuple(points.values()) for points in by_key.values() if len(points) > 1)


def _read(option: Option, text: str) -> Any:
    try:
        return option.read(text)
    except ValueError as error:
        message = f"{option.flag}: {error}"
        raise pytest.UsageError(message) from None


def _part(option: Option, text: str) -> str:
    """What a value adds to a variant's name, without what may be a secret."""
    if option.repeated:
        key, _ = assignment(text)
        return f"{key}-{shown_assignment(text).partition('=')[2]}"[:_LONGEST_PART]
    shown = option.shown(text)
    if option.name == "base-url":
        shown = shown.partition("://")[2] or shown
    elif PurePath(shown).is_absolute():
        shown = PurePath(shown).name
    return shown[-_LONGEST_PART:] if option.name in _NAMED else f"{option.name}-{shown}"


def _join(*parts: str) -> str:
    return clean_name("-".join(cleaned for part in parts if (cleaned := clean_name(part))))


def _made_unique(names: Iterable[str]) -> list[str]:
    """The names, each another one, also where capitals are not told apart."""
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        numbered = itertools.chain([name] if name else (), (f"{name or 'variant'}-{n}" for n in itertools.count(2)))
        found.append(next(one for one in numbered if one.casefold() not in taken))
        taken.add(found[-1].casefold())
    return found


def _replaced(
    values: Mapping[str, Any], row: TableVariant, points: Sequence[_Point], typed: Mapping[str, Sequence[str]]
) -> Mapping[str, Any]:
    """The values of the options, as they are for one variant."""
    changed = {**values, "engine-option": list(values["engine-option"] or ())}
    if values["engine"] is not None and row.values.get("engine", values["engine"]) != values["engine"]:
        # what the ini file says of its own engine means nothing to another
        changed |= {name: None for name in _OF_ENGINE if name not in typed}
        changed["engine-option"] = [assignment(text) for text in typed.get("engine-option", ())]
    changed["engine-option"] += row.values.get("engine-option", ())
    changed |= {name: value for name, value in row.values.items() if name != "engine-option"}
    for point in points:
        if point.option == "engine-option":
            changed["engine-option"].append(point.value)
        else:
            changed[point.option] = point.value
    return changed
