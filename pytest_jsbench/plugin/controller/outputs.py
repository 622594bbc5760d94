"""What is added, when the run has ended, to files of others; and the recordings that no test asked for."""

from __future__ import annotations

import os
from collections.abc import Set
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

import pytest

from pytest_jsbench.core.cases import safe_name
from pytest_jsbench.metrics import prices
from pytest_jsbench.plugin.controller.ending import GateDecision
from pytest_jsbench.plugin.controller.progress import write_line
from pytest_jsbench.plugin.session.cases import MANY
from pytest_jsbench.plugin.session.context import SHARED, key_of
from pytest_jsbench.plugin.session.secrecy import known_secrets
from pytest_jsbench.settings.variants import holds_run

if TYPE_CHECKING:
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.plugin.session.context import RunContext
    from pytest_jsbench.plugin.worker.items import Collected
    from pytest_jsbench.records.outcomes import Run


def append_step_summary(run: Run, summary: Summary, decision: GateDecision, *, instead_of: Run | None = None) -> str:
    """
    Append the summary to the page of a GitHub workflow's step, where there is one; what went wrong, or nothing.

    What was appended before of the same run, under another verdict, is taken away again.
    """
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return ""
    from pytest_jsbench.reports.run_report import summary_markdown

    text = summary_markdown(run, summary, decision.gates, decision.comparisons)
    try:
        if instead_of is not None:
            before = summary_markdown(instead_of, summary, decision.gates, decision.comparisons)
            page = Path(path)
            page.write_text(page.read_text("utf-8").removesuffix(before), "utf-8")
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        return f"cannot write GITHUB_STEP_SUMMARY: {error}"
    return ""


def complete_junit(
    config: pytest.Config, run: Run, summary: Summary, decision: GateDecision, folder: Path | None
) -> None:
    """Add to pytest's JUnit file what it leaves out; of a large run, say where that is."""
    given = config.getoption("xmlpath", None)
    if not given:
        return
    from pytest_jsbench.reports import junit

    path = Path(os.path.expandvars(given)).expanduser()
    properties = junit.suite_properties(run, summary, decision.gates)
    costs = {attempt.name(several=True): cost for attempt, cost in prices.costs(run).attempts.items()}
    details = None
    if len(run.planned) > MANY:
        where = "nowhere, since no record is kept" if folder is None else f"{folder}: records.jsonl, report.html"
        details = f"{len(run.planned):,} attempts are too many for all of their details to be here; they are in {where}"
    try:
        junit.complete(path, properties, costs, details=details, hide=known_secrets(config).out_of_message)
    except (OSError, ParseError) as error:
        # the summary has been shown by now
        write_line(config, f"jsbench: {path} is left as pytest wrote it: {error}", yellow=True)


def find_unasked(
    config: pytest.Config, context: RunContext, run: Run, collected: Collected, *, finished: Set[str]
) -> list[Path] | None:
    """
    The recordings that no test has asked for; None where there are none to look at, or not all tests have run.

    `finished` has the node ids of the tests that passed: others may not have asked for all that they need.
    """
    settings = context.settings
    folder = context.plan.record or context.plan.replay
    if folder is None or holds_run(folder) or context.plan.redact or not _is_whole(config, context, run, collected):
        return None
    from pytest_jsbench.engines.recorded import unasked

    found: list[Path] = []
    for name in context.plan.variants:
        unfinished = {
            key_of(nodeid, variant)
            for nodeid, variant in collected.project_tests
            if variant == name and nodeid not in finished
        }
        outcomes = (one for one in run.outcomes if one.variant == name)
        found += unasked.find(folder / safe_name(name) if name else folder, outcomes, unfinished)
    if not settings.targets.suite:  # what is recorded of a dataset is for other runs
        patterns = config.getini("python_files")
        # a task is named as its module is
        files = [(path, f"{path.parent.name.rpartition('.')[2]}.py") for path in found]
        of_tests = [path for path, file in files if any(fnmatch(file, pattern) for pattern in patterns)]
        found = [path for path in found if path.parent.name == SHARED or path in of_tests]
    if not finished >= set(collected.sharing):
        found = [path for path in found if path.parent.name != SHARED]
    return found


def _is_whole(config: pytest.Config, context: RunContext, run: Run, collected: Collected) -> bool:
    """Whether every test of the project has run, and every case of the dataset if the run has one."""
    settings, selection = context.settings, context.settings.selection
    parts = (selection.tasks, selection.limit, selection.where, selection.sample) if settings.targets.suite else ()
    narrowed = (
        settings.targets.chosen,
        context.plan.shard,
        collected.deselected,
        run.missing,
        *parts,
        selection.split not in {"test", "all"},
        *(getattr(config.option, name, None) for name in ("lf", "ignore", "ignore_glob")),
    )
    return settings.targets.project and not any(narrowed) and _collects_all(config)


def _collects_all(config: pytest.Config) -> bool:
    """Whether pytest looked for tests everywhere: in all of `testpaths`, or from the root on."""
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        return True
    wanted = [config.rootpath / path for path in config.getini("testpaths")] or [config.rootpath]
    given = [config.invocation_params.dir / path for path in config.args]
    return all(any(path.is_relative_to(one) for one in given) for path in wanted)
