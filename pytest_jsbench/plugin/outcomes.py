"""What became of one attempt, on its way from the thread that made it to where reports land."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_jsbench.missing import Missing
from pytest_jsbench.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one attempt."""

    result: Record | Missing
    #: whether it was taken over from an earlier run
    resumed: bool = False
    #: what went wrong with writing it down; empty when nothing did
    journal_error: str = ""
