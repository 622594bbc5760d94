"""What became of one attempt, on its way from the thread that made it to where reports land."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pytest_jsbench.missing import Missing
from pytest_jsbench.records import Record

if TYPE_CHECKING:
    from pytest_jsbench.cases import CaseKey
    from pytest_jsbench.limits import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one attempt."""

    result: Record | Missing
    #: whether it was taken over from an earlier run
    resumed: bool = False
    #: what went wrong with writing it down; empty when nothing did
    journal_error: str = ""
    #: one line for each classifier that broke
    classifier_errors: tuple[str, ...] = ()

    @classmethod
    def of_refused(cls, key: CaseKey, repeat: int, refused: Refused) -> Self:
        """The outcome of an attempt that was not to be made."""
        return cls(result=Missing(key=key, repeat=repeat, reason=refused.reason, message=refused.message))
