"""Write information about the run to the terminal: header lines, letters for failure types, and the summary."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.text import dollars, format_count, printable
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import BUILTIN, BUILTIN_QUICK, BUNDLED, QUICK
from pytest_jsbench.plugin import transport
from pytest_jsbench.plugin.context import RunContext
from pytest_jsbench.plugin.controller import Controller
from pytest_jsbench.plugin.progress import from_here
from pytest_jsbench.plugin.pytest_options import ROOT
from pytest_jsbench.records.questions import each
from pytest_jsbench.records.runs import Records
from pytest_jsbench.records.setting_differences import RECORDED

if TYPE_CHECKING:
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.resumption import Resumption
    from pytest_jsbench.records.runs import Run

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
    "wrong_arguments": "G",
    "wrong_decision": "D",
}

#: Labels of lines with commands, which are not wrapped so that users can copy them.
_COMMANDS = frozenset({"rerun"})
#: Maximum number of variants that the header lists.
_MOST_VARIANTS = 20
#: Maximum number of pairs of variants whose comparison is printed without -v.
_MOST_PAIRS = 3
#: Maximum number of invalid schemas that are checked against other drafts.
_MOST_BROKEN = 2000
#: Maximum number of cases for which the header shows the maximum cost, since all prompts must be read.
_MOST_PRICED = 1000


#: Maximum number of header lines about schemas, and of lines about own tests that failed although the answer passed.
_MOST_TESTS = 10


class Terminal:
    """
    Writes information about the run to the terminal; decisions are made in `Controller`.

    `activation` creates one object next to the controller. pytest calls its hooks in the main thread: for the header,
    for the progress letter of each report, and for the summary at the end. The object keeps no state.
    """

    def __init__(self, context: RunContext, controller: Controller) -> None:
        self._context = context
        self._controller = controller

    def pytest_report_header(self) -> list[str]:
        """Return the header lines about the engine, the cases and the resumed run."""
        context = self._context
        metadata = context.handover.metadata
        concurrency = sum(variant.concurrency for variant in context.plan.variants.values())
        pace = f"{concurrency} in flight" if context.plan.spec.execution.batch is None else "submitted as a batch"
        cases = f"{_cases(context)}, {pace}{_loaded(context)}{_limited(context)}"
        if metadata.variants:
            variants = [_variant(context, described) for described in each(metadata)]
            more = len(variants) - _MOST_VARIANTS
            rest = [f"… and {format_count(more, 'variant')} more"] if more > 0 else []
            lines = [*variants[:_MOST_VARIANTS], *rest, cases]
        else:
            lines = [_who(metadata), cases, _prompt(context, metadata)]
        lines += [_first_look(context), _most_cost(context)]
        lines += self._controller.schema_warnings[:_MOST_TESTS]
        lines.append(context.settings.variants_left_out)
        resumption = context.session.resumption
        if resumption is not None:
            lines.append(_resuming(resumption))
        if context.settings.targets.suite_only:
            lines.append("only the dataset's cases run; add a path to run your own tests too")
        return [printable(f"jsbench: {line}", None) for line in lines if line]

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Return the progress letter for the failure type of a test that failed because of an answer."""
        failure_type = transport.failure_type_of(report)
        if not failure_type or not report.failed or transport.is_subtest(report):
            return None
        return "failed", _LETTERS.get(failure_type, "F"), "FAILED"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
        """Write the summary after those of other plugins, even if another plugin raises an error."""
        try:
            self._controller.settle()
            return (yield)
        except Exception as error:
            self._controller.settle(error)
            raise
        finally:
            self._show(terminalreporter)

    def _show(self, reporter: pytest.TerminalReporter) -> None:
        run = self._controller.run
        summary = self._controller.summary
        decision = self._controller.decision
        if run is None or summary is None:
            return
        if run.verdict is not None and run.verdict.exit_status == pytest.ExitCode.USAGE_ERROR and not run.outcomes:
            return  # the engine did not start; pytest reports this, and there is nothing to summarize
        from pytest_jsbench.reports.run_report import heading, report
        from pytest_jsbench.reports.terminal import LABEL, detail, fact_lines, report_lines, supports_links, width_of

        width = width_of(is_terminal=bool(reporter.isatty))
        reporter.write_sep("=", f"jsbench: {heading(run.metadata)}")
        is_verbose = reporter.verbosity > 0
        most_pairs = None if is_verbose else _MOST_PAIRS
        lines = report_lines(report(run, summary, keywords=is_verbose, most_pairs=most_pairs), width)
        lines += fact_lines(decision.facts(), width)
        facts = [*self._controller.reductions, *self._facts(summary), *_other_drafts(run)]
        if reporter.verbosity >= 0 and not os.environ.get("CI") and self._context.settings.targets.suite:
            facts += self._next_steps(run, decision.deciding or summary)
        for fact in facts:
            lines += fact_lines([fact], sys.maxsize if fact[0] in _COMMANDS else width)
        for line in lines:
            reporter.write_line(line)

        def show(label: str, text: str, **markup: bool) -> None:
            for line in detail(label, text, width):
                reporter.write_line(line, **markup)

        for record in Records([outcome for outcome in run.failed() if outcome.passed][:_MOST_TESTS]):
            show("failed", printable(f"{record.key}: {': '.join(record.failure)}", 2000), red=True)
        for warning in self._controller.state.warnings:
            show("warning", printable(warning, 2000), yellow=True)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            from pytest_jsbench.reports.markdown import workflow_commands

            # GitHub needs paths relative to the root of the repository
            root = self._context.config.rootpath
            workspace = os.environ.get("GITHUB_WORKSPACE")
            folder = root.relative_to(workspace).as_posix() if workspace and root.is_relative_to(workspace) else ""
            for line in workflow_commands(decision.excused(run), folder=folder):
                reporter.write_line(line)
        for gate in decision.gates:
            show("gate", gate.message, green=gate.met, red=not gate.met, bold=True)
        if (verdict := run.verdict) is not None:
            show("verdict", verdict.text, green=verdict.passed, red=not verdict.passed, bold=True)
        has_links = bool(reporter.isatty and reporter.hasmarkup) and supports_links(os.environ)
        if page := self._page(has_links=has_links):
            reporter.write_line(f"{'report':{LABEL}}{page}")

    def _facts(self, summary: Summary) -> Iterator[tuple[str, str]]:
        """Yield labels and texts about the run's records, unused recordings and resuming; a text may be empty."""
        plan = self._context.plan
        handover = self._context.handover
        recorded = plan.spec.recordings.record or plan.spec.recordings.replay
        unused = f"{format_count(self._controller.unasked, 'recorded answer')} not used by any test"
        if handover.folder is None:
            yield "records", "not kept; set --jsbench-output=DIR to keep them"
            yield "unused", unused if self._controller.unasked else ""
            return
        folder = from_here(handover.folder)
        temporary = (
            "" if plan.spec.outputs.output is not None else " (last 5 runs kept; set --jsbench-output=DIR to keep all)"
        )
        yield "records", f"{folder}{temporary}"
        if self._controller.unasked and recorded is not None:
            command = shlex.join(["jsbench", "recordings", str(from_here(recorded)), "--run", str(folder)])
            yield "unused", f"{unused}; list them with {command}, delete them with --prune"
        calls = (
            plan.spec.execution.batch is None
            and plan.cases.labelled is None
            and handover.metadata.engine not in RECORDED
        )
        if summary.total.errors and calls and self._context.settings.targets.suite:
            yield "resume", f"rerun with --jsbench-resume={folder.parent} to make only the missing calls"

    def _page(self, *, has_links: bool) -> str:
        """Return a link to the run's HTML page, or the command that writes the page; empty if there are no records."""
        from pytest_jsbench.reports.terminal import link

        plan = self._context.plan
        folder = self._context.handover.folder
        kept = None if folder is None or plan.spec.outputs.output is None else folder / "report.html"
        for page in filter(None, (plan.spec.outputs.report, kept)):
            if page.exists():
                return link(page, str(from_here(page)), has_links=has_links)
        if folder is None:
            return ""
        install = "" if find_spec("jinja2") is not None else "pip install 'pytest-jsbench[report]' && "
        runs = (
            folder if plan.spec.outputs.output is not None else folder.parent
        )  # the command uses the newest run in the directory
        return printable(install + shlex.join(["jsbench", "report", str(from_here(runs)), "-o", "report.html"]), None)

    def _next_steps(self, run: Run, summary: Summary) -> Iterator[tuple[str, str]]:
        """Yield labels and texts with next steps: rerun a failed case, set a gate, and use other schemas."""
        if failing := self._controller.decision.excused(run).failed():
            if outcome := next((outcome for outcome in failing if outcome.made), None):
                nodeid = f"{ROOT}::{run.name_of(outcome.attempt)}"
                yield "rerun", f"{self._context.settings.rerun} -v {shlex.quote(nodeid)}"
            least = math.floor(100 * (summary.total.pass_rate.value or 0)) / 100
            if least and not self._controller.decision.gates:
                yield "gate", f"not set; --jsbench-min-pass-rate={least:g} would pass this run"
        if run.metadata.dataset["source"] in BUNDLED:
            is_quick = run.metadata.dataset["source"] == BUILTIN_QUICK
            whole = f"all built-in cases: --jsbench-dataset={BUILTIN}; " if is_quick else ""
            yield "next", f"{whole}your own schemas: --jsbench-dataset=DIR, or jsbench init finds them"


