"""What reports hold of each record, made while the run goes."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.child_process import ChildProcess, Program
from pytest_jsbench.runs.records import Record

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_jsbench.reports.html.case_list import CaseList
    from pytest_jsbench.runs.outcomes import AttemptOutcome, Run
    from pytest_jsbench.runs.records import Attempt, OwnOutcome, RunMetadata

#: attempts of which everything is made at the end; as many as the page lists at once
FEW = 100
#: attempts that the process is told of at once
_AT_ONCE = 16
#: seconds that the end of a run waits for the process
_PATIENCE = 30.0


class LiveOutputs:
    """
    What is written of each record, made while the run goes: report.html's cases and every_eval_ever's rows.

    The controller of a run that is kept makes one, and adds each attempt in the main thread when it is reported. A
    process of its own reads the records and makes the rows, so that it takes nothing of this one's time; a thread asks
    it. Before the records' files are removed, `finish` waits for the rest, for a while. `made_of` then gives what was
    made, if it is of exactly the run's attempts; else, and where the process fails, all is made of the records on disk.
    `close` ends both, and leaves nothing of a file that was not finished.
    """

    def __init__(self, folder: Path, metadata: RunMetadata) -> None:
        self._folder = folder
        self._program = Program(
            module="pytest_jsbench.lab.interchange.live_rows",
            settings={"folder": str(folder.absolute()), "run": metadata.to_dict()},
            memory=None,
        )
        #: started by the first question, and never again: another one would not know what this one has made
        self._child: ChildProcess | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jsbench-outputs")
        #: each attempt, with how its test ended, which may be told again
        self._added: dict[Attempt, OwnOutcome | None] = {}
        #: where the records are that the process was not told of yet
        self._places: list[tuple[str, int, str]] = []
        self._whole = True
        self._made: MadeOutputs | None = None

    def add(self, outcome: AttemptOutcome) -> None:
        """Add an attempt."""
        source = outcome.source
        # it was asked again, and what was made of its first record is no more; or no disk has the record
        if outcome.attempt in self._added or isinstance(source, Record):
            self._whole = False
            return
        self._added[outcome.attempt] = outcome.test_outcome
        self._places.append((str(source.path), source.start, outcome.variant))
        if len(self._places) == _AT_ONCE:
            self._tell()

    def _tell(self) -> None:
        """Have the process told of the places, by the thread."""
        places, self._places = self._places, []
        try:
            self._thread.submit(self._ask, {"places": places})
        except RuntimeError:  # no thread can be started any more; the test must go on
            self._whole = False

    def finish(self) -> None:
        """Have the rest made, and the files of the records let go of; after Ctrl-C nobody waits for that."""
        try:
            if self._places:
                self._tell()
            if found := self._thread.submit(self._ask, {"finish": True}).result(_PATIENCE):
                self._made = MadeOutputs.from_dict(found)
        except (KeyboardInterrupt, TimeoutError, RuntimeError):
            self._whole = False
        self.close()

    def _ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The process's reply; nothing where it fails, or something has."""
        if not self._whole:
            return {}
        try:
            if self._child is None:
                self._child = ChildProcess(self._program)
            reply = self._child.exchange(request)
            broken = reply.ending is not None or reply.error is not None
        except Exception:  # noqa: BLE001  the tests must go on; at the end all is made anew, and what is wrong is said
            broken = True
        if broken:
            self._whole = False
            return {}
        values: Mapping[str, Any] = reply.values[0]
        return values

    def made_of(self, run: Run) -> MadeOutputs | None:
        """What was made, where it is of exactly the run's attempts, and so many that the page ranks them."""
        if self._made is None or not self._made.cases.ranks(run):
            return None
        added = {outcome.attempt: outcome.test_outcome for outcome in run.outcomes}
        return self._made if self._whole and self._added == added else None

    def close(self) -> None:
        """End the thread and the process."""
        if self._made is None and self._child is not None:
            self._child.kill()
        self._thread.shutdown(cancel_futures=True)
        if self._child is not None:
            self._child.close()
            from pytest_jsbench.reports.run_files import SHARED_FORMAT

            for part in self._folder.glob(f"{SHARED_FORMAT}/**/*_samples.jsonl.*.part"):
                with suppress(OSError):
                    part.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeOutputs:
    """What was made of the records while the run went on."""

    cases: CaseList
    #: by variant, or by no name, as the exporter of the shared format takes it
    samples: Mapping[str, Any]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MadeOutputs:
        """The reply of the process that made it."""
        from pytest_jsbench.reports.html.case_list import CaseList

        return cls(cases=CaseList.from_dict(data["cases"]), samples=data["samples"])
