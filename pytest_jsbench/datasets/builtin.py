"""The schemas that come with the package, each with instances that must and must not pass."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from pytest_jsbench.cases import Case, CaseKey
from pytest_jsbench.datasets.base import Selection, choose_tasks

TASKS = ("simple", "medium", "hard", "very_hard")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinDataset:
    """The built-in schemas (`pytest_jsbench/datasets/schemas/<task>/<id>.json`)."""

    selected: tuple[CaseKey, ...]

    @classmethod
    def open(cls, selection: Selection) -> BuiltinDataset:
        """The selection's part of them."""
        keys: list[CaseKey] = []
        for task in choose_tasks("builtin", TASKS, selection.tasks):
            names = sorted(entry.name for entry in _root().joinpath(task).iterdir() if entry.name.endswith(".json"))
            keys += [CaseKey(task=task, id=name.removesuffix(".json")) for name in names[: selection.limit]]
        return cls(selected=tuple(keys))

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return self.selected

    def case(self, key: CaseKey) -> Case:
        """One of them."""
        return Case(key=key, schema=load(key)["schema"])


def load(key: CaseKey) -> Mapping[str, Any]:
    """A built-in case whole: `schema`, its `valid` instances, and its `invalid` ones with what they must get."""
    text = _root().joinpath(key.task, f"{key.id}.json").read_text(encoding="utf-8")
    data: Mapping[str, Any] = json.loads(text)
    return data


def _root() -> Traversable:
    return files("pytest_jsbench.datasets").joinpath("schemas")
