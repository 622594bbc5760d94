"""The settings that a run was made with, each by its name; and in which of them several runs differ."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pytest_jsbench.core.text import distinct, printable


class Bearing(StrEnum):
    """The part of a run that a setting bears on."""

    ANSWERS = "answers"
    #: how strictly answers are judged
    VERDICTS = "verdicts"
    #: how values are compared with the expected ones
    VALUES = "values"
    #: which cases are asked, and how often
    CASES = "cases"
    #: how long answers take, and nothing else
    TIMES = "times"


#: where a run's metadata has each setting, those first that people tell runs apart by
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
#: of a run that does not say: the first rules had no number, and only a program makes steps
_UNSAID: Mapping[str, Any] = {"versions.judge": "1", "dataset.steps": []}
#: objects of the metadata of which each member is a setting, and what their names begin with
_GROUPS: Mapping[str, tuple[Bearing, str]] = {
    "details": (Bearing.ANSWERS, "engine."),
    "policy": (Bearing.VERDICTS, "judge."),
    "comparers": (Bearing.VALUES, "compare."),
    "host": (Bearing.TIMES, "host."),
}
#: members of those that bear on something else
_OTHERWISE = {"engine.slots": Bearing.TIMES, "judge.timeout": Bearing.TIMES}
#: of which a change is said by the change of another
_IMPLIED_BY = {"prompt_digest": ("prompt", "shots")}
#: engines that say answers of another time again, and what this run asked for has no part in those
RECORDED = ("replay", "recorded")
#: engines whose models run where the run does, so that those that are asked at once share a machine
ON_THIS_MACHINE = frozenset({"local", "llguidance", "outlines", "xgrammar"})
#: which of them stands in the record of an answer that a run took from its recordings instead of asking
REMEMBERED = "recorded"
#: stands there of an answer that an application got by itself: nobody asked for it, and it is never said again
HANDED_IN = "application"
#: settings that take some of the cases: without them it is all
_OF_ALL = frozenset({"tasks", "limit", "sample", "shard"})
#: settings that choose cases: where two runs had the same ones, it does not matter how those were chosen
_SELECTION = frozenset({"split", "tasks", "limit", "where", "sample", "sample_seed", "shard"})
#: a program's step that changes cases, and does not choose them, begins so
_CHANGING_STEP = "map "
_SAMPLING = frozenset({"temperature", "max_tokens", "seed"})
#: of values that are shown: in the name of a run, and where runs differ
_LONGEST, _LONGEST_OF_DIFFERENCE = 40, 100
#: of names, of what a stranger's file may call an option
_LONGEST_NAME = 80
#: objects within each other that are taken apart
_DEEPEST = 6
_DIGEST = "sha256:"
_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting of a run."""

    name: str
    bears_on: Bearing
    #: a JSON value; None is whatever the engine or the provider does by itself
    value: Any

    @property
    def shown(self) -> str:
        """The value for people."""
        return printable(_text(self.name, self.value), _LONGEST, cut="middle")

    @property
    def label(self) -> str:
        """The setting in a name of its run; what is well known by its value alone goes without its own name."""
        if self.name in {"engine", "model", "response_format"}:
            return self.shown
        return f"{self.name.rpartition('.')[2]} {self.shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """A setting in which runs differ, with its value in each of them, in their order."""

    #: as of the option; of an engine's own after engine., of the judge's after judge.
    name: str
    #: what it changes
    bears_on: Bearing
    #: of each run in their order: `not known` where it does not say, `not set` for an option that was not given to an
    #: engine; None is what the engine or the provider does by itself
    values: tuple[Any, ...]

    @property
    def shown(self) -> tuple[str, ...]:
        """The values for people; those that differ look different, however long they are."""
        texts = [_text(self.name, value) for value in self.values]
        different = list(dict.fromkeys(texts))
        shown = dict(zip(different, distinct(different, _LONGEST_OF_DIFFERENCE), strict=True))
        return tuple(shown[text] for text in texts)


#: stands for the value of a setting in a run that does not say, and for that of an engine's option that was not given
UNKNOWN, NOT_SET = "not known", "not set"


def settings_of(metadata: Mapping[str, Any]) -> dict[str, Setting]:
    """The settings in a run's metadata, as JSON values, by name; what is not there is not among them."""
    settings: dict[str, Setting] = {}
    for bears_on, places in _PLACES.items():
        for place in places:
            group, _, member = place.rpartition(".")
            holder, name = metadata.get(group) if group else metadata, "dataset" if member == "source" else member
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
    """Each value that is no object, by the way to it: what is sent beside a request may be nested."""
    for name, value in sorted(members.items()):
        if _is_simple(value):
            yield name, value
        elif isinstance(value, Mapping) and levels:
            yield from ((f"{name}.{inner}", leaf) for inner, leaf in _leaves(value, levels - 1))
        else:
            yield name, json.dumps(value, sort_keys=True)


