"""
Reduce a failing attempt of a run to the smallest schema that still fails in the same way, and find a neutral form.

The case itself is asked about first. Then candidates are searched, and the result is confirmed by answers of its own;
if it is not, the last candidate that can be confirmed is the result. At the end, the neutral forms are asked about.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_jsbench.adaptation.adapter import adapter
from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.generations import Failed
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.text import format_count
from pytest_jsbench.datasets.base import ListedCase, Listing
from pytest_jsbench.engines.base import EngineConfig, EngineFactory
from pytest_jsbench.engines.engine_secrets import check, prepare
from pytest_jsbench.prompts import PROMPTS
from pytest_jsbench.records import journal
from pytest_jsbench.records.metadata import Entry, RunMetadata
from pytest_jsbench.records.questions import difference
from pytest_jsbench.records.rejudging import recorded_policy
from pytest_jsbench.run.description import describe_run
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.plan import Cases, Plan, RateLimits
from pytest_jsbench.run.reduction.asking import (
    CALLS_SPENT,
    AdaptationAsker,
    Asker,
    ReductionStopped,
    SessionAsker,
    first_refused,
)
from pytest_jsbench.run.reduction.candidate import SCHEMA, Candidate, DocumentKind, DocumentPlace
from pytest_jsbench.run.reduction.edits import forms_at
from pytest_jsbench.run.reduction.neutral_names import names_in, neutral_forms
from pytest_jsbench.run.reduction.reducer import reduce_candidate
from pytest_jsbench.run.reduction.same_failure import FailurePattern, ReductionError
from pytest_jsbench.run.reduction.search import CandidateTest, Search
from pytest_jsbench.run.reduction.sequential_test import OneAnswer, Rule, confirming, needs_more_baseline, rule_for
from pytest_jsbench.run.reduction.target import (
    ReductionTarget,
    build_variant,
    policy_flags,
    prompt_flags,
    reproducing_flags,
)
from pytest_jsbench.run.reduction.tool_parts import can_be_requested, find_suspect, first_forms
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.run.variants import Variant
from pytest_jsbench.settings.options import LimitOptions
from pytest_jsbench.settings.spec import RunSpec
from pytest_jsbench.verdicts import Judge, JudgePolicy

INTERRUPTED = "interrupted"
#: Default maximum number of calls.
MOST_CALLS = 300
#: Maximum number of concurrent calls by default: if a candidate is accepted, calls about the following ones are wasted.
_CALLS_IN_FLIGHT = 4
#: Default number of seconds to wait for a server that died.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionOptions:
    """Limits of a reduction, and options that replace those of the run."""

    #: Options of the engine and the call by name, such as `base_url`; None for the run's value.
    engine: Mapping[str, Any] = field(default_factory=dict)
    #: Factory of an engine that a Python program provides; None for an engine with a name.
    factory: EngineFactory | None = None
    max_calls: int = MOST_CALLS
    #: Limits of the calls, such as their maximum cost.
    limits: RateLimits = field(default_factory=RateLimits)
    #: Number of concurrent calls; None for the engine's default.
    concurrency: int | None = None
    #: Seconds to wait until a server that died answers again.
    patience: float = PATIENCE
    #: Directory of the calls' records, so that an interrupted reduction can be continued; None to keep none.
    folder: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How often a candidate failed in the same way, and how often it did not."""

    failures: int
    others: int
    #: Message of the last failure.
    message: str = ""

    @classmethod
    def of(cls, test: CandidateTest) -> Evidence:
        """Return the counts of a test."""
        return cls(failures=test.failures, others=test.others, message=test.message)

    @property
    def text(self) -> str:
        """The counts in words, such as `3 of 3 answers`."""
        return f"{self.failures} of {format_count(self.failures + self.others, 'answer')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """The result of a reduction."""

    case: CaseKey
    failure: FailurePattern
    #: Engine and model that were called.
    engine: str
    model: str
    #: Mode and subset, as in `narrow:openai@2026-08`, if an adaptation refused the case; empty if an engine was called.
    refused_by: str
    original: Candidate
    #: Answers to the case itself.
    baseline: Evidence
    #: The smallest candidate that still fails, with the names of the user's own schema.
    smallest: Candidate
    evidence: Evidence
    #: The neutral form that still fails; None if there is none, or the reduction ended before it was found.
    shareable: Candidate | None
    shareable_evidence: Evidence | None
    #: Number of calls that were made now, without those that an earlier, interrupted reduction had recorded.
    calls: int
    #: Reason why the reduction ended early; empty if nothing smaller fails.
    stopped: str
    #: Options of pytest that reproduce the failure.
    flags: tuple[str, ...]
    #: Options of pytest for the run's prompt, which apply unless a form has the default prompt.
    prompt_flags: tuple[str, ...] = ()
    #: Whether the smallest candidate fails only with the messages of the case itself.
    needs_messages: bool = False
    #: The case's own messages with which the smallest candidate fails; empty if a prompt template renders them.
    messages: tuple[Message, ...] = ()
    #: First setting that differs from the run's, as a phrase; empty if there is none.
    difference: str = ""


def reduce_target(
    target: ReductionTarget,
    options: ReductionOptions,
    *,
    accepted: Callable[[Candidate, int], object] = lambda *_: None,
) -> Reduction:
    """
    Reduce the attempt; `accepted` is called with each smaller candidate and the number of calls so far.

    Raise ReductionError if the case does not fail again.
    """
    policy = recorded_policy(target.metadata.policy, {})
    hidden = names_in(target.original).union(*map(names_in, neutral_forms(target.original)))
    with _open_asker(target, options, policy, hidden) as opened:
        result = _Steps(target, opened.asker, opened.concurrency, accepted).run()
    return replace(
        result,
        engine=opened.engine,
        model=opened.model,
        refused_by=opened.refused_by,
        flags=opened.flags,
        difference=opened.difference,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenAsker:
    """An asker with what is called, and how the call differs from the run's."""

    asker: Asker
    concurrency: int = 1
    engine: str
    model: str
    flags: tuple[str, ...] = ()
    refused_by: str = ""
    difference: str = ""


