"""
Run attempts and write their records, in the order of the steps below; used by the plugin, `evaluate` and the probe.

1. `Plan.of` reads the settings, and `over` adds the cases. Nothing is on disk yet.
2. `RunSession.start` runs once, in the process that creates the summary. It describes the run for the run's files,
   rejects an engine, a price or a recording that cannot work, and reads the answers of an earlier run. It then creates
   the run's directory with an empty `records.jsonl`, `batch.json` for batches that the earlier run submitted, and
   `records.resumed.jsonl` for its answers. The resulting `Handover` is sent to each xdist worker, which creates a
   session from it.
3. `begin` and `open` run in each process that makes attempts. Each has its own records file, `records.jsonl` or for
   example `records.gw0.jsonl`. They build the judge, the engines and their limits. `limits.db`, in the directory that
   the processes share, is created when there is a limit, or when a provider has refused a call or a call has failed.
4. `RunBatches` submits the suite as batches to a provider and waits for them, in the process that started the run. Each
   batch is written to `batch.json` before it costs anything; the answers go to a file that all processes share.
5. `ask` makes each attempt: those of the suite, of a project's own tests (also of applications that they test), and of
   a probe. It runs in the threads of the calls in flight or of the tests. The record of an earlier run or a dead worker
   is reused. For any other attempt, the maximum cost is reserved in `limits.db` before the call; the answer is judged,
   classified and redacted, and its record is written before the result is reported.
6. `refuse` prevents further calls. So does `leave`, at the end of the run: calls still in flight then write to
   `records.late.jsonl`, which is not part of this run and is read when the run is resumed.
7. `finish` merges all records files into one `records.jsonl`, in the process that started the run, and deletes those
   of the other processes.
8. `close` releases the resources of each process.

If a process is killed, only its calls in flight are lost. Their maximum cost counts as spent, and an attempt that has a
record is not repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import structs

from pytest_jsbench.core.errors import JSBenchError, describe_exhaustion
from pytest_jsbench.core.generations import Request
from pytest_jsbench.core.guarded_calls import guarded_calls
from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.engine_secrets import check
from pytest_jsbench.records import journal
from pytest_jsbench.records.journal import Journal
from pytest_jsbench.records.metadata import Entry
from pytest_jsbench.records.questions import each
from pytest_jsbench.records.records import Missing, MissingReason, Record
from pytest_jsbench.records.redaction import Redaction
from pytest_jsbench.records.rejudging import compare_values
from pytest_jsbench.records.resumption import Recorded, newest_matching_run, resume
from pytest_jsbench.run.attempts import Runner
from pytest_jsbench.run.case_rewriter import CaseRewriter
from pytest_jsbench.run.description import describe_run
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.labelled_attempts import AcceptanceRunner
from pytest_jsbench.run.limits import Refused
from pytest_jsbench.run.record_keeper import Answered, AttemptResult, RecordKeeper, missing_attempt
from pytest_jsbench.run.runners import Runners
from pytest_jsbench.run.variants import errors_of
from pytest_jsbench.verdicts import Judge

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, PromptTemplate
    from pytest_jsbench.records.records import AskedBy, Attempt
    from pytest_jsbench.records.repairs import RepairPlan
    from pytest_jsbench.records.resumption import Resumption
    from pytest_jsbench.records.runs import Run
    from pytest_jsbench.run.batch_file import BatchPart
    from pytest_jsbench.run.plan import Plan
    from pytest_jsbench.run.project_runner import ProjectRunner
    from pytest_jsbench.run.question import Question
    from pytest_jsbench.run.state import RunState
    from pytest_jsbench.run.variants import Variant

_NEEDS_NAMED_ENGINE = "--jsbench-plain-share: the engine is already open; pass the engine's name instead"


class RunSession:
    """
    The part of a run that one process executes.

    `start` creates the object in the process that creates the summary; other processes construct it from a `Handover`.
    One thread calls `begin`, `open`, `leave`, `finish` and `close`, in this order. The threads of the calls in flight
    call `ask`, and so do the threads of a project's tests, which also use `judge` and the keeper. Any thread may call
    `refuse`.
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
        #: Answers that are reused from an earlier run; None except in the process that started the run.
        self.resumption = resumption
        #: Batches that the earlier run submitted to a provider.
        self.earlier_batches = earlier_batches
        #: Records of the earlier run; empty for a new run.
        self.recorded = Recorded(handover.recorded)
        #: Name of this process if it is an xdist worker; empty for the process that creates the summary.
        self._process = process
        self._lock = threading.RLock()
        self._resources = ExitStack()
        self._journal: Journal | None = None
        self._keeper: RecordKeeper | None = None
        self._judge: Judge | None = None
        #: Engines, limits and runners of this process's questions.
        self.runners = Runners(
            plan,
            handover,
            judge=self.judge,
            prepared=prepared,
            engines=engines,
            stop_recording=lambda problem: self.keeper.stop_recording(problem),
        )

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
        Describe the run, resume an earlier run if requested, and create the directory of this run.

        If the plan names no output directory, `elsewhere` receives the name of the run and returns a directory for it,
        or None.
        """
        for name, variant in plan.variants.items():
            with errors_of(name):
                check(variant.factory, variant.engine)
                if plan.load.plain_share is not None:
                    from pytest_jsbench.run.plain_calls import plain_config

                    if name in engines:
                        raise JSBenchError(_NEEDS_NAMED_ENGINE, option="plain_share")
                    plain_config(variant)
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
        texts = Redaction.new() if plan.spec.outputs.redact else None
        resumption = None
        earlier = (
            newest_matching_run(plan.spec.outputs.output, metadata)
            if plan.spec.execution.resume == "newest"
            else plan.spec.execution.resume
        )
        if earlier is not None:
            keys = plan.keys if plan.suite else ()
            templates = {name: _prompt_template(plan, variant) for name, variant in plan.variants.items()}
            resumption = resume(earlier, metadata, keys, load=plan.cases.case, templates=templates)
        batches: tuple[BatchPart, ...] = ()
        if resumption is not None and (resumption.folder / journal.BATCHES).exists():
            from pytest_jsbench.run.batch_file import take_over

            batches = take_over(resumption.folder, metadata, batch=plan.spec.execution.batch is not None)
        name = metadata.run_id
        folder = (
            elsewhere(name) if plan.spec.outputs.output is None else journal.new_folder(plan.spec.outputs.output, name)
        )
        if folder is not None:
            metadata = replace(metadata, run_id=folder.name)
            if batches:  # before the run's other files, since from now on this is the newest run
                from pytest_jsbench.run.batch_file import BatchFile

                BatchFile(folder / journal.BATCHES, metadata, batches)
        recorded = None
        if resumption is not None and resumption.metadata is not None:
            metadata = replace(metadata, resumed_from=resumption.metadata.run_id)
            recorded = resumption.write_to(folder or shared, metadata, texts)
        handover = Handover(metadata=metadata, folder=folder, shared=shared, recorded=recorded, redaction=texts)
        return cls(plan, handover, engines=engines, resumption=resumption, earlier_batches=batches)

    def begin(self, attempts: Iterable[Attempt]) -> None:
        """
        Name the records file of this process and prepare its header with the planned attempts;
        nothing is written yet.
        """
        name = f"records.{self._process}.jsonl" if self._process else "records.jsonl"
        self._journal = Journal(self.handover.records / name, self.handover.metadata.with_plan(attempts))
        self._keeper = RecordKeeper(
            self._journal, self.plan, self.handover, recorded=self.recorded, judge=self.judge, refuse=self.refuse
        )

    def open(self, *, cases: Collection[str], tests: Collection[str] = ()) -> None:
        """
        Open the records file; create the engines of the variants with cases, and of the variants that a project's tests
        use.
        """
        assert self._journal is not None
        self._journal.open()
        for name in self.plan.variants:
            if name in cases:
                self.runners.for_suite(name)
            if name in tests and self.plan.cases.labelled is None:
                self.runners.for_variant(name)

    def ask(self, question: Question) -> Answered:
        """
        Make an attempt and write its record, or return the answer in a record that exists already.

        If the machine is out of resources, no more attempts are made.
        """
        try:
            return self._answer(question)
        except Exception as error:
            if not (why := describe_exhaustion(error)):
                raise
            refused = Refused(MissingReason.EXHAUSTED, why)
            self.refuse(refused)
            return Answered(AttemptResult(result=missing_attempt(question.attempt, refused)))

    def request(self, attempt: Attempt) -> Request | None:
        """Return the request of a suite's attempt; None if it needs no call, for example with an invalid schema."""
        runner = self.runners.for_suite(attempt.variant)
        assert isinstance(runner, Runner)
        prepared = runner.prepare(self._case(attempt.key), attempt.repeat)
        request = None if isinstance(prepared, Record) else prepared.request
        return request if isinstance(request, Request) else None

    @property
    def keeper(self) -> RecordKeeper:
        """The keeper of this process's records, which is available after `begin`."""
        assert self._keeper is not None
        return self._keeper

    def judge(self) -> Judge:
        """Return the judge for the answers of this process, created at first use."""
        with self._lock:
            if self._judge is None:
                # other sessions in this process may still use the shared child process
                self._resources.callback(guarded_calls().let_go)
                self._judge = self._resources.enter_context(Judge(self.plan.policy, calls=guarded_calls()))
            return self._judge

    def refuse(self, refusal: Refused) -> None:
        """Make no more calls, for the given reason."""
        self.runners.refuse(refusal)

    def stop(self) -> None:
        """
        Make no more calls, because the session ends; calls in flight are aborted, and their faults
        are not recorded.
        """
        self.refuse(Refused(MissingReason.STOPPED, "the session ended first"))
        if self._keeper is not None:
            self._keeper.stopped = True

    def leave(self) -> None:
        """Make no more calls; calls still in flight write to another file, because this run is being summarized."""
        self.stop()
        if self._journal is not None:
            self._journal.continue_in(self._journal.path.with_name(journal.LATE))

    def finish(self, state: RunState) -> Run:
        """
        Return the run, whose records are merged into one file; add a warning to the state if a file could not be
        written.
        """
        run = state.to_run(self.handover.metadata)
        folder = self.handover.folder
        if folder is None:
            return run
        try:
            run = journal.gather(folder / "records.jsonl", run)
        except JSBenchError as error:  # for example because of a full disk: the records remain in their original files
            state.warn(str(error))
            return run
        kept = {journal.LATE}
        if self.resumption is not None:
            answers = (*self.resumption.answers, *self.resumption.project_answers)
            # the file of resumed records is kept only if some of these records are missing from the run
            if not state.has_all(answer.attempt for answer in answers):
                kept.add(journal.RESUMED)
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
        with ExitStack() as last:  # each resource is closed even if closing another raises an error
            if self._journal is not None:
                last.callback(self._journal.close)
            last.callback(self._resources.close)
            last.callback(self.runners.close)

    def _answer(self, question: Question) -> Answered:
        attempt = question.attempt
        call = question.call
        if call is None:
            return self._answer_of_suite(question)
        assert question.case is not None
        if call.given is not None:
            record = call.given.record(
                question.case, call.prompt, repeat=attempt.repeat, judge=self.judge(), comparers=self.plan.comparers
            )
            return self._keep(question, record, self.runners.asked_by(question, call))
        runner = self.runners.for_call(question, call)
        if call.is_reusable:
            found = self.keeper.find_same(
                attempt, question.case, first=call.first, equal_before=call.equal_before, is_same=runner.is_same
            )
            if found is not None:
                return self._ask_again(question, runner, question.case, found)
        return self._make(question, runner, question.case, asked_by=runner.asked_by)

    def _answer_of_suite(self, question: Question) -> Answered:
        attempt = question.attempt
        found = self.keeper.find(attempt)
        if found is not None and self._repair_plan(question) is None:
            return found
        case = question.case
        runners = self.runners
        runner = runners.for_suite(attempt.variant) if case is None else runners.for_variant(attempt.variant)
        known = self._case(attempt.key) if case is None else case
        return self._make(question, runner, known) if found is None else self._ask_again(question, runner, known, found)

    def _make(
        self,
        question: Question,
        runner: Runner | AcceptanceRunner | ProjectRunner,
        case: Case | BrokenCase,
        *,
        asked_by: AskedBy | None = None,
    ) -> Answered:
        attempt = question.attempt
        # the answer of a batch is already available, so its time in the queue is meaningless
        planned_at = question.planned_at if self.plan.spec.execution.batch is None else None
        try:
            record = runner.attempt(case, repeat=attempt.repeat, planned_at=planned_at)
        except Refused as refused:
            return Answered(AttemptResult(result=missing_attempt(attempt, refused)))
        return self._ask_again(question, runner, case, self._keep(question, record, asked_by))

    def _repair_plan(self, question: Question) -> RepairPlan | None:
        """Return how the question's answer is asked for again if it is wrong; None if it is not."""
        call = question.call
        plan = self.plan.variants[question.attempt.variant].repairs
        if call is None:
            return plan
        # an application continues its conversations itself
        return (call.repairs or plan) if call.is_reusable else None

    def _ask_again(
        self,
        question: Question,
        runner: Runner | AcceptanceRunner | ProjectRunner,
        case: Case | BrokenCase,
        answered: Answered,
    ) -> Answered:
        """
        Make the second tries of a wrong answer if the run or the test sets them; each is written before the next call.

        If the test sets them, the returned record has the last answer in place of the first.
        """
        plan = self._repair_plan(question)
        if plan is None or isinstance(answered.result.result, Missing) or isinstance(runner, AcceptanceRunner):
            return answered
        from pytest_jsbench.run.repairs import begin_tries, make_try, wants_try

        made = answered.result.result.read() if answered.record is None else answered.record
        record = begin_tries(plan, made, self.judge())
        if record is not made:
            answered = self.keeper.add_tries(answered, record)
        while wants_try(record):
            try:
                record = make_try(runner, case, record)
            except Refused:  # a resumed run makes the other tries
                break
            answered = self.keeper.add_tries(answered, record)
        if question.call is not None and question.call.repairs is not None:
            record = compare_values(record.with_last_answer, record.expected, self.plan.comparers)
            answered = answered._replace(record=record)
        return answered

    def _keep(self, question: Question, record: Record, asked_by: AskedBy | None) -> Answered:
        attempt = question.attempt
        if attempt.variant or asked_by is not None:  # a copy is checked once more
            record = structs.replace(record, variant=attempt.variant, asked_by=asked_by)
        return self.keeper.keep(record, is_repeated=question.is_repeated)

    def _case(self, key: CaseKey) -> Case | BrokenCase:
        labelled = self.plan.cases.labelled
        return self.plan.cases.case(key) if labelled is None else labelled.case(key)


def _prompt_template(plan: Plan, variant: Variant) -> PromptTemplate:
    """Return the template of the variant's prompts, which also rewrites the schemas if the variant demands it."""
    rewriter = CaseRewriter.of(variant.rewrite, plan.policy.default_dialect)
    return variant.template.render if rewriter is None else rewriter.template(variant.template.render)
