"""`package.module:name`: a user's own object, found by name."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

from pytest_jsbench.core.text import described
from pytest_jsbench.errors import ImportFailed, nearest

_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_REFERENCE = re.compile(rf"{_NAME}:(?:{_NAME}|\*)")


def is_reference(text: str) -> bool:
    """Whether the text is of the form `package.module:name`, or `package.module:*`."""
    return _REFERENCE.fullmatch(text) is not None


def import_object(reference: str, *, purpose: str) -> object:
    """The object, or the module itself for `*`; ImportFailed, in one line, when it cannot be had."""
    if not is_reference(reference):
        message = f"{purpose}: {reference!r} is not of the form package.module:name"
        raise ImportFailed(message)
    module_name, _, path = reference.partition(":")
    # last, so that no file of the user's folder stands in for another module; for good, since modules import late
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        found: object = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        message = f"{purpose}: cannot import {module_name}: {described(error)}"
        raise ImportFailed(message) from error
    for name in path.split(".") if path != "*" else ():
        if not hasattr(found, name):
            names = [public for public in dir(found) if not public.startswith("_")]
            message = f"{purpose}: {module_name} has no '{name}': {nearest(name, names)}"
            raise ImportFailed(message)
        found = getattr(found, name)
    return found
