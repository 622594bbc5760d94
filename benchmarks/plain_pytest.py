"""
Run pytest as a user's environment does: with this plugin and those of its extras, but without the plugins that only our
tests need, of which some keep the traceback of each failed test in memory.
"""

from __future__ import annotations

import os
import sys

PYTEST = ("pytest", "-q", "-p", "xdist", "-p", "benchmark", "-p", "jsbench", "-p", "no:cacheprovider")


def pytest_command(*arguments: str) -> list[str]:
    """Return the command that runs pytest with these arguments, in an environment of `pytest_environment`."""
    return [sys.executable, "-m", *PYTEST, *arguments]


def pytest_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a run, with further variables; it lets Python use compiled bytecode, as users do."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables}
