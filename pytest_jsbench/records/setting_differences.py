"""List the settings of a run by name, and find the settings in which several runs differ."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_jsbench.core.text import distinct, printable
from pytest_jsbench.records.metadata import OMITTED_IF_EMPTY
from pytest_jsbench.settings.option import Bearing
from pytest_jsbench.settings.options import OPTIONS, SAMPLING_OPTIONS

#: The part of the run that is affected, for values in a run's metadata that no option sets, by their path.
_FOUND: Mapping[str, Bearing] = {
    "provider": Bearing.ANSWERS,
    "prompt_digest": Bearing.ANSWERS,
    "versions.judge": Bearing.VERDICTS,
    "dataset.revision": Bearing.CASES,
    "dataset.steps": Bearing.CASES,
    "streaming": Bearing.TIMES,
    "details.slots": Bearing.TIMES,
    "served": Bearing.ANSWERS,
    "policy": Bearing.VERDICTS,  # options of other versions of the judge
    "host": Bearing.TIMES,
}
#: The part of the run that is affected, for each setting and each object of settings, by its path.
_BEARINGS: Mapping[str, Bearing] = {
    **{path: option.affects for option in OPTIONS for path in option.places if option.affects is not None},
    **_FOUND,
}
#: Objects in a run's metadata whose members are all settings, with the prefix for the names of these settings.
_GROUPS: Mapping[str, str] = {
    "details": "engine.",
    "served": "served.",
    "policy": "judge.",
    "comparers": "compare.",
    "host": "host.",
}
#: Paths of the settings that best distinguish runs, in order; all others follow in the order of the options.
_FIRST = (
    *("engine", "model", "response_format", "params.tool_choice", "prompt", "params.temperature", "params.max_tokens"),
    *("shots", "adapt"),
    *("dataset.source", "dataset.revision", "dataset.split", "dataset.tasks", "dataset.limit", "dataset.where"),
    *("dataset.sample", "dataset.sample_seed", "dataset.steps", "dataset.shard", "concurrency", "streaming"),
)
#: Paths of all settings outside of the objects in `_GROUPS`, sorted by the affected part of the run.
_PATHS = tuple(
    sorted(
        (path for path in dict.fromkeys((*_FIRST, *_BEARINGS)) if path.partition(".")[0] not in _GROUPS),
        key=lambda path: list(Bearing).index(_BEARINGS[path]),
    )
)
#: Values of settings that a run does not record although it records others of their group: the first judge rules had no
#: version, without Python code there are no steps, and an option that was not set has its default.
_IF_NOT_RECORDED: Mapping[str, Any] = {
    "versions.judge": "1",
    "dataset.steps": [],
    **{path: option.default for option in OPTIONS for path in option.places if path.startswith("options.")},
}
#: Settings that a run records only if they are set.
_ABSENT_IF_NOT_SET = frozenset(OMITTED_IF_EMPTY) & frozenset(_PATHS)
#: Fields of a run's metadata that contain settings.
SETTING_FIELDS = frozenset(path.partition(".")[0] for path in (*_PATHS, *_GROUPS))
#: Settings that need not be reported if the settings on which they depend explain the difference.
_IMPLIED_BY = {"prompt_digest": ("prompt", "shots")}
#: Engines that replay answers, so that sampling parameters have no effect.
RECORDED = ("replay", "recorded")
#: Engines whose models run on this machine, so that variants that run at the same time slow each other down.
ON_THIS_MACHINE = frozenset({"local", "llguidance", "outlines", "xgrammar"})
#: Engine name in records of answers that were taken from recordings.
REMEMBERED = "recorded"
#: Engine name in records of answers that an application got without the run's engine; these answers are never replayed.
HANDED_IN = "application"
#: Settings that select a part of the cases; if they are None, all cases are used.
_OF_ALL = frozenset({"tasks", "limit", "sample", "shard"})
#: Settings that select cases; irrelevant between runs that had the same cases.
_SELECTION = frozenset({"split", "tasks", "limit", "where", "sample", "sample_seed", "shard"})
#: Prefix of steps in Python that change cases rather than select them.
_CHANGING_STEP = "map "
#: Maximum lengths of a displayed value, in the name of a run and in a list of differences.
_LONGEST = 40
_LONGEST_IN_DIFFERENCES = 100
#: Maximum length of a setting's name, since an untrusted file may contain names of any length.
_LONGEST_NAME = 80
#: Maximum depth to which nested objects are expanded into settings.
_DEEPEST = 6
_DIGEST = "sha256:"
_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting of a run."""

    name: str
    bears_on: Bearing
    #: Value of the setting as JSON; None means the default of the engine or the provider.
    value: Any

    @property
    def shown(self) -> str:
        """Value as text for display."""
        return printable(_text(self.name, self.value), _LONGEST, cut="middle")

    @property
    def label(self) -> str:
        """
        Text for the setting in a run's label: its name and value, or only its value for engine, model and response
        format.
        """
        if self.name in {"engine", "model", "response_format"}:
            return self.shown
        return f"{self.name.rpartition('.')[2]} {self.shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """A setting in which runs differ, with its value in each run."""

    #: Name of the setting; names of the engine's settings begin with `engine.`, names of the judge's settings with
    #: `judge.`.
    name: str
    #: Part of the run that the setting affects.
    bears_on: Bearing
    #: Value in each run, in order: `not known` if the run does not record it, `not set` if an engine option was not
    #: given, and None for the default of the engine or the provider.
    values: tuple[Any, ...]

    @property
    def shown(self) -> tuple[str, ...]:
        """Values as texts for display; different values have different texts, however long the values are."""
        texts = [_text(self.name, value) for value in self.values]
        different = list(dict.fromkeys(texts))
        shown = dict(zip(different, distinct(different, _LONGEST_IN_DIFFERENCES), strict=True))
        return tuple(shown[text] for text in texts)


#: Text for a value that the run does not record.
UNKNOWN = "not known"
#: Text for an engine option that was not given.
NOT_SET = "not set"


def settings_of(metadata: Mapping[str, Any]) -> dict[str, Setting]:
    """Return the settings in a run's metadata, which are JSON values, by name; missing settings are left out."""
    settings: dict[str, Setting] = {}
    for path in _PATHS:
        group, _, member = path.rpartition(".")
        holder = metadata.get(group) if group else metadata
        name = "dataset" if member == "source" else member
        value = holder.get(member, _IF_NOT_RECORDED.get(path, _ABSENT)) if isinstance(holder, Mapping) else _ABSENT
        if _is_simple(value) and not (name in SAMPLING_OPTIONS and metadata.get("engine") in RECORDED):
            settings[name] = Setting(name=name, bears_on=_BEARINGS[path], value=value)
    for group, prefix in _GROUPS.items():
        members = metadata.get(group)
        for member, value in _leaves(members, _DEEPEST) if isinstance(members, Mapping) else ():
            name = printable(f"{prefix}{member}", _LONGEST_NAME, cut="middle")
            bears_on = _BEARINGS.get(f"{group}.{member}", _BEARINGS[group])
            settings[name] = Setting(name=name, bears_on=bears_on, value=value)
    return settings


