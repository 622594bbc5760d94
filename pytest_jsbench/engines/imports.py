"""A user's own engine or function, found by name."""

from __future__ import annotations

from pytest_jsbench import imports
from pytest_jsbench.engines.messages import one_line
from pytest_jsbench.errors import EngineError, ImportFailed


def is_reference(text: str) -> bool:
    """Whether the text is of the form `package.module:name`."""
    return imports.is_reference(text) and not text.endswith("*")


def import_object(reference: str, *, purpose: str) -> object:
    """The object; EngineError, in one line without a key, when the module cannot be imported or has no such name."""
    if not is_reference(reference):
        message = f"{purpose}: {reference!r} is not of the form package.module:name"
        raise EngineError(message)
    try:
        return imports.import_object(reference, purpose=purpose)
    except ImportFailed as error:
        raise EngineError(one_line(str(error))) from error
