"""
Spell the options in messages as an entry point does.

All messages spell an option as pytest does, including messages from files and from third-party engines. The table of
options tells an option in a message from any other text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.settings.option import Option
from pytest_jsbench.settings.options import BY_FLAG

#: Options that are not part of a pytest command.
_IN_MESSAGE = re.compile(rf"(?<!pytest )({'|'.join(sorted(BY_FLAG, reverse=True))})(?!-?[a-z])")


def spelled(message: str, spell: Callable[[Option[Any]], str]) -> str:
    """Return the message with each option spelled by `spell`; options of a pytest command stay unchanged."""
    return _IN_MESSAGE.sub(lambda match: spell(BY_FLAG[match[1]]), message)


@contextmanager
def rewritten_errors(rewrite: Callable[[str], str]) -> Iterator[None]:
    """Rewrite the messages of user-facing errors."""
    try:
        yield
    except JSBenchError as error:
        error.args = tuple(rewrite(part) if isinstance(part, str) else part for part in error.args)
        raise
