"""
A run, in the order in which it goes. The plugin drives it from its hooks, `evaluate` with a window, the probe by hand.

1. `Plan.of` reads what is asked of whom, and how, and `over` the cases. Nothing is on disk.
2. `RunSession.start`, once, in the process that will sum the run up. It describes the run for the run's files. What
   cannot be built, paid for or recorded is refused, and what an earlier run has answered is read. Then the run's folder
   is made, with an empty `records.jsonl`; `batch.json` in it names the batches that the earlier run has handed in,
   `records.resumed.jsonl` holds its answers. All this is a `Handover`, of which each of xdist's workers makes a session
   of its own.
3. `begin` and `open`, in each process that makes attempts. It has a records file of its own, `records.jsonl` or such as
   `records.gw0.jsonl`. The judge, the engines and their limits are built; `limits.db`, in the folder that goes with the
   run, is there once there is a limit, or a provider has refused or broken a call.
4. `batching`, in the process that started, only where the suite is handed in as batches of a provider: it hands in and
   waits. Each batch is in `batch.json` before it is paid for; the answers are in a file that all processes share.
5. `attempt`, in the threads of the calls in flight. A record that an earlier run or a dead worker has left is taken
   over. Any other attempt is admitted, and what it may cost is in `limits.db` before the engine is asked; the answer is
   judged, classified and redacted, and its record is in the records file before anybody hears of the result.
6. `refuse` lets no more calls begin. `leave` does, too, at the end: what calls that are still under way bring goes to
   `records.late.jsonl`, is not of this run, and is found by whoever resumes it.
7. `finish`, in the process that started: all records files become one `records.jsonl`, and those of single processes
   go.
8. `close`, in each process, ends what was built.

Whoever kills a process at any moment loses the calls in flight and nothing else. What these may have cost counts as
spent, and an attempt that has a record is never made again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from pytest_jsbench.adaptation.adapter import adapter
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.generations import Origin
from pytest_jsbench.core.guarded_calls import guarded_calls
from pytest_jsbench.engines.base import Acceptor, Engine, EngineConfig, without_credentials
from pytest_jsbench.engines.engine_secrets import build, check, describe
from pytest_jsbench.engines.engine_secrets import prepare as prepare_engine
from pytest_jsbench.engines.registry import require_acceptor
from pytest_jsbench.records import journal
from pytest_jsbench.records.journal import Journal
from pytest_jsbench.records.metadata import Entry
from pytest_jsbench.records.questions import each
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.records.redaction import Redaction
from pytest_jsbench.records.resumption import Recorded, newest_alike, resume
from pytest_jsbench.run.attempts import AcceptanceRunner, Runner
from pytest_jsbench.run.batch_attempts import batch_room
from pytest_jsbench.run.description import describe_run
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.limits import Admission, LimitsFile, Refused
from pytest_jsbench.run.record_keeper import AttemptResult, RecordKeeper
from pytest_jsbench.settings.variants import errors_of
from pytest_jsbench.verdicts import Judge

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pytest_jsbench.records.outcomes import Run
    from pytest_jsbench.records.records import AnsweredBy, Attempt, Record
    from pytest_jsbench.records.resumption import Resumption
    from pytest_jsbench.run.batch_attempts import Batching, BatchPart
    from pytest_jsbench.run.state import RunState
    from pytest_jsbench.settings.plan import Plan
    from pytest_jsbench.settings.variants import Variant

T = TypeVar("T", Engine, Acceptor)


class RunSession:
    """
    The part of one process in a run.

    `start` makes it in the process that sums the run up, and its constructor, of a `Handover`, in any other. One thread
    calls `begin`, `open`, `leave`, `finish` and `close`, in this order. The threads of the calls in flight enter
    `attempt`; a project's tests enter `judge`, `runner`, `admission`, `recording` and the keeper from whichever thread
    they ask in; any thread may call `refuse`.
    """

    def __init__(
        self,
        plan: Plan,
        handover: Handover,
        *,
        process: str = "",
        prepared: Mapping[str, EngineConfig] = MappingProxyType({}),
        engines: Mapping[str, Engine] = MappingProxyType({}),
        resumption: Resumption | None = None,
        earlier_batches: Sequence[BatchPart] = (),
    ) -> None:
        self.plan = plan
        self.handover = handover
        #: what was taken over from an earlier run; None in other processes than that which started
        self.resumption = resumption
        #: those that the earlier run has handed in
        self.earlier_batches = earlier_batches
        #: what an earlier run has answered; empty where there is none
        self.recorded = Recorded(handover.recorded)
        #: one of several processes; empty: the only one, or the one that sums up
        self._process = process
        #: by the variant's name, the engine as another process has prepared it
        self._prepared = prepared
        #: by the variant's name, engines that somebody else has opened, and closes
        self._engines = engines
        self._lock = threading.RLock()
        self._resources = ExitStack()
        self._journal: Journal | None = None
        self._keeper: RecordKeeper | None = None
        self._judge: Judge | None = None
        self._runners: dict[str, Runner] = {}
        self._suite_runners: dict[str, Runner | AcceptanceRunner] = {}
        #: by variant, by engine and model, which decide the price, and by the server, which has limits of its own
        self._admissions: dict[tuple[str, AnsweredBy, str], Admission] = {}
        #: why no more calls are made; None while they are made
        self._refusal: Refused | None = None

    @classmethod
    def start(
        cls,
        plan: Plan,
        entry: Entry,
        *,
        shared: Path,
        elsewhere: Callable[[str], Path | None] = lambda _: None,
        engines: Mapping[str, Engine] = MappingProxyType({}),
    ) -> RunSession:
        """
        Describe the run, take over an earlier one, and make the folder of this one.

        Where the plan names no folder of all runs, `elsewhere` makes one of the run's name, or none.
        """
        for name, variant in plan.variants.items():
            with errors_of(name):
                check(variant.factory, variant.engine)
        metadata = describe_run(plan, entry)
        if plan.limits.max_cost is not None:
            from pytest_jsbench.metrics.prices import price_of

            variants = each(metadata)
            for described in [variant for variant in variants if variant.provider is not None] or variants:
                with errors_of(described.variant):
                    price_of(described)
        for variant in plan.variants.values():
            if variant.recording is not None:
                from pytest_jsbench.engines.recorded.recordings import Recordings

                Recordings(variant.recording.path).require_writable()
        texts = Redaction.new() if plan.redact else None
        resumption = None
        earlier = newest_alike(plan.output, metadata) if plan.resume == "newest" else plan.resume
        if earlier is not None:
            keys = plan.keys if plan.suite else ()
            templates = {name: variant.template.render for name, variant in plan.variants.items()}
            resumption = resume(earlier, metadata, keys, load=plan.cases.case, templates=templates)
        batches: tuple[BatchPart, ...] = ()
        if resumption is not None and (resumption.folder / journal.BATCHES).exists():
            batches = batch_room().take_over(resumption.folder, metadata, batch=plan.batch is not None)
        name = metadata.run_id
        folder = elsewhere(name) if plan.output is None else journal.new_folder(plan.output, name)
        if folder is not None:
            metadata = replace(metadata, run_id=folder.name)
            if batches:  # before anything else of this run, which from now on is the newest
                batch_room().keep(folder, metadata, batches)
        recorded = None
        if resumption is not None and resumption.metadata is not None:
            metadata = replace(metadata, resumed_from=resumption.metadata.run_id)
            recorded = resumption.write_to(folder or shared, metadata, texts)
        handover = Handover(metadata=metadata, folder=folder, shared=shared, recorded=recorded, redaction=texts)
        return cls(plan, handover, engines=engines, resumption=resumption, earlier_batches=batches)

    def begin(self, attempts: Iterable[Attempt]) -> None:
        """Name the records file of this process, whose header says what is to be attempted; nothing is on disk yet."""
        name = f"records.{self._process}.jsonl" if self._process else "records.jsonl"
        self._journal = Journal(self.handover.records / name, self.handover.metadata.with_plan(attempts))
        self._keeper = RecordKeeper(
            self._journal, self.plan, self.handover, recorded=self.recorded, judge=self.judge, refuse=self.refuse
        )

    def open(self, *, cases: Collection[str], tests: Collection[str] = ()) -> None:
        """Open the records file, and build what asks the variants of the cases, and those of a project's tests."""
        assert self._journal is not None
        self._journal.open()
        for name in self.plan.variants:
            if name in cases:
                self.suite_runner(name)
            if name in tests and self.plan.cases.labelled is None:
                self.runner(name)

    def attempt(self, attempt: Attempt, planned_at: float) -> AttemptResult:
        """Make an attempt, queued at that time, and write its record; or take its record over from who left it."""
        return self.keeper.make_or_find(attempt, lambda: self._make(attempt, planned_at))

    def batching(self) -> Batching:
        """Make what hands the suite's attempts in as batches of the provider, before the first of them is made."""
        return batch_room().batching(self)

    @property
    def keeper(self) -> RecordKeeper:
        """The keeper of this process's records; there is one as soon as attempts may be made."""
        assert self._keeper is not None
        return self._keeper

    def judge(self) -> Judge:
        """Make what judges all answers of this process, when it is first needed."""
        with self._lock:
            if self._judge is None:
                # others of this process may go on with it
                self._resources.callback(guarded_calls().let_go)
                self._judge = self._resources.enter_context(Judge(self.plan.policy, calls=guarded_calls()))
            return self._judge

    def runner(self, variant: str) -> Runner:
        """Make what asks the variant's engine, when it is first needed."""
        with self._lock:
            if variant not in self._runners:
                way = self.plan.variants[variant]
                # it takes as long to start as an engine takes to import what it needs
                self.judge().start()
                engine = self._engines.get(variant) or self._build(way, lambda config: build(way.factory, config))
                self._runners[variant] = self._new_runner(way, engine)
            return self._runners[variant]

    def suite_runner(self, variant: str) -> Runner | AcceptanceRunner:
        """Make what asks the suite's attempts of the variant, when it is first needed."""
        with self._lock:
            if variant not in self._suite_runners:
                self._suite_runners[variant] = self._new_suite_runner(self.plan.variants[variant])
            return self._suite_runners[variant]

    def recording(self, variant: str, engine: Engine) -> Engine:
        """The engine; where the variant's answers are recorded, each of its own is written to a file."""
        recording = self.plan.variants[variant].recording
        if recording is None:
            return engine
        from pytest_jsbench.engines.recorded.engine import RecordingEngine

        return RecordingEngine(
            engine,
            recording.path,
            only_new=recording.only_new,
            strict=recording.strict,
            lost=lambda problem: self.keeper.stop_recording(problem),
        )

    def admission(self, variant: str, who: AnsweredBy, config: EngineConfig) -> Admission:
        """The limits as they hold for an engine's calls; PriceError if cost is limited and the model has no price."""
        key = variant, who, f"{config.name}{_at(config)}{_with(config)}"
        with self._lock:
            if key not in self._admissions:
                # beside variants that are paid for, one's own server costs nothing, and the header says so
                free = self.plan.limits.max_cost is None or (who.provider is None and bool(variant))
                price = None
                if not free:
                    from pytest_jsbench.metrics.prices import price_of

                    price = price_of(self.handover.metadata.of_variant(variant), who)
                self._admissions[key] = Admission(
                    self.limits_file(),
                    price=price,
                    provider=provider_name(who, config, self.plan.engines),
                    server=key[2],
                    concurrency=self.plan.variants[variant].concurrency,
                    interrupted=self.handover.interrupted,
                )
                if self._refusal is not None:
                    self._admissions[key].stop(self._refusal)
            return self._admissions[key]

    def limits_file(self) -> LimitsFile:
        """Open the file of the run's limits, which all of its processes share."""
        return LimitsFile(self.handover.shared / "limits.db", self.plan.limits)

    def refuse(self, refusal: Refused) -> None:
        """Make no more calls, for this reason."""
        with self._lock:
            self._refusal = self._refusal or refusal
            for admission in self._admissions.values():
                admission.stop(refusal)

    def stop(self) -> None:
        """Make no more calls, since the session ends; those under way are broken off, and their faults not written."""
        self.refuse(Refused(MissingReason.STOPPED, "the session ended first"))
        if self._keeper is not None:
            self._keeper.stopped = True

    def leave(self) -> None:
        """Make no more calls; those still under way write to another file, because the run is summed up."""
        self.stop()
        if self._journal is not None:
            self._journal.go_on_in(self._journal.path.with_name(journal.LATE))

    def finish(self, state: RunState) -> Run:
        """Make the run, its records one file where it is kept; the state's warnings say what could not be written."""
        run, folder = state.to_run(self.handover.metadata), self.handover.folder
        if folder is None:
            return run
        try:
            run = journal.gather(folder / "records.jsonl", run)
        except JSBenchError as error:  # a disk that is full: the records are where they were first written
            state.warn(str(error))
            return run
        kept = {journal.LATE}
        if self.resumption is not None:
            answers = (*self.resumption.answers, *self.resumption.project_answers)
            # what was taken over need not be kept apart
            kept |= set() if state.has_all(answer.attempt for answer in answers) else {journal.RESUMED}
        try:
            for path in folder.glob("records.*.jsonl"):
                if path.name not in kept:
                    path.unlink()
        except OSError as error:
            state.warn(str(error))
        return run

    def close(self) -> None:
        """Make no more calls; close the engines, the judge, the limits and the records file."""
        self.stop()
        with ExitStack() as last:  # each ends, whatever another says
            if self._journal is not None:
                last.callback(self._journal.close)
            for admission in self._admissions.values():
                last.callback(admission.close)
            last.callback(self._resources.close)

    def _make(self, attempt: Attempt, planned_at: float) -> Record:
        """Make an attempt; Refused where it may not be made."""
        labelled, runner = self.plan.cases.labelled, self.suite_runner(attempt.variant)
        if isinstance(runner, AcceptanceRunner):
            assert labelled is not None
            case, instances = labelled.case(attempt.key), labelled.instances(attempt.key)
            record = runner.attempt(case, instances, planned_at=planned_at)
        else:
            # the answer of a batch is here: nobody waits for it
            queued = planned_at if self.plan.batch is None else None
            record = runner.attempt(self.plan.cases.case(attempt.key), repeat=attempt.repeat, planned_at=queued)
        return structs.replace(record, variant=attempt.variant) if attempt.variant else record

    def _new_suite_runner(self, variant: Variant) -> Runner | AcceptanceRunner:
        """Ask the variant's engine, its grammar about labelled answers, or the answers of a provider's batches."""
        if self.plan.cases.labelled is not None:
            factory = require_acceptor(variant.factory, variant.engine.name)
            acceptor: Acceptor = self._build(variant, factory.build_acceptor)
            return AcceptanceRunner(acceptor=acceptor, judge=self.judge())
        if self.plan.batch is None:
            return self.runner(variant.name)
        info = replace(describe(variant.factory, variant.engine), streaming=False)
        runner = self._new_runner(variant, batch_room().engine(self.handover.answers, info))
        return replace(runner, retries=0, admission=None)

    def _new_runner(self, variant: Variant, engine: Engine) -> Runner:
        return Runner(
            engine=self.recording(variant.name, engine),
            judge=self.judge(),
            template=variant.template.render,
            params=variant.sampled,
            retries=self.plan.retries,
            adapter=adapter(variant.adapt),
            origin=Origin(run=variant.said),
            context=variant.context or engine.info.context,
            comparers=self.plan.comparers,
            admission=self.admission(
                variant.name, self.handover.metadata.of_variant(variant.name).engine_asked, variant.engine
            ),
        )

    def _build(self, variant: Variant, make: Callable[[EngineConfig], T]) -> T:
        with errors_of(variant.name):
            prepared = self._prepared.get(variant.name)
            made = make(prepared or self._resources.enter_context(prepare(self.plan, variant)))
        self._resources.callback(made.close)
        return made


def prepare(plan: Plan, variant: Variant) -> AbstractContextManager[EngineConfig]:
    """Start what all processes of the run share of a variant's engine; where no model is called, nothing."""
    if plan.cases.labelled is not None:
        return nullcontext(variant.engine)
    return prepare_engine(variant.factory, variant.engine)


def provider_name(who: AnsweredBy, config: EngineConfig, engines: Collection[EngineConfig]) -> str:
    """
    Name who is called, for what is known and said of how a provider is doing.

    Where the run's variants ask at several addresses, or with several keys, one may be down, or a key wrong, alone.
    """
    at = _at(config) if len({engine.base_url for engine in engines}) > 1 else ""
    key = _with(config) if len({engine.api_key_env for engine in engines}) > 1 else ""
    return f"{who.engine} {who.model}{at}{key}"


def _at(config: EngineConfig) -> str:
    return f" at {without_credentials(config.base_url)}" if config.base_url else ""


def _with(config: EngineConfig) -> str:
    return f" with {config.api_key_env}" if config.api_key_env else ""