_ABSENT = object()


def _leaves(members: Mapping[str, Any], levels: int) -> Iterator[tuple[str, Any]]:
    """Yield each value that is not an object, with its dotted path, since an engine's options may be nested objects."""
    for name, value in sorted(members.items()):
        if _is_simple(value):
            yield name, value
        elif isinstance(value, Mapping) and levels:
            yield from ((f"{name}.{inner}", leaf) for inner, leaf in _leaves(value, levels - 1))
        else:
            yield name, json.dumps(value, sort_keys=True)


def _is_simple(value: object) -> bool:
    """Return whether a value has a type that settings can have, since an untrusted file may contain anything."""
    return isinstance(value, str | int | float | bool | None) or (
        isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
    )


def differences(runs: Sequence[Mapping[str, Setting]], *, same_cases: bool = False) -> tuple[SettingDifference, ...]:
    """
    Return the settings in which runs differ, those that affect answers first.

    Settings that are known for only one run are left out. With `same_cases`, settings that select cases are left out
    too.
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
    Return the value to display for a run that does not have a setting.

    For a comparer, a setting that is recorded only if it is set, and an engine option that another run of the same
    engine has, this is `not set`; otherwise it is `not known`.
    """
    if name.startswith("compare."):
        return NOT_SET
    if name in _ABSENT_IF_NOT_SET:
        return NOT_SET if "engine" in run else UNKNOWN  # files of other programs record no settings
    if not name.startswith("engine.") or "engine" not in run:
        return UNKNOWN
    same = [other for other in runs if "engine" in other and other["engine"].value == run["engine"].value]
    return NOT_SET if any(name in other for other in same) else UNKNOWN


def find_distinguishing_settings(runs: Sequence[Mapping[str, Setting]], *, same_cases: bool = False) -> list[str]:
    """Return the names of a few settings that together distinguish the runs."""
    chosen: list[str] = []
    for difference in differences(runs, same_cases=same_cases):
        if _groups(runs, (*chosen, difference.name)) > _groups(runs, chosen):
            chosen.append(difference.name)
    return chosen


def _groups(runs: Sequence[Mapping[str, Setting]], names: Sequence[str]) -> int:
    """Return the number of groups of runs that have equal values for all of these settings."""
    return len({tuple(_canonical(run[name].value) if name in run else None for name in names) for run in runs})


def _canonical(value: Any) -> Hashable:
    """Return a hashable key that is the same for equal values; booleans differ from numbers, and lists equal tuples."""
    return isinstance(value, bool), tuple(value) if isinstance(value, list) else value


def _text(name: str, value: object) -> str:
    if value is None:
        return "all" if name in _OF_ALL else "default"
    if isinstance(value, str):
        short = value[: len(_DIGEST) + _DIGITS] if value.startswith(_DIGEST) else value
        return short or '""'
    if name.startswith(_GROUPS["served"]) and isinstance(value, list | tuple):
        return ", ".join(value)
    if value in ([], ()):
        return "none"
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return json.dumps(value, ensure_ascii=False)
