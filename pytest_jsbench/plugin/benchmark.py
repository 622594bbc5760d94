"""Add the measured times of calls to pytest-benchmark's table, files and comparisons."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.plugin.pytest_options import value_of
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.runs import Run

#: Metrics in seconds, the only unit that pytest-benchmark supports.
_METRICS = ("ttft", "tgt", "gct")
_TOKENS = ("input_tokens", "output_tokens")
#: Columns for the plugin's rows; pytest-benchmark's default columns are meant for functions, and too wide for a
#: terminal.
_COLUMNS = ["min", "median", "mean", "max", "rounds"]
#: pytest-benchmark's options that request its table or change the table.
_OF_TABLE = "columns|compare|group-by|histogram|name|only|sort|time-unit|verbose"


def add_rows(config: pytest.Config, run: Run, *, rows: Literal["task", "case"]) -> str:
    """
    Add to pytest-benchmark one row per task (or case) and metric, with one round per completed call.

    pytest-benchmark measures functions and disables itself under xdist, so the rows are added in the process that
    receives the reports. The code uses undocumented classes of pytest-benchmark; if this fails, the error is returned
    as one line.
    """
    session = config.pluginmanager.get_plugin("pytest-benchmark")
    option = config.option
    if session is None or session.skip:
        return ""
    if option.benchmark_disable and not option.benchmark_enable:
        return ""
    try:
        from pytest_benchmark.stats import Metadata

        if not session.benchmarks and not _is_typed(config, "columns"):
            session.columns = _COLUMNS
        for row, seconds in _measured(run, rows):
            metadata = Metadata(row, iterations=1, options={"timer": "engine"})
            for value in seconds:
                metadata.update(value)
            session.benchmarks.append(metadata)
    except Exception as error:  # noqa: BLE001  another pytest-benchmark: its table is worth less than the run
        return f"no rows were added to pytest-benchmark's table: {type(error).__name__}: {error}"
    return ""


def shown_groups(config: pytest.Config, groups: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the groups of rows to print; the plugin's groups, which are wide, are included only on request."""
    if value_of(config, "benchmark_rows") or _is_typed(config, _OF_TABLE):
        return groups
    return [(name, rows) for name, rows in groups if not str(rows[0]["fullname"]).startswith("jsbench::")]


def _is_typed(config: pytest.Config, names: str) -> bool:
    arguments = [*config.getini("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    return any(
        re.match(f"--benchmark-({names})", str(argument)) for argument in [*arguments, *config.invocation_params.args]
    )


def _measured(run: Run, rows: Literal["task", "case"]) -> Iterator[tuple[Any, list[float]]]:
    """Yield each row with its measurements in seconds, for the run or for each variant."""
    for part in run.each().values() if run.variants else [run]:
        attempts: dict[str, list[AttemptFacts]] = {}
        for attempt in part.outcomes:
            # a replayed answer has the times of its recording
            if attempt.generation_type == "completion" and not attempt.remembered:
                attempts.setdefault(attempt.key.task if rows == "task" else str(attempt.key), []).append(attempt)
        for metric, name in itertools.product(_METRICS, attempts):
            values = [getattr(attempt.timing, metric, None) for attempt in attempts[name]]
            if seconds := [value for value in values if value is not None]:
                yield _row(metric, name, part.metadata, attempts[name]), seconds


def _row(metric: str, name: str, metadata: RunMetadata, attempts: Sequence[AttemptFacts]) -> Any:
    """
    Return a row of the table. Rows are grouped by task; rows of cases or variants are also grouped by metric, so that
    they can be compared.
    """
    is_case = "::" in name
    variant = metadata.variant
    task = CaseKey.parse(name).task if is_case else name
    named = f"{name}-{variant}" if variant else name
    failures = Counter(attempt.failure_type.value for attempt in attempts if attempt.failure_type is not None)
    tokens = {count: [getattr(attempt.usage, count, None) for attempt in attempts] for count in _TOKENS}
    counts = {count: [value for value in values if value is not None] for count, values in tokens.items()}
    extra_info = {
        "engine": metadata.engine,
        "model": metadata.model,
        "completions": len(attempts),
        "passed": sum(attempt.passed for attempt in attempts),
        "failures": dict(failures),
        **{count: sum(values) if values else None for count, values in counts.items()},
    }
    if is_case:  # of several attempts at a case, report the most frequent failure
        extra_info["verdict"] = max(failures, key=failures.__getitem__, default="passed")
    return SimpleNamespace(
        name=f"{metric}[{named}]",
        fullname=f"jsbench::{named}[{metric}]",
        group=f"jsbench {task} {metric}" if is_case or variant else f"jsbench {task}",
        param=named,
        params={"task": task, "metric": metric, **({"variant": variant} if variant else {})},
        extra_info=extra_info,
        cprofile_stats=None,
        has_error=False,
    )
