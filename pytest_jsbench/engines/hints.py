"""Which of our options to change, when a provider does not take a parameter that one of them sends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_jsbench.engines.provider_errors import ProviderError

#: what is sent because an option of ours says so
PARAMETERS = "max_completion_tokens|max_output_tokens|max_tokens|temperature|seed|stream_options|stream"
_NAMED = re.compile(rf"\b({PARAMETERS})\b")
_NOT_TAKEN = re.compile(
    r"unsupported|not support|unknown|unrecognized|unexpected|deprecated|not permitted|not allowed|not available"
    r"|only the default|only 1 is allowed|instead",
    re.IGNORECASE,
)
_RENAME = "--jsbench-engine-option max_tokens_field="
_UNWANTED = {
    "max_tokens": f"{_RENAME}max_completion_tokens",
    "max_completion_tokens": f"{_RENAME}max_tokens",
    "temperature": "leave --jsbench-temperature away",
    "seed": "leave --jsbench-seed away",
    "stream": "--jsbench-engine-option stream=false",
    "stream_options": "--jsbench-engine-option stream=false",
}
_LIMITS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})


def find_hint(error: ProviderError) -> str | None:
    """The option to change; None for a complaint about anything else."""
    named = _NAMED.fullmatch(error.param) or (None if error.param else _NAMED.search(error.message))
    if named is None:
        return None
    # a limit that is only too high is known by its name, but taken
    if _NOT_TAKEN.search(error.message):
        return _UNWANTED.get(named[1])
    return "another --jsbench-max-tokens" if named[1] in _LIMITS else None
