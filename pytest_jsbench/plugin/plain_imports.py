"""
Import the modules of this package without pytest's assertion rewriting.

pytest rewrites each module of a distribution that registers a plugin. In a fresh environment, this compiles all modules
again and takes a second; later, pytest still reads and hashes each source. The documented exception, a word in each
docstring, saves neither.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import pytest

_PACKAGE = "pytest_jsbench."
#: Module with tests that other packages subclass; a failed assertion there must show its values.
_TESTS = "pytest_jsbench.testing"


class PlainImports:
    """Finds the modules of this package as Python does; added to `sys.meta_path` ahead of pytest's own finder."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the specification of a module of this package; None for any other module."""
        if not name.startswith(_PACKAGE) or name == _TESTS:
            return None
        return PathFinder.find_spec(name, path, target)


def import_plainly(config: pytest.Config) -> None:
    """Import the modules of this package plainly until the end of the session."""
    sys.meta_path.insert(0, PlainImports)
    config.add_cleanup(_stop)


def _stop() -> None:
    with suppress(ValueError):  # another plugin may have restored the list
        sys.meta_path.remove(PlainImports)
