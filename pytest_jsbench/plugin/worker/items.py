"""The virtual suite: a collector without a file, one item per case."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.text import printable
from pytest_jsbench.fixture.jsbench import CaseFailed, failure_text
from pytest_jsbench.plugin.options.reading import ROOT
from pytest_jsbench.plugin.session import transport
from pytest_jsbench.plugin.session.cases import Marks, add_markers, task_mark
from pytest_jsbench.plugin.session.context import RUN_CONTEXT, RunContext
from pytest_jsbench.runs.records import Missing

if TYPE_CHECKING:
    from pytest_jsbench.plugin.session.transport import AttemptResult
    from pytest_jsbench.runs.records import Record


class JSBenchSuite(pytest.Collector):
    """The root of the suite: `jsbench`."""

    keys: Iterable[CaseKey] = ()
    marks: Marks = MappingProxyType({})

    def collect(self) -> Iterator[pytest.Collector]:
        """One collector per task, in the dataset's order."""
        by_task: dict[str, list[CaseKey]] = {}
        for key in self.keys:
            by_task.setdefault(key.task, []).append(key)
        for task, keys in by_task.items():
            collector = JSBenchTask.from_parent(self, name=task)
            collector.keys = keys
            collector.marks = self.marks
            for mark in ("jsbench", task_mark(task)):
                collector.add_marker(mark)
            yield collector


class JSBenchTask(pytest.Collector):
    """A task: `jsbench::<task>`."""

    keys: Iterable[CaseKey] = ()
    marks: Marks = MappingProxyType({})

    def collect(self) -> Iterator[pytest.Item]:
        """One item per case, or one per attempt where a case has several."""
        repeats = self.config.stash[RUN_CONTEXT].settings.repeats
        for key, repeat in itertools.product(self.keys, range(repeats)):
            item = JSBenchCase.from_parent(self, name=key.id if repeats == 1 else f"{key.id}[{repeat + 1}]")
            item.key, item.repeat = key, repeat
            for mark in self.marks.get(key, ()):
                item.add_marker(mark)
            yield item


