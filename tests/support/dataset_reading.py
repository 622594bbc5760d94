"""Helpers for tests of datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.datasets.base import Listing, Selection
from pytest_jsbench.datasets.registry import open_dataset


def opened(source: object, **selection: Any) -> Listing:
    return open_dataset(Selection(source=str(source), **selection))


def keys(source: object, **selection: Any) -> list[str]:
    return [str(key) for key in opened(source, **selection).keys()]


def read(source: object, name: str | None = None) -> Case | BrokenCase:
    """Return the only case, or the one with this id."""
    dataset = opened(source)
    (key,) = [key for key in dataset.keys() if name in {None, key.id}]
    return dataset.case(key)


def schema(source: object, name: str | None = None) -> Any:
    case = read(source, name)
    assert isinstance(case, Case), case
    return case.schema


def problem(source: object, name: str | None = None) -> str:
    case = read(source, name)
    assert isinstance(case, BrokenCase), case
    assert "\n" not in case.problem
    return case.problem


def write(root: Path, files: dict[str, Any]) -> Path:
    """Write files by name; values that are not text or bytes are written as JSON."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, str | bytes):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root