def _is_simple(value: object) -> bool:
    """True where it is a value of a setting, which a file of a stranger may not have in its place."""
    return isinstance(value, str | int | float | bool | None) or (
        isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
    )


def differences(runs: Sequence[Mapping[str, Setting]], *, same_cases: bool = False) -> tuple[SettingDifference, ...]:
    """
    The settings in which runs differ, those first that bear on answers; what only one of them knows is not one.

    Where runs had the `same_cases`, it is no difference that they chose them in other ways.
    """
    if same_cases:
        kept = [{name: setting for name, setting in run.items() if name not in _SELECTION} for run in runs]
        for run in kept:
            if (steps := run.get("steps")) is not None and isinstance(steps.value, list | tuple):
                run["steps"] = replace(steps, value=[step for step in steps.value if step.startswith(_CHANGING_STEP)])
        runs = kept
    differing: dict[str, SettingDifference] = {}
    for name in dict.fromkeys(name for run in runs for name in run):
        values = tuple(run[name].value if name in run else _absent(name, run, runs) for run in runs)
        if len({_canonical(value) for value in values if value is not UNKNOWN}) > 1:
            bears_on = next(run[name].bears_on for run in runs if name in run)
            differing[name] = SettingDifference(name=name, bears_on=bears_on, values=values)
    for name, others in _IMPLIED_BY.items():
        if name in differing and _groups(runs, others) == _groups(runs, (*others, name)):
            del differing[name]
    order = list(Bearing)
    return tuple(sorted(differing.values(), key=lambda difference: order.index(difference.bears_on)))


def _absent(name: str, run: Mapping[str, Setting], runs: Sequence[Mapping[str, Setting]]) -> str:
    """
    The value of what a run does not name: not set where it is a comparer.

    An engine's own option is not set where another run of the same engine has it.
    """
    if name.startswith("compare."):
        return NOT_SET
    if not name.startswith("engine.") or "engine" not in run:
        return UNKNOWN
    same = [other for other in runs if "engine" in other and other["engine"].value == run["engine"].value]
    return NOT_SET if any(name in other for other in same) else UNKNOWN


def distinguishing(runs: Sequence[Mapping[str, Setting]], *, same_cases: bool = False) -> list[str]:
    """Names of settings by which the runs can be told apart, as far as that is possible: as few as will do."""
    chosen: list[str] = []
    for difference in differences(runs, same_cases=same_cases):
        if _groups(runs, (*chosen, difference.name)) > _groups(runs, chosen):
            chosen.append(difference.name)
    return chosen


def _groups(runs: Sequence[Mapping[str, Setting]], names: Sequence[str]) -> int:
    """The number of groups that the runs make by their values of these settings."""
    return len({tuple(_canonical(run[name].value) if name in run else None for name in names) for run in runs})


def _canonical(value: Any) -> Hashable:
    """A key that equal values share: a truth value is no number, and a list may have been a tuple."""
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