class _Steps:
    """The steps of one reduction, in one thread."""

    def __init__(
        self, target: ReductionTarget, asker: Asker, concurrency: int, accepted: Callable[[Candidate, int], object]
    ) -> None:
        self._target = target
        self._asker = asker
        self._concurrency = concurrency
        self._accepted = accepted
        #: Candidates that failed, each smaller than the one before it.
        self._history = [target.original]
        self._evidence: dict[str, Evidence] = {}

    def run(self) -> Reduction:
        """Make all steps; raise ReductionError if the case does not fail again."""
        search = Search(self._asker, concurrency=self._concurrency, accepted=self._add)
        try:
            baseline, rule = self._measure(search)
            stopped = self._search(search, rule)
            evidence = Evidence.of(search.test_of(self._history[-1])) if len(self._history) > 1 else baseline
            shareable = None
            try:
                if stopped in ("", CALLS_SPENT):
                    self._asker.release_reserve()
                    smallest, evidence = self._confirm(search, rule, baseline)
                    self._history.append(smallest)
                    shareable = self._find_neutral(smallest, search, rule)
            except ReductionStopped as reason:
                stopped = str(reason)
            except KeyboardInterrupt:
                stopped = INTERRUPTED
        finally:
            search.close()
        smallest = self._history[-1]
        return Reduction(
            case=self._target.record.key,
            failure=self._target.pattern,
            engine="",
            model="",
            refused_by="",
            original=self._target.original,
            baseline=baseline,
            smallest=smallest,
            evidence=evidence,
            shareable=shareable,
            shareable_evidence=None if shareable is None else self._evidence[shareable.digest],
            calls=self._asker.calls,
            stopped=stopped,
            flags=(),
            prompt_flags=prompt_flags(self._target.metadata),
            needs_messages=bool(smallest.messages),
            messages=tuple(self._target.case.messages[at] for at in smallest.messages),
        )

    def _search(self, search: Search, rule: Rule) -> str:
        """Search until nothing smaller fails; return the reason if the search ends earlier."""
        try:
            reduce_candidate(self._start(search, rule), partial(search.find_failing, rule=rule))
        except ReductionStopped as reason:
            return str(reason)
        except KeyboardInterrupt:
            return INTERRUPTED
        return ""

    def _measure(self, search: Search) -> tuple[Evidence, Rule]:
        """Ask about the case itself, and return how often it fails and the rule for candidates."""
        original = self._target.original
        if self._asker.deterministic:
            _, test = search.ask_until(original, OneAnswer().decide)
        else:
            _, test = search.ask_until(original, lambda *counts: None if needs_more_baseline(*counts) else True)
        if not test.failures:
            answers = format_count(test.others + test.undecided, "answer")
            message = (
                f"{self._target.record.key} did not fail again in the same way ({self._target.pattern.text}): {answers}"
            )
            raise ReductionError(message, where="case")
        rule = OneAnswer() if self._asker.deterministic else rule_for(test.failures, test.others)
        return Evidence.of(test), rule

    def _start(self, search: Search, rule: Rule) -> Candidate:
        """
        Return the candidate with which the search starts: one tool if this is enough; the case with the default prompt
        if it fails with it too, since the messages may be private; then only the place of the violation.
        """
        start = self._target.original
        record = self._target.record
        start = search.find_failing(first_forms(start, find_suspect(record)), rule) or start
        if self._target.case.messages and (start.offer is None or can_be_requested(start.offer)):
            start = search.find_failing([start.with_default_prompt()], rule) or start
        violations = record.verdict.violations
        if violations:
            place = SCHEMA if start.tool is None else DocumentPlace(DocumentKind.PARAMETERS, start.tool)
            start = search.find_failing(forms_at(start, violations[0].schema_path, place), rule) or start
        return start

    def _add(self, candidate: Candidate) -> None:
        self._history.append(candidate)
        self._accepted(candidate, self._asker.calls)

    def _confirm(self, search: Search, rule: Rule, baseline: Evidence) -> tuple[Candidate, Evidence]:
        """Return the last candidate that is confirmed by new answers, and these answers."""
        if isinstance(rule, OneAnswer):
            smallest = self._history[-1]
            return smallest, Evidence.of(search.test_of(smallest)) if len(self._history) > 1 else baseline
        for candidate in reversed(self._history[1:]):
            confirmed, test = search.ask_until(candidate, confirming(rule).decide)
            if confirmed:
                return candidate, Evidence.of(test)
        return self._target.original, baseline

    def _find_neutral(self, smallest: Candidate, search: Search, rule: Rule) -> Candidate | None:
        """Return the first neutral form that fails too; None if there is none."""
        is_built_in = not self._target.case.messages and self._target.metadata.prompt in PROMPTS
        if smallest.offer is not None and not can_be_requested(smallest.offer):
            return None
        for form in neutral_forms(smallest if is_built_in else smallest.with_default_prompt()):
            found, test = search.ask_until(form, confirming(rule).decide)
            if found:
                self._evidence[form.digest] = Evidence.of(test)
                return form
        return None


