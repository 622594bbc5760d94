"""Collect the suite: one test item per case, without a test file. Also count the tests that make calls."""

from __future__ import annotations

import difflib
import functools
import itertools
import shlex
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import nearest
from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.core.text import printable
from pytest_jsbench.fixture.case_failed import CaseFailed
from pytest_jsbench.plugin import transport
from pytest_jsbench.plugin.context import (
    FIXTURE,
    MANY,
    RUN_CONTEXT,
    SHARED,
    RunContext,
    add_markers,
    mark,
    uses,
    variant_of,
)
from pytest_jsbench.plugin.pytest_options import ROOT
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import Attempt, Missing
from pytest_jsbench.verdicts.verdicts import excerpt

if TYPE_CHECKING:
    from pytest_jsbench.run.record_keeper import AttemptResult


class JSBenchSuite(pytest.Collector):
    """The root collector of the suite, with the node id `jsbench`."""

    def collect(self) -> Iterator[pytest.Collector]:
        """Yield a collector for each task, in the dataset's order."""
        by_task: dict[str, list[CaseKey]] = {}
        context = self.config.stash[RUN_CONTEXT]
        for key in context.plan.keys:
            by_task.setdefault(key.task, []).append(key)
        for task, keys in by_task.items():
            collector = JSBenchTask.from_parent(self, name=task)
            collector.keys = keys
            for name in ("jsbench", mark("task", task)):
                collector.add_marker(name)
            yield collector


class JSBenchTask(pytest.Collector):
    """The collector of a task, with the node id `jsbench::<task>`."""

    keys: Iterable[CaseKey] = ()

    def collect(self) -> Iterator[pytest.Item]:
        """
        Yield an item for each attempt at each case and each variant; items that differ only in the variant are
        adjacent.
        """
        context = self.config.stash[RUN_CONTEXT]
        repeats = context.plan.spec.execution.repeats
        variants = {name: (mark("variant", name),) if name else () for name in context.plan.variants}
        for key, repeat, variant in itertools.product(self.keys, range(repeats), variants):
            attempt = Attempt(key, repeat, variant)
            name = attempt.name(several=repeats > 1).removeprefix(f"{key.task}::")
            # the node id is passed explicitly, since --lf does not recognize a node whose name ends in brackets
            nodeid = {} if name == key.id else {"nodeid": f"{self.nodeid}::{name}"}
            item = JSBenchCase.from_parent(self, name=name, attempt=attempt, **nodeid)
            for marker in (*context.marks.get(key, ()), *variants[variant]):
                item.add_marker(marker)
            if (excuse := context.excuses.get(key)) is not None:
                item.add_marker(pytest.mark.xfail(reason=excuse, raises=CaseFailed, strict=False))
            yield item


def of_suite(nodeid: str) -> bool:
    """Return whether the node id belongs to the suite."""
    return nodeid.startswith(f"{ROOT}::")


def attempt_of(nodeid: str, *, repeats: int) -> Attempt | None:
    """Return the attempt that a node id of the suite stands for; None for other node ids."""
    if not of_suite(nodeid):
        return None
    name, _, variant = nodeid.removeprefix(f"{ROOT}::").removesuffix("]").partition("[")
    variant, _, number = variant.rpartition("-") if repeats > 1 else (variant, "", "1")
    return Attempt(CaseKey.parse(name), int(number) - 1, variant)


