"""Reduce the first distinct failures of a run at its end (--jsbench-reduce)."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.text import describe_error, format_count, printable
from pytest_jsbench.plugin.progress import from_here, write_line
from pytest_jsbench.records.setting_differences import RECORDED
from pytest_jsbench.run.plan import RateLimits
from pytest_jsbench.run.reduction.issue_text import ISSUE, PRIVATE, prepare_folder, write_files
from pytest_jsbench.run.reduction.reduction import INTERRUPTED, Reduction, ReductionOptions, reduce_target
from pytest_jsbench.run.reduction.same_failure import FailurePattern, ReductionError
from pytest_jsbench.run.reduction.target import default_folder, make_target
from pytest_jsbench.settings.call_options import CONNECTION_OPTIONS

if TYPE_CHECKING:
    from pytest_jsbench.plugin.context import RunContext
    from pytest_jsbench.records.records import Record
    from pytest_jsbench.records.runs import Run

#: Maximum number of calls for each failure.
MOST_CALLS = 100
#: Errors of a reduction; a full disk raises those of the database of limits too.
_ERRORS = (JSBenchError, OSError, sqlite3.Error)


def reduce_failures(context: RunContext, run: Run, most: int) -> Iterator[tuple[str, str]]:
    """
    Reduce the first distinct failures of the run, and yield for each a label and its line for the summary.

    An interruption or an error also yields a line, since the summary and the files of the run are more important.
    """
    if problem := _why_impossible(context):
        yield "reduced", f"nothing was reduced: {problem}"
        return
    try:
        yield from _reduce_each(context, run, most)
    except KeyboardInterrupt:
        yield "reduced", f"{INTERRUPTED}: the other failures were not reduced"
    except _ERRORS as error:
        yield "reduced", f"ended early: {_text_of(context, error)}"


def _reduce_each(context: RunContext, run: Run, most: int) -> Iterator[tuple[str, str]]:
    limits = _share_of_limits(context, most)
    found = False
    for record, pattern in _distinct_failures(run, most, replaying=_replaying_variants(context)):
        found = True
        name = str(record.key)
        write_line(context.config, f"jsbench: reducing {name} ({pattern.text}), at most {MOST_CALLS} calls")
        try:
            reduction, line = _reduce(context, run, record, limits)
        except _ERRORS as error:
            yield "reduced", f"{name} was not reduced: {_text_of(context, error)}"
            continue
        yield "reduced", line
        if reduction.stopped == INTERRUPTED:
            return
    if not found:
        yield "reduced", "nothing to reduce: no attempt has a failure that a schema causes"


def _text_of(context: RunContext, error: Exception) -> str:
    return context.secrecy.mask(str(error) if isinstance(error, JSBenchError) else describe_error(error))


def _why_impossible(context: RunContext) -> str:
    """Return why no failure of the run can be reduced; empty if it can."""
    plan = context.plan
    if plan.spec.outputs.redact:
        return "the run is redacted (--jsbench-redact), and keeps no schemas"
    if plan.replays:
        return "recorded answers are replayed, and new schemas need an engine"
    if plan.spec.execution.batch is not None:
        return "the cases were submitted as a batch; use jsbench reduce, which makes single calls"
    return ""


def _share_of_limits(context: RunContext, most: int) -> RateLimits:
    """Return the limits of each reduction, which together keep those of the run; raise ReductionError if spent."""
    limits = context.plan.limits
    if limits.max_cost is None:
        return limits
    with closing(context.session.runners.limits_file()) as file:
        left = limits.max_cost - file.spent()
    if left <= 0:
        raise ReductionError(f"--jsbench-max-cost={limits.max_cost:g} is spent")
    return replace(limits, max_cost=left / most)


def _replaying_variants(context: RunContext) -> set[str]:
    """Return the variants that replay the answers of another run, and have no engine for new schemas."""
    return {name for name, ask in context.plan.spec.asks.items() if ask.engine in RECORDED}


def _distinct_failures(run: Run, most: int, *, replaying: Collection[str]) -> Iterator[tuple[Record, FailurePattern]]:
    """
    Yield the first attempts whose failures have different identities, and may have a schema as cause; without those of
    the variants that replay answers.
    """
    seen: set[tuple[object, ...]] = set()
    for outcome in run.outcomes:
        if not outcome.failing:
            continue
        record = outcome.read()
        if record.variant in replaying:
            continue
        try:
            pattern = FailurePattern.of(record)
        except ReductionError:
            continue
        # without the evidence that the request is the cause, a broken call is a fault of the network or the server
        if (pattern.is_death and not outcome.broke_server) or pattern.identity in seen:
            continue
        seen.add(pattern.identity)
        yield record, pattern
        if len(seen) == most:
            return


def _reduce(context: RunContext, run: Run, record: Record, limits: RateLimits) -> tuple[Reduction, str]:
    """Reduce the failure of one attempt; return the result, and its line for the summary."""
    target = make_target(run, record)
    folder = None if context.handover.folder is None else default_folder(context.handover.folder, record)
    if folder is not None:
        prepare_folder(folder)
    options = ReductionOptions(
        engine=_options_of(context, record),
        max_calls=MOST_CALLS,
        limits=limits,
        folder=folder,
    )
    reduction = reduce_target(target, options)
    if folder is not None:
        write_files(reduction, folder)
    before, after = reduction.original, reduction.smallest
    size = f"{before.schema_size:,} -> {after.schema_size:,} bytes"
    if before.offer is not None and after.offer is not None:
        size = f"{len(before.offer.tools)} -> {len(after.offer.tools)} tools, {size}"
    parts = [f"{record.key}: {reduction.failure.text}, {size}, {format_count(reduction.calls, 'call')}"]
    if reduction.stopped:
        parts.append(f"stopped: {reduction.stopped}")
    if folder is not None:
        parts.append(str(from_here(folder / (PRIVATE if reduction.shareable is None else ISSUE))))
    return reduction, printable("; ".join(parts), None)


def _options_of(context: RunContext, record: Record) -> Mapping[str, Any]:
    """Return the engine options of the attempt's variant; empty if a project's test names another engine."""
    if record.answered_by is not None:
        return {}
    ask = context.plan.spec.asks[record.variant]
    values = {name: getattr(ask, name) for name in (*CONNECTION_OPTIONS, "engine_option")}
    return {name: value for name, value in values.items() if value is not None}