@contextmanager
def _open_asker(
    target: ReductionTarget, options: ReductionOptions, policy: JudgePolicy, hidden: frozenset[str]
) -> Iterator[_OpenAsker]:
    """Open the asker for a case: an adaptation that refuses it, or its engine."""
    by = target.record.answered_by or target.metadata.engine_asked
    adapt = adapter(target.metadata.adapt)
    refuses = adapt is not None and first_refused(target.original, adapt) is not None
    if adapt is not None and refuses and not options.engine:
        with Judge(policy) as judge:
            asker: Asker = AdaptationAsker(adapt, judge, target.pattern, hidden)
            yield _OpenAsker(asker=asker, engine=by.engine, model=by.model, refused_by=target.metadata.adapt)
        return
    variant = build_variant(target, options.engine, options.factory)
    is_labelled = target.metadata.labelled
    concurrency = options.concurrency or min(variant.concurrency, _CALLS_IN_FLIGHT)
    # after the death of a server, all calls in flight fail
    concurrency = 1 if target.pattern.is_death else concurrency
    flags = reproducing_flags(target, options.engine, variant)
    check(variant.factory, variant.engine)
    with ExitStack() as stack:
        prepared = variant.engine if is_labelled else stack.enter_context(prepare(variant.factory, variant.engine))
        entries: dict[CaseKey, ListedCase] = {}
        session = stack.enter_context(
            _open_session(target, options, replace(variant, concurrency=concurrency), prepared, policy, entries)
        )
        asker = SessionAsker(
            session,
            entries,
            target.pattern,
            hidden,
            original=target.case,
            max_calls=options.max_calls,
            patience=options.patience,
            deterministic=is_labelled or (refuses and adapt is not None),
        )
        called = session.handover.metadata
        yield _OpenAsker(
            asker=asker,
            concurrency=concurrency,
            engine=called.engine,
            model=called.model,
            flags=(*flags, *policy_flags(policy)),
            difference="" if target.record.answered_by else difference(target.metadata, called),
        )


