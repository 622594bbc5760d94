"""Attempts that were planned and have no record: why not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_jsbench.cases import CaseKey


class MissingReason(StrEnum):
    """Why a planned attempt was not made, or never heard of."""

    #: a limit that the user set: --jsbench-max-cost
    LIMIT = "limit"
    #: it is in a provider's batch that has not ended
    BATCH = "batch"
    #: records could not be written any more, and what cannot be kept is not paid for
    DISK = "disk"
    #: the session ended first: Ctrl-C, -x, --maxfail
    STOPPED = "stopped"
    #: the process that made it died
    WORKER_DIED = "worker_died"
    #: its test broke before or beside the call
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A planned attempt without a record."""

    key: CaseKey
    repeat: int
    reason: MissingReason
    #: one line; empty where the reason says it all
    message: str = ""
