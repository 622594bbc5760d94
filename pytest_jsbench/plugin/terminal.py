"""What is shown: a header line, letters and words for failure types, and the summary at the very end."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.text import counted, printable
from pytest_jsbench.plugin import transport
from pytest_jsbench.plugin.context import RunContext
from pytest_jsbench.plugin.controller import Controller
from pytest_jsbench.records.outcomes import Records
from pytest_jsbench.records.settings import RECORDED
from pytest_jsbench.records.variants import each

if TYPE_CHECKING:
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.records import RunMetadata
    from pytest_jsbench.records.resumption import Resumption

_LETTERS = {
    "api_error": "A",
    "unsupported_schema": "U",
    "refusal": "R",
    "no_call": "N",
    "unknown_tool": "K",
    "wrong_tool": "W",
    "truncated": "T",
    "syntax_error": "J",
    "unjudged": "?",
    "hallucination": "H",
    "schema_violation": "V",
    "wrong_decision": "D",
}

#: variants of which the header says what they are
_MOST_VARIANTS = 20


#: own tests that failed beside their answers, of which the summary says why, and lines of the header on misspelt words
_MOST_TESTS = 10


class Terminal:
    """
    Shows the run on the terminal; decides nothing.

    The activation makes one beside the controller. pytest calls its hooks in the main thread: for the header, for the
    letter of each report, and for the summary, which it shows last. It keeps nothing of its own.
    """

    def __init__(self, config: pytest.Config, context: RunContext, controller: Controller) -> None:
        self._config = config
        self._context = context
        self._controller = controller

    def pytest_report_header(self) -> list[str]:
        """The lines on the engine, the cases and what is resumed."""
        context = self._context
        metadata = context.handover.metadata
        pace = f"{context.plan.concurrency} in flight" if context.plan.batch is None else "handed in as a batch"
        asked = f"jsbench: {self._asked()}, {pace}{_limited(context)}"
        if metadata.variants:
            shown = [f"jsbench: {_variant(context, one)}" for one in each(metadata)]
            more = len(shown) - _MOST_VARIANTS
            lines = [
                *shown[:_MOST_VARIANTS],
                *([f"jsbench: … and {counted(more, 'variant')} more"] if more > 0 else []),
            ]
            lines.append(asked)
        else:
            prompt = _prompt(context, metadata)
            lines = [f"jsbench: {_who(metadata)}", asked, *([f"jsbench: {prompt}"] if prompt else [])]
        lines += [f"jsbench: {said}" for said in self._controller.misspelt[:_MOST_TESTS]]
        if context.settings.variants_left_out:
            lines.append(f"jsbench: {context.settings.variants_left_out}")
        if (resumption := self._context.session.resumption) is not None:
            lines.append(f"jsbench: {_resuming(resumption)}")
        if context.settings.targets.suite_only:
            lines.append("jsbench: only the schemas run; name a path to run a project's own tests too")
        return [printable(line, None) for line in lines]

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """The failure type as the letter of a failed case; it still counts, and is called, failed."""
        failure_type = transport.failure_type_of(report)
        if not failure_type or not report.failed:
            return None
        return "failed", _LETTERS.get(failure_type, "F"), "FAILED"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
        """Show the summary last, even where another plugin's summary raises."""
        try:
            self._controller.settle()
            return (yield)
        except Exception as error:
            self._controller.settle(error)
            raise
        finally:
            self._show(terminalreporter)

    def _show(self, reporter: pytest.TerminalReporter) -> None:
        controller = self._controller
        if controller.run is None or controller.summary is None:
            return
        from pytest_jsbench.reports.run_report import heading, report
        from pytest_jsbench.reports.terminal import detail, fact_lines, report_lines, width_of

        width = width_of(is_terminal=bool(reporter.isatty))
        reporter.write_sep("=", f"jsbench: {heading(controller.run.metadata)}")
        decision = controller.decision
        lines = report_lines(report(controller.run, controller.summary, keywords=reporter.verbosity > 0), width)
        if decision.baseline is not None:
            from pytest_jsbench.reports.comparison_report import facts_of_comparison

            for name, comparison in decision.comparisons.items():
                source = ", variant ".join(map(printable, filter(None, (decision.baseline.source, name))))
                lines += fact_lines(facts_of_comparison(comparison, source), width)
        lines += [*detail("records", self._where()), *detail("page", self._page())]
        for line in [*lines, *self._unasked(), *self._going_on(controller.summary)]:
            reporter.write_line(line)
        beside = [outcome for outcome in controller.run.failed() if outcome.passed]
        for record in Records(beside[:_MOST_TESTS]):
            for line in detail("failed", printable(f"{record.key}: {': '.join(record.failure)}", 2000)):
                reporter.write_line(line, red=True)
        for warning in controller.state.warnings:
            for line in detail("warning", printable(warning, 2000)):
                reporter.write_line(line, yellow=True)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            from pytest_jsbench.reports.markdown import workflow_commands

            for line in workflow_commands(controller.run, folder=_from_workspace(self._config.rootpath)):
                reporter.write_line(line)
        for gate in decision.gates:
            for line in detail("gate", gate.message):
                reporter.write_line(line, green=gate.met, red=not gate.met, bold=True)
        if (verdict := controller.run.verdict) is not None:
            for line in detail("verdict", verdict.text):
                reporter.write_line(line, green=verdict.passed, red=not verdict.passed, bold=True)

    def _asked(self) -> str:
        if not self._context.settings.targets.suite:
            return "a project's own tests"
        source = self._context.handover.metadata.dataset["source"]
        if self._context.plan.cases.labelled is None:
            return f"dataset {source}, {self._cases()}"
        return f"labelled answers of {source} (no model is called), {self._cases()}"

    def _cases(self) -> str:
        shard, here = self._context.plan.shard, counted(len(self._context.plan.keys), "case")
        if (variants := len(self._context.handover.metadata.variants)) > 1:
            here = f"{here}, each asked in {variants} ways"
        if shard is None:
            return here
        origin = f" by {shard.origin}," if shard.origin else ""
        return f"{here} (shard {shard}{origin} of {self._context.handover.metadata.dataset['cases']:,})"

    def _where(self) -> str:
        context = self._context
        if context.handover.folder is None:
            return "not kept (--jsbench-output DIR keeps them)"
        folder = _from_here(context.handover.folder)
        if context.plan.output is None:
            return f"{folder} (the last 5 runs; --jsbench-output DIR keeps them for good)"
        return str(folder)

    def _page(self) -> str:
        """Where report.html is, as a link, or how to get it; empty where no record is kept."""
        if (folder := self._context.handover.folder) is None:
            return ""
        if self._context.plan.output is not None and (page := folder / "report.html").exists():
            return page.resolve().as_uri()
        install = "" if find_spec("jinja2") is not None else "pip install 'pytest-jsbench[report]', and "
        return f"{install}{shlex.join(['jsbench', 'report', '-o', 'report.html', str(_from_here(folder))])}"

    def _unasked(self) -> list[str]:
        """Count the recorded answers that no test of a whole run asked for, with the command that lists them."""
        plan, run = self._context.plan, self._context.handover.folder
        folder = plan.record or plan.replay
        if not self._controller.unasked or folder is None:
            return []
        from pytest_jsbench.reports.terminal import detail

        said = f"{counted(self._controller.unasked, 'recorded answer')} that no test asked for"
        if run is not None:
            command = shlex.join(["jsbench", "recordings", str(_from_here(folder)), "--run", str(_from_here(run))])
            said += f"; {command} lists them, and deletes them with --prune"
        return detail("unasked", said)

    def _going_on(self, summary: Summary) -> list[str]:
        """The command that makes the calls that broke or are missing, where there are any."""
        context = self._context
        if (
            not summary.total.errors
            or context.handover.folder is None
            or not context.settings.targets.suite
            or context.plan.batch is not None
        ):
            return []
        if context.plan.cases.labelled is not None or context.handover.metadata.engine in RECORDED:
            return []
        runs = _from_here(context.handover.folder.parent)
        from pytest_jsbench.reports.terminal import detail

        return detail("go on", f"the same with --jsbench-resume={runs} calls only what is missing")


