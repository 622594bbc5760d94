"""The verdict of a run: whether it passed, with which exit status, and why; made once, and shown by every output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeGuard

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.text import printable

#: characters of one reason, in which the node ids of several tests have room
_LONGEST = 2000


class RunStatus(StrEnum):
    """How a run ended."""

    PASSED = "passed"
    #: something was found to be wrong
    FAILED = "failed"
    #: nothing was, but too much is missing to say that all is right
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """What was decided of a run."""

    status: RunStatus
    #: of pytest, or of the command that decided
    exit_status: int
    #: one line each, fit to be shown anywhere
    because: tuple[str, ...]

    @classmethod
    def of(cls, status: RunStatus, exit_status: int, because: list[str]) -> RunVerdict:
        """The verdict for these reasons, whatever text they hold."""
        return cls(
            status=status, exit_status=exit_status, because=tuple(printable(reason, _LONGEST) for reason in because)
        )

    def overruled(self, exit_status: int, reason: str) -> RunVerdict:
        """The verdict where somebody else has the last word."""
        status = RunStatus.PASSED if exit_status == 0 else RunStatus.FAILED if self.passed else self.status
        kept = () if self.passed else self.because
        return RunVerdict.of(status, exit_status, [*kept, reason])

    @property
    def passed(self) -> bool:
        """Whether the exit status is that of success."""
        return self.status is RunStatus.PASSED

    @property
    def text(self) -> str:
        """The verdict as one line."""
        return f"{self.status.upper()}: {'; '.join(self.because)}"

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        return {"status": self.status.value, "exit_status": self.exit_status, "because": list(self.because)}

    @classmethod
    def from_dict(cls, data: Any) -> RunVerdict:
        """The inverse of `to_dict`; RecordError where it is none."""
        known = data if isinstance(data, Mapping) else {}
        status, exit_status, because = (known.get(name) for name in ("status", "exit_status", "because"))
        if status in list(RunStatus) and type(exit_status) is int and _are_texts(because):
            return cls.of(RunStatus(status), exit_status, because)
        message = 'a verdict is not {"status": passed, failed or incomplete, "exit_status": number, "because": texts}'
        raise RecordError(message)

    @classmethod
    def from_run_json(cls, data: Mapping[str, Any]) -> RunVerdict | None:
        """What a run.json says; None in one that was written before there were verdicts."""
        return None if data.get("verdict") is None else cls.from_dict(data["verdict"])


def _are_texts(values: object) -> TypeGuard[list[str]]:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
