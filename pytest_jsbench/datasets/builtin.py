"""The built-in schemas: `datasets/schemas/<task>/<id>.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.datasets.base import ListedCase, Listing, Selection

_ROOT = files("pytest_jsbench.datasets").joinpath("schemas")
TASKS = ("simple", "medium", "hard", "very_hard")


def open_builtin(selection: Selection) -> Listing:
    """The selection's part of them."""

    def read(key: CaseKey) -> Case:
        return Case(key=key, schema=load(key)["schema"])

    names = [(task, name) for task in TASKS for name in sorted(file.name for file in _ROOT.joinpath(task).iterdir())]
    return Listing.of(
        selection,
        (
            ListedCase(task=task, name=name.removesuffix(".json"), where=name, read=read)
            for task, name in names
            if name.endswith(".json")
        ),
    )


def load(key: CaseKey) -> Mapping[str, Any]:
    """A built-in case whole: `schema`, its `valid` instances, and its `invalid` ones with what they must get."""
    text = _ROOT.joinpath(key.task, f"{key.id}.json").read_text(encoding="utf-8")
    data: Mapping[str, Any] = json.loads(text)
    return data
