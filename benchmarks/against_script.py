"""
Compare a run with a bare script that calls the official SDK (benchmarks/bare_script.py), in the same minutes.

    python -m benchmarks.against_script [--labelled] [--limit 50] [--rounds 5] [--latency 0.2] [--in-flight 64]

A local server answers the schemas of JSONSchemaBench, 500 of them by default, after the same time to both: with an
answer that nearly no schema accepts, or with `--labelled`, with valid answers of a real model; these schemas are from
five of the ten tasks, and a third as long. The script reads them from a folder; the run reads them from that folder, or
from the benchmark's own layout, and writes its records, its reports and pytest's JUnit file. Whole processes are
measured, from their start to their exit, children included; `first` is the time from the start to the first request.
The rows alternate; the figures are medians, those in brackets divided by the script's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow
from pyarrow import parquet

from benchmarks.answers import SCHEMAS
from benchmarks.loopback import KEY_VARIABLE, Loopback, engine_arguments, schema_text, serve
from benchmarks.plain_pytest import pytest_command, pytest_environment
from benchmarks.process_times import wait_for_tree
from pytest_jsbench import Case, Dataset
from tests.support.public_data import DATA, labelled

_SCRIPT = Path(__file__).with_name("bare_script.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A command that is measured."""

    name: str
    command: Sequence[str]
    streamed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times of one process with its children, in seconds."""

    wall: float
    cpu: float
    #: From the start of the process to its first request.
    first: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Schemas:
    """The schemas of a comparison, in both forms."""

    #: Directory with one file for each schema.
    folder: Path
    #: Options with which a run reads them in the benchmark's layout.
    layout: Sequence[str]
    count: int
    #: File with an answer to each schema.
    answers: Path | None = None


def write_benchmark(home: Path, limit: int) -> Schemas:
    """Write the schemas of the first cases of each task."""
    folder = home / "folder"
    folder.mkdir()
    written = 0
    for case in Dataset.load(str(SCHEMAS), split="all", limit=limit):
        if isinstance(case, Case):
            (folder / f"{case.key.task}-{case.key.id}.json").write_text(json.dumps(case.schema))
            written += 1
    layout = [f"--jsbench-dataset={SCHEMAS}", "--jsbench-split=all", f"--jsbench-limit={limit}"]
    return Schemas(folder=folder, layout=layout, count=written)


def write_labelled(home: Path, limit: int) -> Schemas:
    """
    Write the first labelled schemas of each task, and an answer to each.

    The answers were written by a model of 70B parameters, and are labelled valid (shared/data/labelled).
    """
    answers: dict[str, str] = {}
    tasks: dict[str, dict[str, str]] = {path.name: {} for path in SCHEMAS.iterdir() if path.is_dir()}
    for name, schema, text, valid in labelled():
        task, _, identifier = name.partition("#")[0].partition("---")
        found = tasks.get(task)
        if valid and found is not None and len(found) < limit and schema_text(schema) not in answers:
            answers[schema_text(schema)] = text
            found[identifier] = json.dumps(schema)
    (home / "answers.json").write_text(json.dumps(answers))
    (home / "folder").mkdir()
    card = ["---", "configs:"]
    for task, texts in tasks.items():
        if not texts:
            continue
        card += [f"- config_name: {task}", "  data_files:", "  - split: test", f"    path: {task}/test-*"]
        for identifier, text in texts.items():
            (home / "folder" / f"{task}-{identifier}.json").write_text(text)
        (home / "layout" / task).mkdir(parents=True)
        table = pyarrow.table({"json_schema": list(texts.values()), "unique_id": list(texts)})
        parquet.write_table(table, home / "layout" / task / "test-00000-of-00001.parquet")
    (home / "layout" / "README.md").write_text("\n".join([*card, "---", ""]))
    return Schemas(
        folder=home / "folder",
        layout=[f"--jsbench-dataset={home / 'layout'}", "--jsbench-split=all"],
        count=len(answers),
        answers=home / "answers.json",
    )


def list_rows(schemas: Schemas, url: str, given: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows; those of the script come first."""
    for streamed in (False, True):
        script = [sys.executable, str(_SCRIPT), str(schemas.folder), f"{url}/v1", f"--in-flight={given.in_flight}"]
        yield Row(name="script", command=[*script, *(["--streaming"] if streamed else [])], streamed=streamed)
        run = [
            *pytest_command("--tb=no", "--junitxml=junit.xml", "--jsbench-output=runs"),
            *engine_arguments(url, streaming=streamed),
            f"--jsbench-concurrency={given.in_flight}",
        ]
        yield Row(name="run, layout", command=[*run, *schemas.layout], streamed=streamed)
        yield Row(name="run, folder", command=[*run, f"--jsbench-dataset={schemas.folder}"], streamed=streamed)


