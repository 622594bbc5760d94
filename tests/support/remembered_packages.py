"""
Reads the metadata of the installed packages once for all sessions of a process.

Each session of pytest reads the entry points, files and versions of all installed packages several times, which takes a
fifth of the time of a short session. Packages in other folders, such as those that a test makes, are read as usual.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution
from typing import Any


class CachedAnswer(Distribution):
    """An installed package whose metadata is read once."""

    def __init__(self, found: Distribution) -> None:
        self._found = found
        self._texts: dict[str, str | None] = {}

    def read_text(self, filename: str) -> str | None:
        """Read one of its files of metadata."""
        if filename not in self._texts:
            self._texts[filename] = self._found.read_text(filename)
        return self._texts[filename]

    def locate_file(self, path: str | os.PathLike[str]) -> Any:
        """Return where one of its files is."""
        return self._found.locate_file(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)


for _name in ("metadata", "entry_points", "files"):
    _remembered = functools.cached_property(getattr(Distribution, _name).fget)
    _remembered.__set_name__(CachedAnswer, _name)
    setattr(CachedAnswer, _name, _remembered)


def remember_packages() -> None:
    """From now on read the metadata in each of the present site-packages once."""
    read: Any = Distribution.discover
    if getattr(read, "remembers", False):
        return
    fixed = {path for path in sys.path if path.endswith("site-packages")}

    @functools.cache
    def installed(path: str, **name: str) -> tuple[CachedAnswer, ...]:
        return tuple(map(CachedAnswer, read(path=[path], **name)))

    def discover(**context: Any) -> Iterator[Distribution]:
        if not context.keys() <= {"name"}:
            yield from read(**context)
            return
        for path in list(sys.path):
            yield from installed(path, **context) if path in fixed else read(path=[path], **context)

    discover.remembers = True  # type: ignore[attr-defined]
    Distribution.discover = discover  # type: ignore[method-assign]
