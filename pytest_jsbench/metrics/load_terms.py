"""Define the settings of a run's load and service level that its figures need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_jsbench.core.service_level import ServiceLevel
from pytest_jsbench.settings.load_options import MOST_PLAIN, LoadOptions

if TYPE_CHECKING:
    from pytest_jsbench.records.metadata import RunMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTerms:
    """Settings of a run's load and service level."""

    #: Service level of the answers; None without one.
    service: ServiceLevel | None
    #: Names of the options of the load that the run sets.
    options: frozenset[str]
    #: Maximum number of plain calls next to one call; 0 without plain calls.
    plain_per_call: int
    #: Whether the run makes several attempts at a case.
    has_repeats: bool
    #: Whether the run was merged from others, whose calls were made at different times.
    is_merged: bool
    #: Time before which calls belong to an earlier run whose answers are reused, in seconds since 1970.
    since: float

    @classmethod
    def of(cls, metadata: RunMetadata) -> LoadTerms | None:
        """Return the settings of a run; None if it has no load and no service level."""
        if not metadata.has_load:
            return None
        is_resumed = metadata.resumed_from is not None
        return cls(
            service=ServiceLevel.parse(metadata.slo) if metadata.slo else None,
            options=options_of(metadata),
            plain_per_call=_plain_per_call(metadata.plain_share or 0.0),
            has_repeats=metadata.repeats > 1,
            is_merged=metadata.merged > 1,
            since=datetime.fromisoformat(metadata.started_at).timestamp() if is_resumed else 0.0,
        )


def _plain_per_call(share: float) -> int:
    """Return the maximum number of plain calls next to one call, if this share of all calls is plain."""
    share = min(share, MOST_PLAIN)  # a file may contain any share
    return math.ceil(share / (1 - share) - 1e-9)


def options_of(metadata: RunMetadata) -> frozenset[str]:
    """Return the names of the options of the load that a run sets."""
    return frozenset(name for name in LoadOptions.options if getattr(metadata, name))