def measure(row: Row, server: Loopback, calls: int) -> Times:
    """Run one row in a new directory."""
    server.reset()
    environment = pytest_environment(**{KEY_VARIABLE: "none", "PYTHONPATH": str(Path(__file__).parents[1])})
    with tempfile.TemporaryDirectory(prefix="jsbench-against-script-") as name:
        log = Path(name) / "log.txt"
        began = time.monotonic()
        with (
            log.open("wb") as out,
            subprocess.Popen(row.command, cwd=name, env=environment, stdout=out, stderr=out) as process,
        ):
            tree = wait_for_tree(process)
        arrivals = server.arrivals()
        if tree.status not in {0, 1} or len(arrivals) < calls * 0.9:
            raise SystemExit(f"{row.name} made {len(arrivals)} of {calls} calls:\n{log.read_text()[-2000:]}")
    return Times(wall=tree.at - began, cpu=tree.cpu, first=min(arrivals) - began)


def main() -> None:
    """Make all rounds, and print the medians."""
    parser = argparse.ArgumentParser(description="compare a run with a bare script")
    parser.add_argument("--labelled", action="store_true", help="labelled schemas, each with a valid answer")
    parser.add_argument("--limit", type=int, help="schemas of each task (default: 50 of ten tasks, 100 of five)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--latency", type=float, default=0.2, help="seconds per answer (default: 0.2)")
    parser.add_argument("--in-flight", type=int, default=64)
    given = parser.parse_args()
    if not SCHEMAS.is_dir() or (given.labelled and not (DATA / "labelled").is_dir()):
        parser.error(f"the public data is not at {DATA}")
    with tempfile.TemporaryDirectory(prefix="jsbench-schemas-") as name, ExitStack() as running:
        home = Path(name)
        schemas = (
            write_labelled(home, given.limit or 100) if given.labelled else write_benchmark(home, given.limit or 50)
        )
        server = running.enter_context(serve(latency=given.latency, first=given.latency * 0.6, answers=schemas.answers))
        calls = schemas.count
        rows = list(list_rows(schemas, server.url, given))
        rounds: list[list[Times]] = [[] for _ in rows]
        for number in range(given.rounds):
            for row, times in zip(rows, rounds, strict=True):
                times.append(measure(row, server, calls))
            print(f"round {number + 1} of {given.rounds}", file=sys.stderr, flush=True)
    print(f"{calls} schemas, {given.latency:g} s, {given.in_flight} in flight, medians of {given.rounds} rounds")
    print(f"{'':23} {'wall, s':>14} {'CPU, s':>14} {'first, s':>14}")
    for start in range(0, len(rows), len(rows) // 2):
        script = rounds[start]
        for row, times in list(zip(rows, rounds, strict=True))[start : start + len(rows) // 2]:
            title = f"{row.name}{', streamed' if row.streamed else ''}"
            print(f"{title:23} {' '.join(_cell(times, script, figure) for figure in ('wall', 'cpu', 'first'))}")


def _cell(times: Sequence[Times], script: Sequence[Times], figure: str) -> str:
    ours = statistics.median(getattr(one, figure) for one in times)
    theirs = statistics.median(getattr(one, figure) for one in script)
    return f"{ours:6.2f} ({ours / theirs:.2f}x)"


if __name__ == "__main__":
    main()
