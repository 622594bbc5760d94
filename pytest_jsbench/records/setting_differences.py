"""List the settings of a run by name, and find those in which several runs differ."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pytest_jsbench.core.text import distinct, printable


class Bearing(StrEnum):
    """The part of a run that a setting affects."""

    ANSWERS = "answers"
    #: How strictly answers are judged.
    VERDICTS = "verdicts"
    #: How values are compared with the expected ones.
    VALUES = "values"
    #: Which cases are used, and how often.
    CASES = "cases"
    #: Only how long answers take.
    TIMES = "times"


#: Places of the settings in a run's metadata, the most distinguishing first.
_PLACES: Mapping[Bearing, tuple[str, ...]] = {
    Bearing.ANSWERS: (
        *("engine", "model", "response_format", "prompt", "params.temperature", "params.max_tokens", "shots", "adapt"),
        *("params.seed", "provider", "prompt_digest"),
    ),
    Bearing.VERDICTS: ("versions.judge",),
    Bearing.CASES: (
        *("dataset.source", "dataset.revision", "dataset.split", "dataset.tasks", "dataset.limit", "dataset.where"),
        *("dataset.sample", "dataset.sample_seed", "dataset.steps", "dataset.shard", "dataset.labelled", "repeats"),
    ),
    Bearing.TIMES: ("concurrency", "streaming", "params.timeout"),
}
#: Defaults for runs that do not record them: the first rules had no number, and only Python code makes steps.
_UNSAID: Mapping[str, Any] = {"versions.judge": "1", "dataset.steps": []}
#: Objects of the metadata whose members are settings, with the prefix of their names.
_GROUPS: Mapping[str, tuple[Bearing, str]] = {
    "details": (Bearing.ANSWERS, "engine."),
    "policy": (Bearing.VERDICTS, "judge."),
    "comparers": (Bearing.VALUES, "compare."),
    "host": (Bearing.TIMES, "host."),
}
#: Members of those that affect something else.
_OTHERWISE = {"engine.slots": Bearing.TIMES, "judge.timeout": Bearing.TIMES}
#: Settings whose change is reported by the change of another.
_IMPLIED_BY = {"prompt_digest": ("prompt", "shots")}
#: Engines that replay answers, which do not depend on this run's settings.
RECORDED = ("replay", "recorded")
#: Engines whose models run on this machine, so that concurrent variants share it.
ON_THIS_MACHINE = frozenset({"local", "llguidance", "outlines", "xgrammar"})
#: Engine name in the record of an answer that was taken from recordings.
REMEMBERED = "recorded"
#: Engine name for an answer that an application got by itself; it is never replayed.
HANDED_IN = "application"
#: Settings that select some of the cases; without them, all are used.
_OF_ALL = frozenset({"tasks", "limit", "sample", "shard"})
#: Settings that select cases; if two runs had the same cases, they do not matter.
_SELECTION = frozenset({"split", "tasks", "limit", "where", "sample", "sample_seed", "shard"})
#: Prefix of a step in Python that changes cases rather than selecting them.
_CHANGING_STEP = "map "
_SAMPLING = frozenset({"temperature", "max_tokens", "seed"})
#: Maximum length of displayed values, in the name of a run and in a list of differences.
_LONGEST, _LONGEST_OF_DIFFERENCE = 40, 100
#: Maximum length of names, since an untrusted file may contain any.
_LONGEST_NAME = 80
#: Maximum depth of nested objects that are expanded.
_DEEPEST = 6
_DIGEST = "sha256:"
_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting of a run."""

    name: str
    bears_on: Bearing
    #: JSON value; None is the default of the engine or the provider.
    value: Any

    @property
    def shown(self) -> str:
        """Value for people."""
        return printable(_text(self.name, self.value), _LONGEST, cut="middle")

    @property
    def label(self) -> str:
        """The setting as part of a run's label; well-known values are used without their name."""
        if self.name in {"engine", "model", "response_format"}:
            return self.shown
        return f"{self.name.rpartition('.')[2]} {self.shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """A setting in which runs differ, with its value in each of them, in order."""

    #: Name of the option; the engine's own have the prefix engine., the judge's judge.
    name: str
    #: What it affects.
    bears_on: Bearing
    #: Value in each run, in order: `not known` if not recorded, `not set` for an engine option that was not given; None
    #: is the default of the engine or the provider.
    values: tuple[Any, ...]

    @property
    def shown(self) -> tuple[str, ...]:
        """Values for people; different values are displayed differently, however long they are."""
        texts = [_text(self.name, value) for value in self.values]
        different = list(dict.fromkeys(texts))
        shown = dict(zip(different, distinct(different, _LONGEST_OF_DIFFERENCE), strict=True))
        return tuple(shown[text] for text in texts)


#: Text for an unrecorded value.
UNKNOWN = "not known"
#: Text for an engine option that was not given.
NOT_SET = "not set"


def settings_of(metadata: Mapping[str, Any]) -> dict[str, Setting]:
    """Return the settings in a run's metadata as JSON values, by name; absent ones are left out."""
    settings: dict[str, Setting] = {}
    for bears_on, places in _PLACES.items():
        for place in places:
            group, _, member = place.rpartition(".")
            holder = metadata.get(group) if group else metadata
            name = "dataset" if member == "source" else member
            value = holder.get(member, _UNSAID.get(place, _ABSENT)) if isinstance(holder, Mapping) else _ABSENT
            if _is_simple(value) and not (name in _SAMPLING and metadata.get("engine") in RECORDED):
                settings[name] = Setting(name=name, bears_on=bears_on, value=value)
    for group, (bears_on, prefix) in _GROUPS.items():
        members = metadata.get(group)
        for member, value in _leaves(members, _DEEPEST) if isinstance(members, Mapping) else ():
            name = printable(f"{prefix}{member}", _LONGEST_NAME, cut="middle")
            settings[name] = Setting(name=name, bears_on=_OTHERWISE.get(name, bears_on), value=value)
    return settings


