"""What an error says to who calls functions: arguments have other names than the options of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_jsbench.core.errors import JSBenchError

_OPTION = re.compile(r"--jsbench-([a-z]+(?:-[a-z]+)*)")


@contextmanager
def said_to_programs() -> Iterator[None]:
    """Inside, an error that names an option such as `--jsbench-api-key-env` names the argument `api_key_env`."""
    try:
        yield
    except JSBenchError as error:
        error.args = tuple(_named(part) for part in error.args)
        error.where = _named(error.where)
        raise


def _named(said: object) -> object:
    return _OPTION.sub(lambda found: found[1].replace("-", "_"), said) if isinstance(said, str) else said