class JSBenchCase(pytest.Item):
    """The test item for one attempt at a case, named by `Attempt.name`; the schema is read only when the item runs."""

    #: Slots save memory, since there may be a hundred thousand items; otherwise, each attribute that is added later
    #: would enlarge the item's dictionary.
    __slots__ = ("answered", "attempt", "has_passed", "has_run", "outcome")

    def __init__(self, *, attempt: Attempt, **options: Any) -> None:
        super().__init__(**options)
        self.attempt = attempt
        #: The result of the item's attempt, from the call until the report.
        self.outcome: AttemptResult | None = None
        #: The result if its answer did not pass: if a plugin reruns the test, this result is used, without another
        #: call.
        self.answered: AttemptResult | None = None
        #: Whether the item has run, and whether its attempt passed.
        self.has_run = False
        self.has_passed = False

    @property
    def fixturenames(self) -> list[str]:
        """
        Names of the item's fixtures: none, but `benchmark` with --benchmark-only or --benchmark-skip, so that
        pytest-benchmark treats the item as a benchmark.
        """
        option = self.config.option
        selects = getattr(option, "benchmark_only", False) or getattr(option, "benchmark_skip", False)
        return ["benchmark"] if selects else []

    def _initrequest(self) -> None:
        """Do nothing, because a case has no fixtures to reset; pytest-retry calls this method on every item."""

    def runtest(self) -> None:
        """Wait for the result of the attempt; fail or skip according to its verdict."""
        if self.has_passed:  # a plugin reruns the item, but the answer would be the same
            return
        # Do not keep the result in a local variable: the traceback of an exception would keep it in memory for long.
        self.outcome = self.config.stash[RESULT_OF](self)
        self.has_run = True
        attempt = self.outcome.result
        if isinstance(attempt, Missing):
            raise pytest.skip.Exception(f"{self.nodeid}: not run: {attempt.message}", _use_item_location=True)
        set_properties(self, [self.outcome], few=self.session.testscollected > MANY)
        self.has_passed = attempt.passed
        if attempt.passed:
            return
        add_markers(self, attempt)
        explanation = self._explanation(self.outcome.explanation or attempt.read().explanation, attempt)
        settings = self.config.stash[RUN_CONTEXT].settings
        if attempt.not_rewritten or (attempt.excluded and settings.selection.skips_invalid):
            # remove the line "next:", which advises to skip such cases
            reason = explanation.partition("\n  next:")[0]
            if attempt.not_rewritten:
                reason = f"not rewritten: {reason.partition(': ')[2]}"
            raise pytest.skip.Exception(f"{self.nodeid}: {reason}", _use_item_location=True)
        raise CaseFailed(attempt, explanation=explanation, rerun=f"{settings.rerun} {shlex.quote(self.nodeid)}")

    def _explanation(self, explanation: str, attempt: AttemptFacts) -> str:
        """
        Explain why the attempt did not pass. Only the first explanations in a process contain the answer; with -v, all
        contain the answer and the prompt.
        """
        stash = self.config.stash
        stash[_EXPLAINED] = stash.get(_EXPLAINED, 0) + 1
        lines = explanation.split("\n")
        if self.config.get_verbosity() > 0:
            prompt = attempt.read().prompt
            messages = () if prompt is None else prompt.messages
            shown = [line for message in messages for line in excerpt(message.role, message.shown)]
            step = next((at for at, line in enumerate(lines) if line.startswith("  next:")), len(lines))
            lines[step:step] = shown
        elif stash[_EXPLAINED] > _MOST_EXPLAINED:
            answer = next((at for at, line in enumerate(lines) if line.startswith("  answer:")), None)
            lines = [line for line in lines if not line.startswith(("  answer:", "    "))]
            if answer is not None and not stash.get(_HIDES_ANSWERS, False):
                stash[_HIDES_ANSWERS] = True
                lines.insert(answer, "  answer: this and further answers are not shown; -v shows them")
        return "\n".join(lines)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """
        Return a few lines if the attempt did not pass or pytest-timeout ended the test; return a traceback for any
        other error.
        """
        failed = excinfo.value
        if isinstance(failed, CaseFailed):
            entry = excinfo.tb
            # keep only the innermost entry, since dozens of entries take long to process
            while entry.tb_next is not None:
                entry = entry.tb_next
            excinfo = pytest.ExceptionInfo.from_exc_info((excinfo.type, failed, entry))
        else:
            # cut the frames of pytest, since pytest keeps the variables of all shown frames in memory
            excinfo.traceback = excinfo.traceback.cut(path=__file__)
            if not isinstance(failed, pytest.fail.Exception):
                return super().repr_failure(excinfo, style)
        shown = excinfo.getrepr(style="value", chain=False, tbfilter=False)  # the style shows no chained exception
        if (crash := shown.reprcrash) is not None:
            # Set the text for the short summary and the JUnit file. Change `reprcrash` in place, since `shown` refers
            # to it in several places.
            crash.path, crash.lineno = self.nodeid, 0
            crash.message = failed.headline if isinstance(failed, CaseFailed) else str(failed)
        for part in shown.reprtraceback.reprentries:
            # one text for all lines takes less memory, since pytest keeps the reports of all failed tests
            if isinstance(lines := getattr(part, "lines", None), list):
                lines[:] = [str(failed)]
        return shown

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return path, line number and heading of the item; the line number 0 is needed by `Node.warn`."""
        # pytest would replace each dot in the heading by "::" if the node id ends with the heading; a trailing space
        # prevents this
        return self.config.rootpath / ROOT, 0, f"{self.nodeid} " if "." in self.nodeid else self.nodeid


#: Number of explained failures in this process; only the first explanations contain the answer.
_EXPLAINED = pytest.StashKey[int]()
_MOST_EXPLAINED = 10
#: Whether an explanation has already stated that further answers are hidden.
_HIDES_ANSWERS = pytest.StashKey[bool]()


#: Function that waits for the result of an item's attempt; set by the worker.
RESULT_OF = pytest.StashKey[Callable[[JSBenchCase], "AttemptResult"]]()


class Suite:
    """
    Adds the suite to the session, and the result of each attempt to the report of its test.

    `activation` creates one object in every process. pytest calls its hooks in the main thread: during collection,
    after each phase of a test, and under xdist before and after a report is sent. Between these calls, the object keeps
    the tracebacks of the running test.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._tracebacks: list[TracebackType] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Append the suite to the session's collectors."""
        report = yield
        if isinstance(collector, pytest.Session) and report.passed and self._context.settings.targets.suite:
            suite = JSBenchSuite.from_parent(collector, name=ROOT, nodeid=ROOT)
            report.result = [*(report.result or ()), suite]
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect all cases that the command line does not name, if it names any; move resumed cases to the front."""
        if chosen := self._context.settings.targets.chosen:
            cases = [item for item in items if isinstance(item, JSBenchCase)]
            nodeids = [case.nodeid for case in cases]
            for top in chosen:
                if not any(_below(nodeid, top) for nodeid in nodeids):
                    names = {nodeid.rpartition("::")[0] for nodeid in nodeids} | {ROOT}
                    names.update(difflib.get_close_matches(top, nodeids, n=1))
                    message = f"not found: {top}: {nearest(top, names)}; --collect-only lists the cases"
                    raise pytest.UsageError(message)
            dropped = [case for case in cases if not any(_below(case.nodeid, top) for top in chosen)]
            if dropped:
                config.hook.pytest_deselected(items=dropped)
                left_out = set(map(id, dropped))
                items[:] = [item for item in items if id(item) not in left_out]
        if self._context.handover.recorded is not None:
            self._begin_with_recorded(items)

    def _begin_with_recorded(self, items: list[pytest.Item]) -> None:
        """
        Move cases that an earlier run answered to the front, so that the look-ahead then covers only cases to be
        called.
        """
        places = [place for place, item in enumerate(items) if isinstance(item, JSBenchCase)]
        cases = [item for item in items if isinstance(item, JSBenchCase)]
        cases.sort(key=lambda item: item.attempt not in self._context.session.recorded)
        for place, case in zip(places, cases, strict=True):
            items[place] = case

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the attempt's result to the report of the call phase, which pytest or xdist passes to the controller."""
        report = yield
        if not isinstance(item, JSBenchCase):
            return report
        if self._context.handover.redaction is not None:  # captured output may contain prompts or answers
            report.sections.clear()
        if report.when == "call" and item.outcome is not None:
            made = item.outcome.result
            facts = made if isinstance(made, AttemptFacts) else None
            transport.attach(report, [item.outcome], None if facts is None else facts.failure_type)
            if facts is not None and facts.timing is not None:
                report.duration = facts.timing.tgt
            item.outcome = None  # free memory: pytest keeps the item, and the report contains the result
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector, call: pytest.CallInfo[object]) -> None:
        """Keep the traceback of a failed case until the end of the test's protocol, since other plugins may read it."""
        if isinstance(node, JSBenchCase) and call.excinfo is not None:
            self._tracebacks.append(call.excinfo.tb)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """
        Break the reference cycles between exceptions and frames, which would keep records in memory until garbage
        collection.
        """
        try:
            return (yield)
        finally:
            for noted in self._tracebacks:
                _clear_frames(noted)
            self._tracebacks.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self) -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
        """Convert the results on a report to text, before the report leaves the process."""
        data = yield
        if data is not None:
            transport.write_out(data)
        return data

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remove the results from a report that a worker has sent, because the worker keeps its reports in memory."""
        if self._context.worker is not None:
            transport.take(report)


def _clear_frames(noted: TracebackType) -> None:
    """Clear the local variables of all finished frames in a traceback, and of the frames that called these."""
    traceback.clear_frames(noted)
    caller = noted.tb_frame.f_back
    with suppress(RuntimeError):  # the frame is still running
        while caller is not None:
            caller.clear()
            caller = caller.f_back


_TIMES = ("grammar_compilation", "compile_time", "ttft", "tgt", "reasoning_time")
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")


def set_properties(item: pytest.Item, results: Sequence[AttemptResult], *, few: bool = False) -> None:
    """
    Set a test's properties for the JUnit file and other reports, in place of the properties from an earlier run of the
    test.

    If the test made one attempt, the properties describe the attempt; with `few`, only the most important ones are set.
    For several attempts, the properties are the number of attempts and the number of passed attempts.
    """
    attempts = [result.result for result in results if isinstance(result.result, AttemptFacts)]
    values: dict[str, object] = {"attempts": len(attempts), "passed": sum(attempt.passed for attempt in attempts)}
    if len(attempts) == 1:
        values = _properties(attempts[0])
    if few:  # the other properties are in report.html and the records
        values = {name: values[name] for name in ("task", "failure_type")}
    if any(result.resumed for result in results):
        values["resumed"] = True
    others = [(name, value) for name, value in item.user_properties if not name.startswith("jsbench.")]
    ours = [_share_property(f"jsbench.{name}", _shown(value)) for name, value in values.items() if value is not None]
    item.user_properties[:] = [*others, *(ours if attempts else [])]


@functools.lru_cache(maxsize=1024, typed=True)
def _share_property(name: str, value: object) -> tuple[str, object]:
    """Return the same pair for equal properties, because pytest keeps those of all tests."""
    return sys.intern(name), value


def _properties(attempt: AttemptFacts) -> dict[str, object]:
    timing = attempt.timing
    usage = attempt.usage
    decisions = attempt.decisions
    match = attempt.match
    return {
        "task": attempt.key.task,
        "variant": attempt.variant or None,
        "attempt": attempt.attempt.name(several=True),
        "failure_type": attempt.failure_type and attempt.failure_type.value,
        "reason": attempt.reason,
        "broke_server": attempt.broke_server or None,
        "codes": ", ".join(attempt.codes) or None,
        "keyword": attempt.broken[0] if attempt.broken else None,
        "notes": ", ".join(note.value for note in attempt.notes) or None,
        "runaway_share": attempt.runaway_share,
        "values": match and f"{match.right}/{match.expected}",
        "values_invented": (match and match.invented) or None,
        "retries": attempt.retries or None,
        "repaired_by_try": attempt.repairs and attempt.repairs.passed_at,
        "repair_tries": attempt.repairs and len(attempt.repairs.tries),
        "queue_s": attempt.queue_s,
        "decisions": decisions and decisions.asked,
        "wrong_decisions": decisions and decisions.wrong,
        **{f"{name}_s": timing and getattr(timing, name) for name in _TIMES},
        **{name: usage and getattr(usage, name) for name in _TOKENS},
    }


def _shown(value: object) -> object:
    if isinstance(value, str):
        return printable(value)
    return round(value, 6) if isinstance(value, float) else value


def _below(nodeid: str, top: str) -> bool:
    return nodeid == top or nodeid.startswith((f"{top}::", f"{top}["))


_KEY = "jsbench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The collected tests that make calls; every worker of xdist collects the same tests."""

    #: Selected tests of the project, as pairs of node id and variant.
    project_tests: tuple[tuple[str, str], ...] = ()
    #: Node ids of selected tests that use `jsbench_shared`.
    sharing: tuple[str, ...] = ()
    #: Number of selected tests, and number of deselected tests.
    selected: int = 0
    deselected: int = 0

    @classmethod
    def of(cls, items: Iterable[pytest.Item], *, before: int) -> Collected:
        """Return the selected tests among these items; `before` is the number of tests before deselection."""
        chosen = [item for item in items if makes_attempts(item)]
        return cls(
            project_tests=tuple((item.nodeid, variant_of(item)) for item in chosen if uses(item, FIXTURE)),
            sharing=tuple(item.nodeid for item in chosen if uses(item, SHARED)),
            selected=len(chosen),
            deselected=max(0, before - len(chosen)),
        )

    @property
    def any(self) -> bool:
        """Whether any of the collected tests makes calls."""
        return self.selected + self.deselected > 0

    def send_to_controller(self, config: pytest.Config) -> None:
        """Send this object from a worker to xdist's controller; do nothing in other processes."""
        if (output := getattr(config, "workeroutput", None)) is not None:
            output[_KEY] = to_json(self)

    @classmethod
    def from_worker_output(cls, output: Mapping[str, Any]) -> Collected | None:
        """Read the object that a worker sent; None if the worker sent none."""
        data = output.get(_KEY)
        return None if data is None else from_json(cls, data)


def makes_attempts(item: pytest.Item) -> bool:
    """Return whether this test makes attempts when it runs."""
    return isinstance(item, JSBenchCase) or uses(item, FIXTURE) or uses(item, SHARED)
