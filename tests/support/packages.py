"""Install third-party packages as pip does."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(site: Path, files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a package's modules and the metadata of its pyproject.toml to a place where Python finds them."""
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    project = tomllib.loads(files["pyproject.toml"])["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(site)
    importlib.invalidate_caches()
