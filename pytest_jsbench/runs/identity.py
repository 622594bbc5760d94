"""Whether two runs ask the same, so that an answer to one is an answer to the other."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pytest_jsbench.runs.records import RunMetadata

#: what must be the same for an answer to one to be an answer to the other
_IDENTITY = ("engine", "model", "response_format", "provider", "adapt")
_PARAMS = ("max_tokens", "temperature", "seed")
#: what an engine says of itself that does not change answers: versions of packages, and how many calls it takes at once
_VERSION = re.compile(r"v?\d+(\.\w+)*|unknown")
_CAPACITY = frozenset({"slots"})


def difference(theirs: RunMetadata, ours: RunMetadata) -> str:
    """The first thing that the two do not ask alike, as half a sentence; empty where there is none."""
    for name in _IDENTITY:
        if (then := getattr(theirs, name)) != (now := getattr(ours, name)):
            return f"{name} {_said(then)}, this one {_said(now)}"
    for name in _PARAMS:
        if (then := _asked(theirs).get(name)) != (now := _asked(ours).get(name)):
            return f"with {name} {_said(then)}, this one with {_said(now)}"
    if (then := engine_settings(theirs)) != (now := engine_settings(ours)):
        return f"with the engine's options {_said(then)}, this one with {_said(now)}"
    return ""


def _asked(metadata: RunMetadata) -> Mapping[str, Any]:
    return metadata.params if metadata.asked_params is None else metadata.asked_params


def engine_settings(metadata: RunMetadata) -> dict[str, Any]:
    """What an engine says of itself that changes answers."""
    return {
        name: value
        for name, value in metadata.details.items()
        if name not in _CAPACITY and not (isinstance(value, str) and _VERSION.fullmatch(value))
    }


def _said(value: object) -> str:
    return json.dumps(value, ensure_ascii=True)