def _who(metadata: RunMetadata) -> str:
    """Engine and model, and how they are asked."""
    switches = (name if value else f"not {name}" for name, value in metadata.details.items() if isinstance(value, bool))
    adapt = [] if metadata.adapt == "verbatim" else [metadata.adapt]
    settings = ", ".join([metadata.response_format, *switches, *adapt])
    return f"engine {metadata.engine}, model {printable(metadata.model, 60)} ({settings})"


def _prompt(context: RunContext, metadata: RunMetadata) -> str:
    """The prompt, where it is not the usual one; empty where it is, or no model is asked."""
    if (metadata.prompt == "schema" and not metadata.shots) or context.plan.cases.labelled is not None:
        return ""
    shots = f", {counted(metadata.shots, 'example')} first" if metadata.shots else ""
    return f"prompt {printable(metadata.prompt)}{shots}"


def _variant(context: RunContext, metadata: RunMetadata) -> str:
    prompt = _prompt(context, metadata)
    said = f"variant {metadata.variant}: {_who(metadata)}{f', {prompt}' if prompt else ''}"
    if context.plan.batch is None:
        said += f", {context.plan.variants[metadata.variant].concurrency} in flight"
    unlimited = context.plan.limits.max_cost is not None and metadata.provider is None
    return f"{said}, no price known, so not among what the run may cost" if unlimited else said


def _from_here(folder: Path) -> Path:
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def _from_workspace(path: Path) -> str:
    """The path as GitHub knows it: from the top of the repository that the workflow has checked out."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    inside = workspace is not None and path.is_relative_to(workspace)
    return path.relative_to(workspace).as_posix() if inside and workspace is not None else ""


def _limited(context: RunContext) -> str:
    limits = context.plan.limits
    said = {
        "requests a minute": limits.requests_per_minute,
        "tokens a minute": limits.tokens_per_minute,
    }
    parts = [f", {value:,g} {words}" for words, value in said.items() if value is not None]
    return "".join(parts) + ("" if limits.max_cost is None else f", at most ${limits.max_cost:,g}")


def _resuming(resumption: Resumption) -> str:
    if resumption.metadata is None:
        return f"no answer to go on with in {resumption.source}: it was broken off before the first"
    parts = [f"{counted(len(resumption.answers), 'answer')} taken over"]
    if resumption.project_answers:
        parts.append(
            f"{counted(len(resumption.project_answers), 'answer')} to own tests, taken over where they ask the same"
        )
    if resumption.broken:
        parts.append(f"{counted(resumption.broken, 'broken call')} made again")
    if resumption.left_out:
        parts.append(f"{counted(resumption.left_out, 'answer')} to other questions left out")
    return f"going on with {resumption.metadata.run_id}: {', '.join(parts)}"
