"""pytest-benchmark's table, files and comparisons, fed with what the engine measured."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.plugin.options import value_of
from pytest_jsbench.records.outcomes import Run

#: the metrics that are times; pytest-benchmark knows seconds only
_METRICS = ("ttft", "tgt", "gct")
_NO_TOKENS = {"input_tokens": None, "output_tokens": None}
#: pytest-benchmark's own columns are for functions, and too many for a terminal
_COLUMNS = ["min", "median", "mean", "max", "rounds"]
#: the options that ask for its table, or say how it looks
_OF_TABLE = "columns|compare|group-by|histogram|name|only|sort|time-unit|verbose"


def add_rows(config: pytest.Config, run: Run, *, rows: Literal["task", "case"]) -> str:
    """
    Give pytest-benchmark one row per task (or case) and metric, one round per completed call.

    It measures functions and switches itself off under xdist, so the rows are added where reports land. Of its session,
    which is a plugin, and of `Metadata` nothing is documented; what goes wrong with them is returned as one line.
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
        return f"pytest-benchmark's rows are left out: {type(error).__name__}: {error}"
    return ""


def shown_groups(config: pytest.Config, groups: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The groups of the table: ours are in it only where they are asked for, since they are wide."""
    if value_of(config, "benchmark_rows") or _is_typed(config, _OF_TABLE):
        return groups
    return [(name, rows) for name, rows in groups if not str(rows[0]["fullname"]).startswith("jsbench::")]


def _is_typed(config: pytest.Config, names: str) -> bool:
    arguments = [*config.getini("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    return any(re.match(f"--benchmark-({names})", str(one)) for one in [*arguments, *config.invocation_params.args])


def _measured(run: Run, rows: Literal["task", "case"]) -> Iterator[tuple[Any, list[float]]]:
    """The rows of a run, or of each of its variants, with their measurements."""
    for part in run.each().values() if run.variants else [run]:
        yield from _of_one(part, rows)


def _of_one(run: Run, rows: Literal["task", "case"]) -> Iterator[tuple[Any, list[float]]]:
    values: dict[tuple[str, str], list[float]] = {}
    extra: dict[str, dict[str, Any]] = {}
    who = {"engine": run.metadata.engine, "model": run.metadata.model}
    for attempt in run.outcomes:
        if attempt.generation != "completion" or attempt.remembered:  # recorded times are no news
            continue
        name = attempt.key.task if rows == "task" else str(attempt.key)
        counts = extra.setdefault(name, {**who, "completions": 0, "passed": 0, "failures": {}, **_NO_TOKENS})
        counts["completions"] += 1
        counts["passed"] += attempt.passed
        if (failure := attempt.failure_type) is not None:
            counts["failures"][failure.value] = counts["failures"].get(failure.value, 0) + 1
        if rows == "case":
            # of a case that was asked several times, the failure that it had most often
            counts["verdict"] = max(counts["failures"], key=counts["failures"].__getitem__, default="passed")
        for count in _NO_TOKENS:
            if (tokens := getattr(attempt.usage, count, None)) is not None:
                counts[count] = tokens + (counts[count] or 0)
        for metric in _METRICS:
            value = getattr(attempt.timing, metric, None)
            if value is not None:
                values.setdefault((metric, name), []).append(value)
    for metric, name in sorted(values, key=lambda pair: _METRICS.index(pair[0])):
        yield _row(metric, name, run.metadata.variant, extra[name]), values[metric, name]


def _row(metric: str, name: str, variant: str, extra_info: dict[str, Any]) -> Any:
    """A row; those of a task are a group, but cases and variants are grouped by metric too: they are compared."""
    is_case = "::" in name
    task = CaseKey.parse(name).task if is_case else name
    named = f"{name}-{variant}" if variant else name
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