_ABSENT = object()


def _leaves(members: Mapping[str, Any], levels: int) -> Iterator[tuple[str, Any]]:
    """Yield each value that is not an object, with the path to it, since extra request fields can be nested."""
    for name, value in sorted(members.items()):
        if _is_simple(value):
            yield name, value
        elif isinstance(value, Mapping) and levels:
            yield from ((f"{name}.{inner}", leaf) for inner, leaf in _leaves(value, levels - 1))
        else:
            yield name, json.dumps(value, sort_keys=True)


def _is_simple(value: object) -> bool:
    """Return whether it can be a setting's value, since an untrusted file may have anything in its place."""
    return isinstance(value, str | int | float | bool | None) or (
        isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
    )


def differences(runs: Sequence[Mapping[str, Setting]], *, same_cases: bool = False) -> tuple[SettingDifference, ...]:
    """
    Return the settings in which runs differ, those that affect answers first; settings known for only one run are left
    out.

    With `same_cases`, differences in how the cases were selected are left out.
    """
    if same_cases:
        kept = [{name: setting for name, setting in run.items() if name not in _SELECTION} for run in runs]
        for run in kept:
            if (steps := run.get("steps")) is not None and isinstance(steps.value, list | tuple):
                run["steps"] = replace(steps, value=[step for step in steps.value if step.startswith(_CHANGING_STEP)])
        runs = kept
    differing: dict[str, SettingDifference] = {}
    for name in dict.fromkeys(name for run in runs for name in run):
        values = tuple(run[name].value if name in run else _absent_value(name, run, runs) for run in runs)
        if len({_canonical(value) for value in values if value is not UNKNOWN}) > 1:
            bears_on = next(run[name].bears_on for run in runs if name in run)
            differing[name] = SettingDifference(name=name, bears_on=bears_on, values=values)
    for name, others in _IMPLIED_BY.items():
        if name in differing and _groups(runs, others) == _groups(runs, (*others, name)):
            del differing[name]
    order = list(Bearing)
    return tuple(sorted(differing.values(), key=lambda difference: order.index(difference.bears_on)))


def _absent_value(name: str, run: Mapping[str, Setting], runs: Sequence[Mapping[str, Setting]]) -> str:
    """
    Return the value for a run that does not have the setting: not set for a comparer.

    An engine option is not set if another run of the same engine has it.
    """
    if name.startswith("compare."):
        return NOT_SET
    if not name.startswith("engine.") or "engine" not in run:
        return UNKNOWN
    same = [other for other in runs if "engine" in other and other["engine"].value == run["engine"].value]
    return NOT_SET if any(name in other for other in same) else UNKNOWN


def distinguishing(runs: Sequence[Mapping[str, Setting]], *, same_cases: bool = False) -> list[str]:
    """Return as few setting names as possible that distinguish the runs."""
    chosen: list[str] = []
    for difference in differences(runs, same_cases=same_cases):
        if _groups(runs, (*chosen, difference.name)) > _groups(runs, chosen):
            chosen.append(difference.name)
    return chosen


def _groups(runs: Sequence[Mapping[str, Setting]], names: Sequence[str]) -> int:
    """Return the number of groups into which these settings divide the runs."""
    return len({tuple(_canonical(run[name].value) if name in run else None for name in names) for run in runs})


def _canonical(value: Any) -> Hashable:
    """Return a key that equal values share: a boolean is not a number, and a list may have been a tuple."""
    return isinstance(value, bool), tuple(value) if isinstance(value, list) else value


def _text(name: str, value: object) -> str:
    if value is None:
        return "all" if name in _OF_ALL else "default"
    if isinstance(value, str):
        short = value[: len(_DIGEST) + _DIGITS] if value.startswith(_DIGEST) else value
        return short or '""'
    if value in ([], ()):
        return "none"
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return json.dumps(value, ensure_ascii=False)
