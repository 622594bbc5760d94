"""Merge option values from several sources, such as the command line and the ini file, and convert their paths."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, assert_never

from pytest_jsbench.core.extensions import is_reference
from pytest_jsbench.datasets.source_names import SERVER, split_document
from pytest_jsbench.settings.option import FileUse, Option, Values
from pytest_jsbench.settings.options import BY_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionLayer:
    """Option values from one source; an option that is missing or None is not set there."""

    values: Values
    #: Directory to which the paths in the values are relative.
    folder: Path


def merge(*layers: OptionLayer, here: Path) -> dict[str, Any]:
    """
    Return the options that are set, each with the value from the first layer that sets it.

    Paths are converted to paths relative to the directory `here`.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.values.items():
            if value is not None and name not in merged:
                merged[name] = place(BY_NAME[name], value, layer.folder, here)
    return merged


def place(option: Option[Any], value: Any, start: Path, here: Path) -> Any:
    """Convert the paths in an option's value, which are relative to `start`, to paths relative to `here`."""
    convert: Callable[[Any], Any]
    match option.file:
        case FileUse.NEVER:
            return value
        case FileUse.ALWAYS:
            convert = partial(_join, start)
        case FileUse.MAYBE:
            convert = partial(place_path, start=start, here=here)
        case _:
            assert_never(option.file)
    if not option.repeated:
        return convert(value)
    return [(part[0], convert(part[1])) if isinstance(part, tuple) else convert(part) for part in value]


def _join(start: Path, path: Any) -> Path:
    return start / str(path)


def place_path(value: Any, start: Path, here: Path) -> Any:
    """Convert a path relative to `start` to a path relative to `here`; return any other value unchanged."""
    if start == here or not isinstance(value, str):
        return value
    parts = split_document(value, start)
    if parts is not None:
        document, tools = (place_path(part, start, here) for part in parts)
        return f"{document}@{tools}"
    is_there = (start / value).exists()
    is_module = is_reference(value.partition("@")[0])  # such as `package.module:*` or `package.module:*@serialization`
    is_pattern = glob.has_magic(value) and not is_module and not value.startswith(SERVER)
    if not (is_there or is_pattern):
        return value
    try:
        return os.path.relpath(start / value, here)
    except ValueError:  # the path is on another drive
        return str(start / value)
