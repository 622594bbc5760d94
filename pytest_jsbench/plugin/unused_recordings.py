"""Find the recordings that no test used, in sessions that ran all tests."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.cases import safe_name
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.engines.recorded import unused_files
from pytest_jsbench.plugin.context import SHARED, RunContext, key_of
from pytest_jsbench.run.variants import is_run_path

if TYPE_CHECKING:
    from pytest_jsbench.plugin.items import Collected
    from pytest_jsbench.records.runs import Run


def note_unused(
    session: pytest.Session, context: RunContext, run: Run, collected: Collected, finished: set[str] | None
) -> tuple[int, str]:
    """
    Write the list of unused recordings to the run's directory; return their number, and an error if writing fails.

    `finished` contains the node ids of the tests that passed; it is None if some tests were not collected. The list is
    only made if all tests ran.
    """
    folder = context.plan.spec.recordings.record or context.plan.spec.recordings.replay
    config = session.config
    ended = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
    if folder is None or not ended or session.shouldstop or session.shouldfail or finished is None:
        return 0, ""
    if is_run_path(folder) or context.plan.spec.outputs.redact or not _is_whole(config, context, run, collected):
        return 0, ""
    paths = list(_find(config, context, run, collected, finished, folder))
    try:
        if context.handover.folder is not None:
            unused_files.write(context.handover.records, folder, paths)
    except JSBenchError as error:
        return len(paths), str(error)
    return len(paths), ""


def _find(
    config: pytest.Config, context: RunContext, run: Run, collected: Collected, finished: set[str], folder: Path
) -> Iterator[Path]:
    """Yield the unused recordings, except those of tests that did not pass, which may have ended before using them."""
    patterns = config.getini("python_files")
    for name in context.plan.variants:
        unfinished = {
            key_of(nodeid, variant)
            for nodeid, variant in collected.project_tests
            if variant == name and nodeid not in finished
        }
        outcomes = (outcome for outcome in run.outcomes if outcome.variant == name)
        for path in unused_files.find(folder / safe_name(name) if name else folder, outcomes, unfinished):
            if path.parent.name == SHARED:
                wanted = finished >= set(collected.sharing)
            else:
                # without a dataset in this run, skip recordings of datasets; recordings of a test are in a directory
                # with the name of its module
                module = f"{path.parent.name.rpartition('.')[2]}.py"
                wanted = context.settings.targets.suite or any(fnmatch(module, pattern) for pattern in patterns)
            if wanted:
                yield path


def _is_whole(config: pytest.Config, context: RunContext, run: Run, collected: Collected) -> bool:
    """Return whether every test of the project ran and, if the run has a dataset, every case of the dataset."""
    settings = context.settings
    selection = context.settings.selection
    parts = (selection.tasks, selection.limit, selection.where, selection.sample) if settings.targets.suite else ()
    narrowed = (
        settings.targets.chosen,
        context.plan.spec.execution.shard,
        collected.deselected,
        run.missing,
        *parts,
        selection.split not in {"test", "all"},
        *(getattr(config.option, name, None) for name in ("lf", "ignore", "ignore_glob")),
    )
    return settings.targets.project and not any(narrowed) and _collects_all(config)


def _collects_all(config: pytest.Config) -> bool:
    """Return whether pytest collected everything: all of `testpaths`, or all tests below the root directory."""
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        return True
    wanted = [config.rootpath / path for path in config.getini("testpaths")] or [config.rootpath]
    given = [config.invocation_params.dir / path for path in config.args]
    return all(any(path.is_relative_to(folder) for folder in given) for path in wanted)
