"""Makes the attempts of the run, in the only process or in each of xdist's workers."""

from __future__ import annotations

import atexit
import contextlib
import gc
import threading
from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.errors import EngineError, JSBenchError
from pytest_jsbench.core.files import private
from pytest_jsbench.core.guarded_calls import guarded_calls
from pytest_jsbench.plugin.session.context import RunContext, variant_of
from pytest_jsbench.plugin.worker.items import Collected, JSBenchCase, would_ask
from pytest_jsbench.plugin.worker.lookahead import LookAhead
from pytest_jsbench.plugin.worker.variant_runners import VariantRunner
from pytest_jsbench.runner.limits import Refused
from pytest_jsbench.runner.record_keeper import AttemptResult, RecordKeeper, missed
from pytest_jsbench.runs import journal
from pytest_jsbench.runs.journal import LATE, Journal
from pytest_jsbench.runs.outcomes import AttemptOutcome
from pytest_jsbench.runs.records import Attempt, MissingReason
from pytest_jsbench.verdicts import Judge

if TYPE_CHECKING:
    from contextlib import ExitStack


class Worker:
    """
    Makes the attempts of this process and writes each record.

    The activation makes one in every process; under xdist the controller's makes no attempts. `pytest_runtestloop`
    opens the records' file, builds the engine and starts the look-ahead; `pytest_runtest_protocol` queues the attempts
    of the next tests. The threads of the look-ahead enter `_attempt`, and through it the keeper and the variant's
    runner; a project's tests enter both from whichever thread they ask in. `pytest_sessionfinish` stops new calls and
    closes the engine, the judge and the file.
    """

    def __init__(self, config: pytest.Config, context: RunContext) -> None:
        self._config = config
        self._context = context
        self._journal: Journal | None = None
        self._keeper: RecordKeeper | None = None
        self._lookahead: LookAhead[AttemptResult] | None = None
        #: why no calls can be made at all; each test says so, since xdist would take another end for a crash
        self._cannot: Refused | None = None
        self.left_behind = LeftBehind(context.handover.shared, context.handover.records)
        #: None before the collection, and where xdist's workers collect
        self.collected: Collected | None = None
        self._lock = threading.RLock()
        self._judging: Judge | None = None
        self._resources: ExitStack = contextlib.ExitStack()
        config.add_cleanup(self._resources.close)
        #: whether no test of the project's own runs, which may look at what is collected
        self._only_cases = False
        # after pytest's own cleanup, which goes through all that is not frozen five times
        config.add_cleanup(gc.unfreeze)
        #: by the variant's name
        self.variants: Mapping[str, VariantRunner] = {
            name: VariantRunner(
                config,
                context,
                variant,
                judge=self.judge,
                resources=self._resources,
                lost=lambda problem: self.keeper.stop_recording(problem),
            )
            for name, variant in context.plan.variants.items()
        }

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Count the tests that would ask an engine, and those of them that remain selected."""
        before = sum(map(would_ask, items))
        yield
        self.collected = Collected.of(items, before=before)
        self.collected.hand_back(config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Open the records' file, and build what this process needs for the tests that it will run."""
        cases = [item for item in session.items if isinstance(item, JSBenchCase)]
        self._only_cases = len(cases) == len(session.items)
        asking = any(map(would_ask, session.items))
        context = self._context
        name = "records.jsonl" if context.worker is None else f"records.{context.worker}.jsonl"
        plan = context.handover.metadata.with_plan(item.attempt for item in cases)
        self._journal = Journal(context.handover.records / name, plan)
        self._keeper = RecordKeeper(
            self._journal,
            recorded=context.recorded,
            case=context.plan.cases.case,
            comparers=context.plan.comparers,
            classifiers=context.plan.classifiers,
            redaction=context.handover.redaction,
            refuse=self._refuse,
            must_keep=context.plan.output is not None,
        )
        if context.settings.only_looks or not asking:
            return
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            return
        self._journal.open()
        try:
            self._open(session, cases)
        except EngineError as error:
            self._cannot = Refused(MissingReason.EXHAUSTED, str(error))
        except pytest.UsageError as error:
            if context.worker is None:
                raise
            self._cannot = Refused(MissingReason.ERROR, str(error))
        self._freeze()

    def _open(self, session: pytest.Session, cases: list[JSBenchCase]) -> None:
        """Build the engines that the tests ask, and what calls them ahead of the cases."""
        of_cases = {item.variant for item in cases}
        asked = of_cases | {variant_of(item) for item in session.items if would_ask(item)}
        for name, variant in self.variants.items():
            if name in asked:
                variant.open(cases=name in of_cases)
        if cases:
            concurrency = {name: self._context.plan.variants[name].concurrency for name in of_cases}
            steals = self._context.handover.steals
            self._lookahead = LookAhead(session, self._attempt, concurrency=concurrency, steals=steals)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Queue the attempts that will be needed next."""
        if self._lookahead is not None:
            self._lookahead.advance(item, nextitem)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Begin no more attempts; close the engine, the judge and the records' file."""
        self._stop()
        self._resources.close()
        for variant in self.variants.values():
            variant.close()
        if self._journal is not None:
            self._journal.close()

    def leave_records(self) -> None:
        """Begin no more attempts; calls still in flight write to another file, because the run is summed up."""
        self._stop()
        if self._journal is not None:
            self._journal.go_on_in(self._journal.path.with_name(LATE))
        self._freeze()

    def _freeze(self) -> None:
        """Have the collector pass by the hundreds of thousands of objects that stay, also when the interpreter ends."""
        if self._only_cases:
            gc.freeze()
            atexit.unregister(gc.freeze)
            atexit.register(gc.freeze)

    def _stop(self) -> None:
        self._refuse(Refused(MissingReason.STOPPED, "the session ended first"))
        if self._lookahead is not None:
            self._lookahead.stop()

    def outcome(self, item: JSBenchCase) -> AttemptResult:
        """Wait for the result of the item's attempt."""
        if self._cannot is not None:
            return AttemptResult(result=missed(item.attempt, self._cannot))
        if self._lookahead is None:
            message = f"{item.nodeid} runs outside pytest's own loop"
            raise RuntimeError(message)
        return self._lookahead.result(item)

    @property
    def keeper(self) -> RecordKeeper:
        """What writes this process's records; there is one as soon as tests run."""
        assert self._keeper is not None
        return self._keeper

    def _refuse(self, refusal: Refused) -> None:
        """Make no more calls, for this reason."""
        for variant in self.variants.values():
            variant.refuse(refusal)

    def judge(self) -> Judge:
        """What judges all answers of this process, made when it is first needed."""
        with self._lock:
            if self._judging is None:
                self._judging = self._resources.enter_context(Judge(self._context.plan.policy, calls=guarded_calls()))
            return self._judging

    def _attempt(self, item: JSBenchCase, planned_at: float) -> AttemptResult:
        """The result of an attempt, in this thread of the look-ahead."""
        attempt, lookahead = item.attempt, self._lookahead
        assert lookahead is not None
        if item.answered is not None:
            return item.answered
        if attempt not in self._context.recorded:
            left = self.left_behind.outcome(attempt)
            if left is not None and left.asked_by is None:
                return AttemptResult(result=left)
        made = self.keeper.make_or_find(
            attempt,
            lambda: self.variants[item.variant].attempt(item, planned_at),
            self.judge,
            stopped=lambda: lookahead.stopped,
        )
        outcome = made.result
        if isinstance(outcome, AttemptOutcome) and not (made.resumed or outcome.failed or outcome.passed):
            item.answered = replace(made, explanation="")
        return made


