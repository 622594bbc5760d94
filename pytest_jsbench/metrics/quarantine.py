"""Read the list of quarantined cases, whose failures do not decide a run until a date, and leave them out of a run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Self, TypedDict

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.files import FileReader
from pytest_jsbench.core.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_jsbench.metrics.case_outcomes import CaseOutcome
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.runs import Run

_ENTRY = re.compile(r"(?P<case>\S+::\S+?): +(?P<until>\d{4}-\d{2}-\d{2}): *(?P<reason>\S.*)")
_EXPECTED = "CASE: YYYY-MM-DD: REASON, such as orders::refund: 2027-01-31: the server drops `pattern`"
#: Maximum size of the list in bytes.
_LARGEST = 1_000_000
_LONGEST_REASON = 200


class QuarantineFigures(TypedDict):
    """An entry of the list of quarantined cases in run.json."""

    #: Name of the case (task::id).
    case: str
    #: Last day (ISO 8601, UTC) on which a failure is excused.
    until: str
    #: Reason in the list.
    reason: str
    #: What became of the case: failed (excused), passed, undecided, expired (counts again), or no_case.
    state: str


class QuarantineState(StrEnum):
    """What became of a quarantined case in a run."""

    #: Some attempt failed, which does not decide the run.
    FAILED = "failed"
    #: Every attempt passed, so that the entry can be removed.
    PASSED = "passed"
    #: No attempt failed, but the result of some attempt is unknown.
    UNDECIDED = "undecided"
    #: The date has passed, so that the case counts again.
    EXPIRED = "expired"
    #: The run has no such case.
    NO_CASE = "no_case"


#: States of cases that do not decide a run.
_EXCUSED = frozenset({QuarantineState.FAILED, QuarantineState.PASSED, QuarantineState.UNDECIDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineEntry:
    """A case whose failure does not decide a run until a date."""

    case: CaseKey
    #: Last day (UTC) on which the failure is excused.
    until: date
    reason: str

    def is_active(self, today: date) -> bool:
        """Return whether a failure is still excused on this day."""
        return today <= self.until

    @property
    def excuse(self) -> str:
        """Reason for pytest and reports, with the date."""
        return f"quarantined until {self.until.isoformat()}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The quarantined cases on the day of a run."""

    #: Name of the file.
    source: str
    #: The day of the run in UTC.
    today: date
    entries: Mapping[CaseKey, QuarantineEntry]

    @classmethod
    def read(cls, path: Path, today: date = date.min) -> Self:
        """Read the list, before or on the day of a run; raise JSBenchError that names the first invalid line."""
        entries: dict[CaseKey, QuarantineEntry] = {}
        text = FileReader(largest=_LARGEST, error=JSBenchError).read_text(path)
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            try:
                entry = _parse(line)
                if entry.case in entries:
                    raise ValueError(f"a second entry for {entry.case}; expected one")
            except ValueError as error:
                message = f"{path}:{number}: {error}"
                raise JSBenchError(message, found=printable(line, 200), where=f"{path}:{number}") from None
            entries[entry.case] = entry
        return cls(source=path.name, today=today, entries=entries)

    def of_run(self, metadata: RunMetadata) -> Self:
        """Return the list for the day on which a run started."""
        return replace(self, today=date.fromisoformat(metadata.started_at[:10]))

    @property
    def active(self) -> dict[CaseKey, QuarantineEntry]:
        """Entries of the cases whose failures are excused on the day of the run."""
        return {key: entry for key, entry in self.entries.items() if entry.is_active(self.today)}

    def report(self, outcomes: Mapping[CaseKey, CaseOutcome], planned: Collection[CaseKey]) -> QuarantineReport:
        """Return what became of each entry in a run with these outcomes, over all variants, and these planned cases."""
        states = {key: self._state_of(key, outcomes.get(key), planned) for key in self.entries}
        return QuarantineReport(quarantine=self, states=states)

    def _state_of(self, key: CaseKey, outcome: CaseOutcome | None, planned: Collection[CaseKey]) -> QuarantineState:
        if key not in planned:
            return QuarantineState.NO_CASE
        if not self.entries[key].is_active(self.today):
            return QuarantineState.EXPIRED
        if outcome is None:  # the schema is invalid
            return QuarantineState.UNDECIDED
        if outcome.failed:
            return QuarantineState.FAILED
        return QuarantineState.PASSED if outcome.passed else QuarantineState.UNDECIDED


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineReport:
    """What became of the quarantined cases in a run."""

    quarantine: Quarantine
    states: Mapping[CaseKey, QuarantineState]

    @property
    def left_out(self) -> frozenset[CaseKey]:
        """Cases of the run whose failures are excused."""
        return frozenset(key for key, state in self.states.items() if state in _EXCUSED)

    def having(self, state: QuarantineState) -> list[QuarantineEntry]:
        """Return the entries with this state, in the order of the file."""
        return [self.quarantine.entries[key] for key, found in self.states.items() if found is state]

    def to_list(self) -> list[QuarantineFigures]:
        """Return the entries as JSON values."""
        return list(self._rows())

    def _rows(self) -> Iterator[QuarantineFigures]:
        for key, state in self.states.items():
            entry = self.quarantine.entries[key]
            yield {
                "case": str(key),
                "until": entry.until.isoformat(),
                "reason": entry.reason,
                "state": state.value,
            }


def leave_out(run: Run, keys: Collection[CaseKey]) -> Run:
    """Return the run without these cases, as if it had not planned them."""

    def without(plan: Mapping[str, Sequence[str]] | None) -> dict[str, list[str]] | None:
        if plan is None:
            return None
        return {task: [name for name in ids if CaseKey(task=task, id=name) not in keys] for task, ids in plan.items()}

    metadata = run.metadata
    variants = tuple(replace(variant, plan=without(variant.plan)) for variant in metadata.variants)
    return replace(
        run,
        metadata=replace(metadata, plan=without(metadata.plan), variants=variants),
        planned=tuple(key for key in run.planned if key not in keys),
        outcomes=tuple(outcome for outcome in run.outcomes if outcome.key not in keys),
        missing=tuple(missing for missing in run.missing if missing.key not in keys),
    )


def _parse(line: str) -> QuarantineEntry:
    """Parse an entry; raise ValueError if it is invalid."""
    parts = _ENTRY.fullmatch(line.strip())
    if parts is None:
        raise ValueError(f"found '{printable(line.strip(), 80)}'; expected {_EXPECTED}")
    try:
        until = date.fromisoformat(parts["until"])
    except ValueError as error:
        raise ValueError(f"invalid date {parts['until']}: {error}; expected YYYY-MM-DD") from None
    return QuarantineEntry(
        case=CaseKey.parse(parts["case"]), until=until, reason=printable(parts["reason"], _LONGEST_REASON)
    )