def _other_drafts(run: Run) -> Iterator[tuple[str, str]]:
    """Yield a line for each draft in which invalid schemas without `$schema` are valid."""
    broken = [outcome for outcome in run.outcomes if outcome.excluded and not outcome.not_rewritten][:_MOST_BROKEN]
    drafts = Counter(record.verdict.valid_in for record in Records(broken))
    for draft, number in drafts.most_common():
        if draft is not None:
            schemas = f"{number:,} of {format_count(len(broken), 'invalid schema')}"
            are = "is" if number == 1 else "are"
            yield "dialect", f"{schemas} {are} valid in {draft}; set --jsbench-default-dialect={draft}"


def _cases(context: RunContext) -> str:
    if not context.settings.targets.suite:
        return "own tests"
    plan = context.plan
    metadata = context.handover.metadata
    count = format_count(len(plan.keys), "case")
    source = metadata.dataset["source"]
    shard = ""
    if len(metadata.variants) > 1:
        count += f" in {len(metadata.variants)} variants"
    if plan.spec.execution.shard is not None:
        origin = f" by {plan.spec.execution.shard.origin}," if plan.spec.execution.shard.origin else ""
        shard = f" (shard {plan.spec.execution.shard}{origin} of {metadata.dataset['cases']:,})"
    if plan.cases.labelled is None:
        return f"dataset {source}, {count}{shard}"
    return f"labelled answers of {source} (no model calls), {count}{shard}"