@contextmanager
def _open_session(
    target: ReductionTarget,
    options: ReductionOptions,
    variant: Variant,
    prepared: EngineConfig,
    policy: JudgePolicy,
    entries: dict[CaseKey, ListedCase],
) -> Iterator[RunSession]:
    """Start a run whose dataset is the candidates; an earlier, interrupted reduction in the directory is continued."""
    listing = Listing(entries=entries)
    is_labelled = target.metadata.labelled
    source = f"reduction of {target.record.key}"
    plan = Plan(
        variants={"": variant},
        cases=Cases(
            source=listing,
            description={"source": source, "labelled": is_labelled},
            labelled=listing if is_labelled else None,
        ),
        policy=policy,
        limits=options.limits,
        spec=RunSpec(limits=_limits(target)),
    )
    metadata = describe_run(plan, Entry.LIBRARY)
    if options.limits.max_cost is not None:
        from pytest_jsbench.metrics.prices import price_of

        price_of(metadata)
    with tempfile.TemporaryDirectory(prefix="jsbench-reduce-", ignore_cleanup_errors=True) as shared:
        recorded = None
        if options.folder is not None:
            recorded = _take_over(options.folder, metadata, keeps_faults=target.pattern.is_death)
        handover = Handover(metadata=metadata, folder=options.folder, shared=Path(shared), recorded=recorded)
        with closing(RunSession(plan, handover, prepared={"": prepared})) as session:
            session.begin(())
            session.open(cases=())
            yield session


def _limits(target: ReductionTarget) -> LimitOptions:
    """Return the limits of the calls: a retry would hide from which request a server died."""
    if not target.pattern.is_death:
        return LimitOptions({})
    generation = target.record.generation
    # a server that one request breaks is found broken in the same way
    broke = isinstance(generation, Failed) and generation.broke_server
    return LimitOptions({"retries": 0, "isolate_crashes": broke})


def _take_over(folder: Path, metadata: RunMetadata, *, keeps_faults: bool) -> Path | None:
    """
    Collect the records of an interrupted reduction in one file, and return it; None if there are none.

    Raise ReductionError if they belong to another reduction.
    """
    if not any(file.stat().st_size for file in folder.glob("records*.jsonl")):
        return None
    content = journal.read_run(folder)
    then = content.metadata
    if then is None:
        return None
    other = difference(then, metadata)
    if then.dataset.get("source") != metadata.dataset["source"]:
        other = f"{then.dataset.get('source')}, this is the {metadata.dataset['source']}"
    if other:
        message = f"{folder} has calls with other settings: {other}; choose another directory with --output"
        raise ReductionError(message, found=other, where=folder)
    kept = [outcome.source for outcome in content.outcomes if keeps_faults or not outcome.failed]
    journal.write(folder / journal.RESUMED, then, kept)
    for file in folder.glob("records*.jsonl"):
        if file.name != journal.RESUMED:
            file.unlink()
    return folder / journal.RESUMED