#: a file in the folder that all processes share: the names of the workers that have died, a line each
_DEAD = "dead"


def note_death(shared: Path, worker: str) -> None:
    """Write down that a worker has died, before its tests are given to other workers."""
    with private(shared / _DEAD).open("a", encoding="utf-8") as file:
        file.write(f"{worker}\n")


class LeftBehind:
    """The records that dead workers have written: their tests are run by others, which need not pay again."""

    def __init__(self, shared: Path, folder: Path) -> None:
        self._dead = shared / _DEAD
        self._folder = folder
        self._lock = threading.Lock()
        self._read: set[str] = set()
        self._outcomes: dict[Attempt, AttemptOutcome] = {}

    def outcome(self, attempt: Attempt) -> AttemptOutcome | None:
        """The attempt, if a dead worker wrote its record; None where none has. Any thread may call it."""
        if not self._dead.exists():
            return None
        with self._lock:
            for worker in self._dead.read_text(encoding="utf-8").split():
                if worker not in self._read:
                    self._read.add(worker)
                    self._take_in(self._folder / f"records.{worker}.jsonl")
            return self._outcomes.get(attempt)

    def _take_in(self, path: Path) -> None:
        try:
            content = journal.read(path)
        except JSBenchError:  # nothing was written, or nothing readable: the controller says so at the end
            return
        self._outcomes.update((outcome.attempt, outcome) for outcome in content.outcomes)