def _first_look(context: RunContext) -> str:
    """Return a hint to the smaller built-in dataset in a run of all built-in cases; empty in other runs."""
    settings = context.settings
    selection = settings.selection
    is_part = (
        bool(settings.targets.chosen or settings.expressions.strip()) or context.plan.spec.execution.shard is not None
    )
    if not settings.targets.suite or is_part or selection != Selection(source=BUILTIN):
        return ""
    return f"for a first look, --jsbench-dataset={BUILTIN_QUICK} runs {sum(map(len, QUICK.values()))} of these cases"


def _who(metadata: RunMetadata) -> str:
    """Describe the engine, the model, the response format and other settings of the calls."""
    switches = (name if value else f"not {name}" for name, value in metadata.details.items() if isinstance(value, bool))
    adapt = [] if metadata.adapt == "verbatim" else [metadata.adapt]
    rewrite = [f"schemas rewritten: {metadata.rewrite}"] if metadata.rewrite else []
    settings = ", ".join([metadata.response_format, *switches, *adapt, *rewrite])
    return f"engine {metadata.engine}, model {printable(metadata.model, 60)} ({settings})"


def _prompt(context: RunContext, metadata: RunMetadata) -> str:
    """Describe the prompt; empty for the default prompt without examples, or if no model is called."""
    if (metadata.prompt == "schema" and not metadata.shots) or context.plan.cases.labelled is not None:
        return ""
    shots = f", {format_count(metadata.shots, 'example')} first" if metadata.shots else ""
    return f"prompt {printable(metadata.prompt)}{shots}"


def _variant(context: RunContext, metadata: RunMetadata) -> str:
    prompt = _prompt(context, metadata)
    line = f"variant {metadata.variant}: {_who(metadata)}{f', {prompt}' if prompt else ''}"
    if context.plan.spec.execution.batch is None:
        line += f", {context.plan.variants[metadata.variant].concurrency} in flight"
    unlimited = context.plan.limits.max_cost is not None and metadata.provider is None
    return f"{line}, price unknown and not counted in the cost limit" if unlimited else line


def _loaded(context: RunContext) -> str:
    """Describe the load of the run; empty without one."""
    load = context.plan.load
    rate = "" if load.rate is None else f" at most, calls begin at {load.rate}"
    return rate + ("" if load.plain_share is None else f", {100 * load.plain_share:g}% of them without a schema")


def _limited(context: RunContext) -> str:
    limits = context.plan.limits
    rates = {"requests": limits.requests_per_minute, "tokens": limits.tokens_per_minute}
    parts = [f", {rate:,g} {unit} a minute" for unit, rate in rates.items() if rate is not None]
    return "".join(parts) + ("" if limits.max_cost is None else f", at most ${limits.max_cost:,g}")


def _most_cost(context: RunContext) -> str:
    """Return a line with the maximum cost of the suite; empty if the price is unknown or a cost limit is set."""
    plan = context.plan
    settings = context.settings
    is_part = bool(settings.targets.chosen or settings.expressions.strip())
    if (
        is_part
        or plan.spec.execution.dry_run
        or plan.limits.max_cost is not None
        or not 0 < len(plan.keys) <= _MOST_PRICED
    ):
        return ""
    from pytest_jsbench.run.estimate import max_cost_of

    cost = max_cost_of(plan, context.handover.metadata)
    return "" if cost is None else f"at most {dollars(cost)} by the published price; details with --jsbench-dry-run"


def _resuming(resumption: Resumption) -> str:
    if resumption.metadata is None:
        return f"nothing to resume in {resumption.source}: the run was interrupted before the first answer"
    counts = (
        (len(resumption.answers), "answer", "reused"),
        (len(resumption.project_answers), "answer", "to the project's own tests, reused if unchanged"),
        (resumption.broken, "failed call", "retried"),
        (resumption.left_out, "answer", "to other prompts or schemas ignored"),
    )
    parts = [f"{format_count(number, noun)} {rest}" for number, noun, rest in counts if number or rest == "reused"]
    return f"resuming {resumption.metadata.run_id}: {', '.join(parts)}"
