"""The command `jsbench judge`: judge the recorded answers of a run again, or each answer in a JSONL file."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_OID, uuid5

from msgspec import structs

from pytest_jsbench.cli.arguments import add_option
from pytest_jsbench.cli.output import Output, make_folder
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.files import FileReader, Unreadable, parse_json
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.documents import LARGEST_SCHEMA
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.answer_digests import add_digest
from pytest_jsbench.records.facts import AttemptFacts, Place
from pytest_jsbench.records.records import LONGEST_LINE
from pytest_jsbench.records.rejudging import judge_again, recorded_policy
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports.run_json import UNKNOWN, run_to_dict, write_run
from pytest_jsbench.reports.run_report import report
from pytest_jsbench.reports.terminal import detail
from pytest_jsbench.run.plan import policy_changes
from pytest_jsbench.settings.options import JudgingOptions
from pytest_jsbench.values.comparers import restore_comparers
from pytest_jsbench.verdicts import JUDGE_VERSION, Judge, JudgePolicy, Verdict
from pytest_jsbench.verdicts.verdicts import headline

if TYPE_CHECKING:
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.records import Record
    from pytest_jsbench.values import Comparer


def is_records(path: Path) -> bool:
    """Return whether the file begins with the header of a run's records; raise RecordError if it cannot be read."""
    try:
        return next((data.get("type") == "run" for _, data in _objects(path)), False)
    except RecordError:
        if path.is_file():
            return False
        raise


def _judge_records(options: argparse.Namespace, out: Output) -> bool:
    """Judge a run's answers again with its policy and comparers, changed by the options; return whether all passed."""
    path: Path = options.file
    output: Path | None = options.output
    comparers: dict[str, Comparer] = dict(options.comparer)
    before = run = journal.read_run(path).run(path)
    if run.metadata.redacted:
        message = (
            f"{path} was written with --jsbench-redact: it has digests of the answers, and digests cannot be judged"
        )
        raise RecordError(message + " again; jsbench report shows its verdicts", where=path)
    policy = recorded_policy(run.metadata.policy, policy_changes(JudgingOptions(vars(options))))
    every, missing = restore_comparers(run.metadata.comparers, comparers)
    again: list[AttemptFacts] = []
    repeated = before.find_repeated()

    def records(judge: Judge) -> Iterator[Record]:
        for outcome, record in zip(before.outcomes, before.records, strict=True):
            # if False (no comparers, or one is not loaded), values are compared again only if the verdict changes
            compare = bool(comparers or (record.match is not None and record.match.compared_with)) and not missing
            judged = judge_again(record, judge, every, compare=compare)
            judged = add_digest(judged, is_repeated=record.key in repeated)
            again.append(AttemptFacts.of(judged, outcome.source if isinstance(outcome.source, Place) else None))
            if options.json:
                names: dict[str, str | int] = {"task": record.key.task, "id": record.key.id, "repeat": record.repeat}
                _write_json(out, names | ({"variant": record.variant} if record.variant else {}), judged.verdict)
            yield judged

    with Judge(policy) as judge:
        if output is None:
            collections.deque(records(judge), maxlen=0)
        else:
            make_folder(output, [run.metadata], RecordError)
            run = replace(run, metadata=_metadata(run.metadata, policy, comparers))
            places = journal.write(output / "records.jsonl", run.metadata, records(judge))
            again = [structs.replace(outcome, source=place) for outcome, place in zip(again, places, strict=True)]
    run = replace(run, outcomes=tuple(again))
    summary = summarize(run)
    if output is not None:
        write_run(output / "run.json", run_to_dict(run, summary, config_path=UNKNOWN))
    if not options.json:
        out.lines([*_warnings(run, missing), *_list_changes(before, run)])
        out.report(report(run, summary, keywords=options.verbose))
        if output is not None:
            out.lines(detail("written", str(output)))
    return summary.total.pass_rate.successes == summary.total.planned


def _warnings(run: Run, missing: Mapping[str, str]) -> Iterator[str]:
    """Yield the warnings about the run, and about comparison functions that are missing."""
    yield from (f"warning: {printable(warning)}" for warning in run.warnings)
    if missing and any(outcome.match is not None for outcome in run.outcomes):
        wanted = printable(" ".join(f"--comparer '{name}={how}'" for name, how in missing.items()))
        reason = "since the run's comparison functions are not loaded"
        yield f"warning: values were not compared again, {reason}: add {wanted}"


def _metadata(metadata: RunMetadata, policy: JudgePolicy, given: Mapping[str, Comparer]) -> RunMetadata:
    """Return the metadata of the run with the new verdicts."""
    values = dataclasses.asdict(policy)
    written = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    versions = {**metadata.versions, "judge": JUDGE_VERSION}
    compared = {**metadata.comparers, **{name: comparer.how for name, comparer in given.items()}}
    rules = [written, JUDGE_VERSION, *([compared] if compared else [])]
    name = json.dumps(["judged again", metadata.uuid or metadata.run_id, *rules], sort_keys=True)
    uuid = str(uuid5(NAMESPACE_OID, name))
    return replace(metadata, uuid=uuid, policy=written, versions=versions, comparers=compared)


