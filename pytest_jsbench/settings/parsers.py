"""Parse the texts of options; the message of a ValueError states what was expected and found."""

from __future__ import annotations

import json
import os
from typing import Any


def assignment(text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE; the value is parsed as JSON if possible, and is a string otherwise."""
    key, separator, value = text.partition("=")
    if not (key and separator):
        # do not quote the text: without =, it may be the value alone, possibly a secret
        raise ValueError(f"expected KEY=VALUE, found {'no =' if not separator else 'no KEY'}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def comparer(text: str) -> tuple[str, Any]:
    """Parse FIELD=HOW, such as `total=tolerance:0.01`."""
    from pytest_jsbench.values.comparers import read_comparer

    return read_comparer(text)


def export(text: str) -> tuple[str, str]:
    """Parse NAME=PATH for an exporter."""
    name, separator, path = text.partition("=")
    if not (name and separator and path):
        raise ValueError(f"expected NAME=PATH, such as every_eval_ever=exported, found {text!r}")
    return name, path


def shard(text: str) -> Any:
    """Parse a shard such as 2/5; for auto/5, take the number from environment variables."""
    from pytest_jsbench.datasets.selection import Shard

    return Shard.parse(text, os.environ)


def names(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of names."""
    parts = tuple(name.strip() for name in text.split(",") if name.strip())
    if not parts:
        raise ValueError(f"expected names separated by commas, found {text!r}")
    return parts


def extra_fields(text: str) -> str | tuple[str, ...]:
    """Parse `fail`, `allow`, or the names of ignored fields."""
    return text if text in {"fail", "allow"} else names(text)


def sample(text: str) -> tuple[int, int]:
    """Parse SIZE or SIZE:SEED for a random sample of cases."""
    size, separator, seed = text.partition(":")
    if not (size.isascii() and size.isdecimal() and int(size)) or (separator and not seed.isdecimal()):
        raise ValueError(f"expected a whole number of at least 1, alone or with a seed as in 300:7, found {text!r}")
    return int(size), int(seed or 0)


def arrival_rate(text: str) -> Any:
    """Parse N/s or N/s:poisson."""
    from pytest_jsbench.core.arrivals import ArrivalRate

    return ArrivalRate.parse(text)


def service_level(text: str) -> Any:
    """Parse limits on times, such as ttft<=0.5,tgt<=4."""
    from pytest_jsbench.core.service_level import ServiceLevel

    return ServiceLevel.parse(text)


def response_format(text: str) -> Any:
    """Parse the name of a `ResponseFormat`."""
    from pytest_jsbench.core.generations import ResponseFormat

    return ResponseFormat(text)


def adaptation(text: str) -> tuple[str, str]:
    """Parse MODE or MODE:SUBSET for the adaptation of schemas."""
    from pytest_jsbench.adaptation.subsets import SUBSETS, find_subset

    mode, separator, subset = text.partition(":")
    if mode not in {"verbatim", "narrow", "relax"} or (bool(separator) != (find_subset(subset) is not None)):
        known = ", ".join(SUBSETS)
        raise ValueError(f"expected verbatim, narrow[:SUBSET] or relax[:SUBSET] (subsets: {known}), found {text!r}")
    return mode, subset


def rewritings(text: str) -> tuple[str, ...]:
    """Parse the names of rewritings, such as `order,inline` or `order:7`."""
    from pytest_jsbench.adaptation.rewriting import Rewriting

    return tuple(dict.fromkeys(str(Rewriting.parse(name)) for name in names(text)))


#: Maximum number of second tries of one answer.
MOST_REPAIRS = 10


def repairs(text: str) -> tuple[int, str]:
    """Parse N, N:errors or N:blind for the second tries of a wrong answer."""
    number, separator, follow_up = text.partition(":")
    count = int(number) if number.isascii() and number.isdecimal() and len(number) < 3 else -1
    is_known = follow_up in {"errors", "blind"} or not separator
    if not (0 <= count <= MOST_REPAIRS and is_known):
        raise ValueError(f"expected a whole number from 0 to {MOST_REPAIRS}, alone or as in 2:blind, found {text!r}")
    return count, follow_up or "errors"
