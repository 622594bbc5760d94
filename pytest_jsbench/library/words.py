"""What an error says to who calls functions: arguments have other names than the options of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_jsbench.core.errors import JSBenchError

#: what pytest is asked for keeps its name
_OPTION = re.compile(r"(?<!pytest )--jsbench-([a-z]+(?:-[a-z]+)*)")
#: an engine's own option is an argument by its own name
_ENGINE_OPTION = re.compile(r"--jsbench-engine-option[ =](?=\w+=)")
#: the arguments that are not called as their options
_OTHERWISE = {
    "comparer": "comparers",
    "engine_option": "argument",
    "rpm": "requests_per_minute",
    "tpm": "tokens_per_minute",
    "where": "filter",
}


@contextmanager
def said_to_programs() -> Iterator[None]:
    """Inside, an error that names an option such as `--jsbench-api-key-env` names the argument `api_key_env`."""
    try:
        yield
    except JSBenchError as error:
        error.args = tuple(named(part) if isinstance(part, str) else part for part in error.args)
        error.where = named(error.where) if isinstance(error.where, str) else error.where
        raise


def named(said: str) -> str:
    """The text with arguments where it names options."""
    return _OPTION.sub(_argument, _ENGINE_OPTION.sub("", said))


def _argument(found: re.Match[str]) -> str:
    name = found[1].replace("-", "_")
    return _OTHERWISE.get(name, name)