def _judge_plain(options: argparse.Namespace, out: Output) -> bool:
    """Judge each line of `{"schema": …, "text": …}`, and print the failures; return whether all passed."""
    path: Path = options.file
    passed = 0
    judged = 0
    with Judge(recorded_policy({}, policy_changes(JudgingOptions(vars(options))))) as judge:
        for number, data in _objects(path):
            schema = _schema_of(data)
            text = data.get("text")
            truncated = data.get("truncated", False)
            if not isinstance(schema, dict | bool) or not isinstance(text, str) or not isinstance(truncated, bool):
                message = (
                    f'{path}:{number}: expected {{"schema": an object, a boolean or JSON text, "text": a string}}, '
                    f"found the fields {printable(', '.join(data)) or 'none'}"
                )
                raise RecordError(message, found=list(data), expected=["schema", "text"], where=f"{path}:{number}")
            name = str(data.get("id", f"line {number}"))
            verdict = judge.judge(schema, text, truncated=truncated)
            judged += 1
            passed += verdict.passed
            if options.json:
                _write_json(out, {"id": name}, verdict)
            elif options.verbose or not verdict.passed:
                remark = " (the two validators disagree)" if verdict.disputed else ""
                out.write(f"{printable(name)}: {headline(verdict, remark=remark)}\n")
    if not judged:
        message = f"{path} is empty; expected the records.jsonl of a run, or lines with schema and text"
        raise RecordError(message, where=path)
    if not options.json:
        out.write(f"passed {passed} of {judged}\n")
    return passed == judged


def _schema_of(data: Mapping[str, Any]) -> object:
    """Return the schema in a line, parsed if it is given as JSON text."""
    schema = data.get("schema")
    if not isinstance(schema, str):
        return schema
    try:
        return parse_json(schema, largest=LARGEST_SCHEMA)
    except Unreadable:
        return schema


def _list_changes(before: Run, after: Run) -> Iterator[str]:
    for old, new in zip(before.outcomes, after.outcomes, strict=True):
        if old.failure_type != new.failure_type:
            was, now = (outcome.failure_type or "passed" for outcome in (old, new))
            yield f"{printable(after.name_of(new.attempt))}: was {was}, now {now}"


def _write_json(out: Output, names: Mapping[str, str | int], verdict: Verdict) -> None:
    out.json({**names, **verdict.to_dict()}, indent=None)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSONL file with their line numbers."""
    reader = FileReader(root=path.parent, longest_line=LONGEST_LINE, error=RecordError)
    for line, data in reader.read_json_lines(path):
        if not isinstance(data, dict):
            message = f"{path}:{line.number}: not a JSON object; expected one object with schema and text per line"
            raise RecordError(message, found=type(data).__name__, expected="object", where=f"{path}:{line.number}")
        yield line.number, data


def add_judge(commands: Any) -> None:
    """Declare `jsbench judge`."""
    judge = commands.add_parser(
        "judge",
        help="judge the answers of a run again, or the answers in a JSONL file",
        description="Judge the answers of a run again with the run's own settings, and print the changed verdicts and "
        'the summary; or judge each line {"schema": ..., "text": ...} of a JSONL file, and print the failures.',
    )
    judge.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a run's records.jsonl or directory, or a JSONL file of schemas and texts",
    )
    judge.add_argument(
        "-v", "--verbose", action="store_true", help="also print the answers that passed, and the breakdown by keyword"
    )
    judge.add_argument("--json", action="store_true", help="print only JSON, one verdict per line")
    judge.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="directory to which the run is written with its new verdicts, for comparisons",
    )
    policy = judge.add_argument_group("judge settings (default: those of the run, or the defaults of pytest's options)")
    for name in ("duplicate_keys", "extra_fields", "fences", "reasoning", "formats", "validator", "default_dialect"):
        add_option(policy, name)
    add_option(
        policy, "comparer", help="as --jsbench-comparer; required if the run compared values with functions; repeatable"
    )
    add_option(policy, "judge_timeout", "--timeout", help="time limit for judging one answer, in seconds")
    judge.set_defaults(command=_judge)


def _judge(options: argparse.Namespace, out: Output) -> bool:
    path: Path = options.file
    if path.is_dir() or is_records(path):
        return _judge_records(options, out)
    if named := [name for name in ("output", "comparer") if getattr(options, name)]:
        message = f"--{named[0]} applies only to a run, but {path} has lines with schema and text: omit --{named[0]}"
        raise RecordError(message, where=path)
    return _judge_plain(options, out)