class JSBenchCase(pytest.Item):
    """A case, `jsbench::<task>::<id>`, or its n-th attempt, `…[n]`; its schema is read only when it runs."""

    key: CaseKey
    repeat: int = 0
    #: what became of it, from the call to its report
    outcome: AttemptResult | None = None
    #: whether it has run, and whether it has passed
    has_run: bool = False
    has_passed: bool = False

    @property
    def fixturenames(self) -> list[str]:
        """What pytest-benchmark tells benchmarks by, where it was told to run only one kind of test."""
        option = self.config.option
        selects = getattr(option, "benchmark_only", False) or getattr(option, "benchmark_skip", False)
        return ["benchmark"] if selects else []

    def runtest(self) -> None:
        """Wait for the case's record and hold it against what a test must be: passed."""
        if self.has_passed:  # run again by a plugin: its answer stands, and was reported
            return
        self.outcome = outcome = self.config.stash[ATTEMPT_SOURCE].outcome(self)
        self.has_run = True
        if isinstance(outcome.result, Missing):
            message = f"{self.nodeid}: not run: {outcome.result.message}"
            raise pytest.skip.Exception(message, _use_item_location=True)
        record = outcome.result
        say(self, [*properties(record), *([("jsbench.resumed", True)] if outcome.resumed else [])])
        failure_type = record.verdict.failure_type
        if failure_type is None:
            self.has_passed = True
            return
        add_markers(self, record)
        if record.excluded:
            message = f"{self.nodeid}: {failure_text(record, rerun=None)}"
            raise pytest.skip.Exception(message, _use_item_location=True)
        active = self.config.stash[RUN_CONTEXT]
        raise CaseFailed(record, rerun=f"{active.rerun} {shlex.quote(self.nodeid)}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A few lines for a case that failed, or was ended from outside (pytest-timeout); else from here on."""
        if not isinstance(excinfo.value, CaseFailed | pytest.fail.Exception):
            excinfo.traceback = excinfo.traceback.cut(path=__file__)
            return super().repr_failure(excinfo, style)
        failed = excinfo.value
        shown = excinfo.getrepr(style="value", chain=False)
        if (crash := shown.reprcrash) is not None:
            # what the short summary and JUnit's message say; in place, for it stands in the chain too
            crash.path, crash.lineno = self.nodeid, 0
            crash.message = failed.headline if isinstance(failed, CaseFailed) else str(failed)
        return shown

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the item stands, for headings; a line number because `Node.warn` needs one."""
        name = f"{ROOT}::{self.key}"
        # pytest writes "::" for each dot of a name that its node id ends in; the space keeps it from being one
        return self.path, 0, f"{name} " if "." in name else name


class AttemptSource(Protocol):
    """What gives an item the result of its attempt: the worker."""

    def outcome(self, item: JSBenchCase) -> AttemptResult:
        """Wait for the attempt's result."""


ATTEMPT_SOURCE = pytest.StashKey[AttemptSource]()


class Suite:
    """Adds the virtual suite to the session, and keeps what was asked for by node id."""

    def __init__(self, active: RunContext) -> None:
        self._active = active

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Append the suite to the session's own collectors."""
        report = yield
        if isinstance(collector, pytest.Session) and report.passed and self._active.suite:
            suite = JSBenchSuite.from_parent(collector, name=ROOT, nodeid=ROOT)
            suite.keys = self._active.keys
            suite.marks = self._active.selected.marks
            report.result = [*(report.result or ()), suite]
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect what was not asked for, where node ids of the suite were; begin with what is answered already."""
        if self._active.chosen:
            self._deselect(config, items)
        if self._active.run.recorded is not None:
            self._begin_with_recorded(items)

    def _begin_with_recorded(self, items: list[pytest.Item]) -> None:
        """So that the look-ahead, which goes as far as so many cases, is over cases that have to be called."""
        places = [place for place, item in enumerate(items) if isinstance(item, JSBenchCase)]
        cases = [item for item in items if isinstance(item, JSBenchCase)]
        cases.sort(key=lambda item: (item.key, item.repeat) not in self._active.recorded)
        for place, case in zip(places, cases, strict=True):
            items[place] = case

    def _deselect(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen = self._active.chosen
        self._refuse_unknown(items)
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            wanted = not isinstance(item, JSBenchCase) or any(_below(item.nodeid, top) for top in chosen)
            (kept if wanted else dropped).append(item)
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = kept

    def _refuse_unknown(self, items: list[pytest.Item]) -> None:
        nodeids = [item.nodeid for item in items if isinstance(item, JSBenchCase)]
        for top in self._active.chosen:
            if not any(_below(nodeid, top) for nodeid in nodeids):
                from pytest_jsbench.core.errors import nearest

                known = {nodeid.rpartition("::")[0] for nodeid in nodeids} | {ROOT}
                message = f"not found: {top}: {nearest(top, known)}; --collect-only lists the cases"
                raise pytest.UsageError(message)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the record on the call's report, which both pytest and xdist carry to where reports land."""
        report = yield
        if isinstance(item, JSBenchCase):
            transport.mark(report)
            if self._active.run.redaction is not None:  # what was logged meanwhile
                report.sections.clear()
            if report.when == "call" and item.outcome is not None:
                transport.attach(report, item.outcome)
                timing = getattr(getattr(item.outcome.result, "generation", None), "timing", None)
                if timing is not None:
                    report.duration = timing.tgt
                item.outcome = None  # pytest keeps the item, and where reports land the record is kept anyway
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self) -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
        """Write the records on a report as text, where it leaves the process."""
        data = yield
        if data is not None:
            transport.write_out(data)
        return data


def say(item: pytest.Item, said: Iterable[tuple[str, object]]) -> None:
    """Let reports say this of a test, and nothing of what was said of an earlier run of it."""
    kept = [(name, value) for name, value in item.user_properties if not name.startswith("jsbench.")]
    item.user_properties[:] = [*kept, *said]


def properties(record: Record) -> list[tuple[str, object]]:
    """What JUnit says of a case; only what is known."""
    verdict, generation = record.verdict, record.generation
    timing, usage = getattr(generation, "timing", None), getattr(generation, "usage", None)
    decisions = getattr(generation, "decisions", None)
    values = {
        "task": record.key.task,
        "attempt": f"{record.key}[{record.repeat + 1}]",
        "failure_type": verdict.failure_type and verdict.failure_type.value,
        "reason": verdict.reason,
        "codes": ", ".join(record.codes) or None,
        "keyword": verdict.keyword,
        "notes": ", ".join(note.value for note in verdict.notes) or None,
        "retries": record.retries or None,
        "queue_s": record.queue_s,
        "decisions": decisions and len(decisions),
        "wrong_decisions": decisions and sum(decision.wrong for decision in decisions),
        "grammar_compilation_s": timing and timing.grammar_compilation,
        "ttft_s": timing and timing.ttft,
        "tgt_s": timing and timing.tgt,
        "input_tokens": usage and usage.input_tokens,
        "output_tokens": usage and usage.output_tokens,
        "cached_tokens": usage and usage.cached_tokens,
        "reasoning_tokens": usage and usage.reasoning_tokens,
    }
    return [(f"jsbench.{name}", _shown(value)) for name, value in values.items() if value is not None]


def _shown(value: object) -> object:
    if isinstance(value, str):
        return printable(value)
    return round(value, 6) if isinstance(value, float) else value


def _below(nodeid: str, top: str) -> bool:
    return nodeid == top or nodeid.startswith((f"{top}::", f"{top}["))
