"""The `jsbench` command: what can be done with a run's records afterwards, without calling a model."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from pytest_jsbench import __version__, journal
from pytest_jsbench.errors import JSBenchError, RecordError
from pytest_jsbench.exports.table import details, table
from pytest_jsbench.records import Record, Run
from pytest_jsbench.summaries import summarize
from pytest_jsbench.verdicts import Judge, JudgePolicy, decide


def main(arguments: Sequence[str] | None = None, *, out: TextIO | None = None) -> int:
    """Run the command; 0 when all passed, 1 when not, 2 on bad input, as pytest and diff have it."""
    options = _parser().parse_args(arguments)
    try:
        return _judge(options.records, out or sys.stdout)
    except JSBenchError as error:
        sys.stderr.write(f"jsbench: {error}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jsbench", description="Work with the records of a pytest-jsbench run.")
    parser.add_argument("--version", action="version", version=f"pytest-jsbench {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    judge = commands.add_parser("judge", help="judge recorded answers again, and show what changed and the summary")
    judge.add_argument("records", type=Path, metavar="RECORDS", help="a records.jsonl, or the folder it is in")
    return parser


def _judge(path: Path, out: TextIO) -> int:
    if path.is_dir():
        path = path / "records.jsonl"
    content = journal.read(path)
    if content.metadata is None:
        message = f"{path} has no header line; expected the records.jsonl of a run"
        raise RecordError(message)
    policy = _policy(content.metadata.policy)
    with Judge(policy) as judge:
        records = tuple(_judged_again(record, judge) for record in content.records)
    for warning in content.warnings:
        out.write(f"warning: {warning}\n")
    for before, after in zip(content.records, records, strict=True):
        if before.verdict.failure_type != after.verdict.failure_type:
            old, new = (r.verdict.failure_type or "passed" for r in (before, after))
            out.write(f"{after.key}: was {old}, now {new}\n")
    keys = tuple(dict.fromkeys(record.key for record in records))
    run = Run(metadata=content.metadata, planned=keys, records=records)
    summary = summarize(run)
    out.writelines(f"{line}\n" for line in table(summary))
    out.writelines(f"{line}\n" for line in details(run, summary))
    return 0 if summary.total.pass_rate.successes == summary.total.planned else 1


def _policy(data: object) -> JudgePolicy:
    if not isinstance(data, dict):
        return JudgePolicy()
    known = {field.name for field in dataclasses.fields(JudgePolicy)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name in known
    }
    return JudgePolicy(**values)


def _judged_again(record: Record, judge: Judge) -> Record:
    if record.generation is None or record.schema is None:
        return record
    return dataclasses.replace(record, verdict=decide(record.generation, record.schema, judge))
