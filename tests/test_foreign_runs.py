"""Test that files of run directories are not trusted, with hostile variants of each file for each reader."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.cli.judge import is_records
from pytest_jsbench.cli.main import main
from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Expected, Prompt
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.generations import CallError, EngineInfo, GenerationParams, Request, ResponseFormat
from pytest_jsbench.core.messages import Message
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.recorded.recordings import Recording, Recordings
from pytest_jsbench.engines.registry import find
from pytest_jsbench.metrics.comparison import compare
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.prompts.named import schema_prompt
from pytest_jsbench.records import journal
from pytest_jsbench.records.rejudging import compare_values, recorded_policy
from pytest_jsbench.records.resumption import resume
from pytest_jsbench.reports import comparison_report, run_json
from pytest_jsbench.reports.history import History
from pytest_jsbench.reports.run_json import run_to_dict, write_run
from pytest_jsbench.reports.terminal import report_lines
from pytest_jsbench.run.batch_file import BatchFile, BatchPart, is_unfinished, read_parts
from tests.support import examples
from tests.support.examples import record, replace
from tests.support.mutations import mutated_json, mutated_lines, survive

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}
METADATA = replace(examples.metadata(provider="openai", model="gpt-4o"), repeats=2, policy={"timeout": 5.0})
RECORDS = (
    record("passed", schema=SCHEMA),
    replace(record("passed", schema=SCHEMA), repeat=1, tags=("eu",), codes=("odd",)),
    record("violated", schema=SCHEMA, verdict=examples.VIOLATED),
    record("declined", verdict=examples.UNSUPPORTED, generation=examples.declined()),
    record("broke", task="talk", verdict=examples.BROKEN, generation=examples.failed()),
    record("decided", task="talk", verdict=examples.DECIDED_WRONGLY, generation=examples.decided("v0")),
    record("excluded", task="talk", verdict=examples.EXCLUDED),
    record("batched", generation=examples.batched()),
    compare_values(
        record("valued", schema=SCHEMA),
        Expected(value={"n": 3, "m": [1]}, comparers={"/properties/n": {"tolerance": 0.5}}),
    ),
)


def write_run_folder(folder: Path) -> Path:
    """Write the directory of a run with one attempt of each kind."""
    found = replace(examples.run(*RECORDS), metadata=METADATA)
    folder.mkdir(parents=True)
    journal.write(folder / "records.jsonl", METADATA.with_plan(one.attempt for one in RECORDS), RECORDS)
    write_run(folder / "run.json", run_to_dict(found, summarize(found), config_path="pytest.ini"))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run_folder(tmp_path / "run")


def load(key: CaseKey) -> Case | BrokenCase:
    return Case(key=key, schema=SCHEMA)


def _read_and_resumed(hostile: Path, _run: Path) -> None:
    is_records(hostile)
    content = journal.read_run(hostile)
    if content.metadata is not None:
        recorded_policy(content.metadata.policy, {})
    resume(hostile, METADATA, [one.key for one in RECORDS], load=load, templates={"": schema_prompt})


def _summed_up(hostile: Path, run: Path) -> None:
    told("compare", run, hostile, "-v")
    told("compare", hostile, run, "--by=keyword", "--json")
    told("merge", run, hostile, "--output", run.parent / "merged")
    told("baseline", hostile, "-o", run.parent / "b.json")


def _exported(hostile: Path, run: Path) -> None:
    told("export", hostile, "--format=every_eval_ever", "--output", run.parent / "every")


def _shown_on_a_page(hostile: Path, run: Path) -> None:
    pytest.importorskip("jinja2")
    told("report", hostile, "-o", run.parent / "page.html")


def _replayed(hostile: Path, _run: Path) -> None:
    config, factory = EngineConfig(name="replay", options={"records": str(hostile)}), find("replay")
    factory.check(config)
    factory.describe(config)
    engine = factory.build(config)
    for one in RECORDS:
        answered(engine.generate, one.key, one.repeat)


READERS: dict[str, Callable[[Path, Path], None]] = {
    "records": _read_and_resumed,
    "shards": _summed_up,
    "exports": _exported,
    "pages": _shown_on_a_page,
    "replays": _replayed,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_hostile_records_are_read_or_refused_in_one_line(run: Path, tmp_path: Path, name: str) -> None:
    hostile, data = tmp_path / "hostile.jsonl", (run / "records.jsonl").read_bytes()

    def attempt(chance: random.Random) -> None:
        hostile.write_bytes(mutated_lines(data, chance))
        READERS[name](hostile, run)

    said(survive(name, attempt))


@pytest.mark.slow
def test_hostile_records_of_variants_are_read_or_rejected_in_one_line(tmp_path: Path) -> None:
    metadata = examples.variants(a={"provider": "openai", "model": "gpt-4o"}, b={"prompt": "chat"})
    records = [replace(one, variant=name) for name in "ab" for one in RECORDS]
    whole, hostile = tmp_path / "whole.jsonl", tmp_path / "hostile.jsonl"
    journal.write(whole, metadata.with_plan(one.attempt for one in records), records)
    data = whole.read_bytes()

    def attempt(chance: random.Random) -> None:
        hostile.write_bytes(mutated_lines(data, chance))
        told("compare", hostile)
        told("merge", whole, hostile, "--output", tmp_path / "merged")
        told("baseline", hostile, "-o", tmp_path / "b.json")
        told("export", hostile, "--output", tmp_path / "every")
        templates = dict.fromkeys("ab", schema_prompt)
        resume(hostile, metadata, [one.key for one in RECORDS], load=load, templates=templates)

    said(survive("variants", attempt))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["run", "baseline", "theirs"])
def test_hostile_evaluation_files_are_read_or_rejected_in_one_line(run: Path, tmp_path: Path, kind: str) -> None:
    hostile, source = tmp_path / "hostile.json", run / "run.json"
    if kind == "baseline":
        told("baseline", run, "-o", tmp_path / "b.json")
        source = tmp_path / "b.json"
    if kind == "theirs":
        source = tmp_path / "theirs.json"
        metrics = {"num_steps": 28, "action_type_accuracy": 0.25, "x": 1, "x_ci": [0.5, 2], "by": {"a": 1, "b": None}}
        source.write_text(json.dumps({"config_path": "c", "backend": "qwen", "dsl_mode": "som", "metrics": metrics}))
    data = source.read_bytes()
    ours = run_json.with_cases(run)[1]

    def attempt(chance: random.Random) -> None:
        hostile.write_bytes(mutated_json(data, chance))
        told("compare", hostile, run)
        told("compare", run, hostile, "--by=task", "--comment=x")
        told("compare", run, hostile, "--by=task", "--metric=empirical_coverage", "--json")
        told("migrate", hostile)
        found = run_json.read(hostile)
        report_lines(comparison_report.side_by_side([found, found], ["a", "b"], verbose=True))
        compare(run_json.with_cases(hostile)[1], ours)

    said(survive(f"evaluations of {kind}", attempt, kept=["evaluations of baseline 777"]))


def test_hostile_evaluation_files_are_drawn_or_refused_in_one_line(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    hostile, data = tmp_path / "hostile.json", (run / "run.json").read_bytes()

    def attempt(chance: random.Random) -> None:
        hostile.write_bytes(mutated_json(data, chance))
        run_json.read(hostile)
        if chance.random() < 0.05:  # charts are slow to draw
            told("plot", "--files", hostile, run / "run.json", "--output", tmp_path / "p.svg", "--metrics", "pass_rate")

    said(survive("pictures", attempt))


def test_hostile_recordings_are_replayed_or_rejected_in_one_line(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path)
    info = EngineInfo(engine="e", model="m", response_format=ResponseFormat.JSON_SCHEMA, streaming=True)
    key = CaseKey(task="simple", id="a")
    recordings.write(Recording.of(request(key, 0), SCHEMA, examples.completion(), info))
    data = recordings.path(key, 0).read_bytes()
    config = EngineConfig(name="recorded", options={"folder": str(tmp_path)})

    def attempt(chance: random.Random) -> None:
        recordings.path(key, 0).write_bytes(mutated_json(data, chance))
        factory = find("recorded")
        factory.check(config)
        factory.describe(config)
        answered(factory.build(config).generate, key, 0)

    said(survive("recordings", attempt))


def test_hostile_batch_state_is_resumed_or_rejected_in_one_line(tmp_path: Path) -> None:
    part = BatchPart(id="batch_1", handed_in_at="2026-11-21T10:00:00+00:00", requests=("a", "b"))
    BatchFile(tmp_path / journal.BATCHES, METADATA, [part, replace(part, ended=True)])
    data = (tmp_path / journal.BATCHES).read_bytes()

    def attempt(chance: random.Random) -> None:
        (tmp_path / journal.BATCHES).write_bytes(mutated_json(data, chance))
        is_unfinished(tmp_path)
        read_parts(tmp_path, METADATA)

    said(survive("batches", attempt))


def test_directory_of_runs_in_place_of_recordings_is_reported(tmp_path: Path) -> None:
    write_run_folder(tmp_path / "20261121T100000Z-a")
    write_run_folder(tmp_path / "20261121T100001Z-b")
    config = EngineConfig(name="recorded", options={"folder": str(tmp_path)})

    with pytest.raises(JSBenchError) as caught:
        find("recorded").check(config)

    newest = tmp_path / "20261121T100001Z-b"
    assert f"which is a directory of 2 runs, the newest {newest}: " in str(caught.value)
    assert str(caught.value).endswith(f"--jsbench-engine=replay --jsbench-engine-option=records={newest}")
    with pytest.raises(JSBenchError, match="which is the directory of a run: "):
        find("recorded").check(replace(config, options={"folder": str(newest)}))


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ((), "an empty directory"),
        (("notes.txt",), "a directory without a run"),
        (("a/run.json",), "a directory without a run"),
    ],
)
def test_directory_without_a_run_is_reported_by_each_reader(
    tmp_path: Path, files: tuple[str, ...], found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()

    for command in (
        ("compare", folder),
        ("judge", folder),
        ("merge", folder, "--output", tmp_path / "o"),
        ("export", folder, "--format=every_eval_ever", "--output", tmp_path / "o"),
        ("plot", "--files", folder, "--output", tmp_path / "p.svg"),
        ("baseline", folder, "-o", tmp_path / "b.json"),
    ):
        assert told(*command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{folder}, which is {found}" in line


def test_no_answer_is_recorded_through_a_link(tmp_path: Path) -> None:
    recordings, elsewhere = Recordings(tmp_path / "kept"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    recordings.folder.mkdir()
    (recordings.folder / "simple").symlink_to(elsewhere, target_is_directory=True)
    info = EngineInfo(engine="e", model="m", response_format=ResponseFormat.JSON_SCHEMA, streaming=True)
    one = Recording.of(request(CaseKey(task="simple", id="a"), 0), SCHEMA, examples.completion(), info)

    with pytest.raises(JSBenchError, match=r"a symbolic link leads out of .*; remove the link"):
        recordings.write(one)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", ["records.jsonl", "run.json", journal.BATCHES, "simple/a.json"])
def test_a_packed_or_endless_file_is_refused_unread(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    readers: dict[str, Callable[[], object]] = {
        "records.jsonl": lambda: journal.read_run(path),
        "run.json": lambda: run_json.read(path),
        journal.BATCHES: lambda: read_parts(tmp_path, METADATA),
        "simple/a.json": lambda: Recordings(tmp_path).read(tmp_path / "simple" / "a.json"),
    }
    bomb = gzip.compress(b"[" * 10_000_000)
    begun = {"records.jsonl": b"{}\n" + bomb + b"\n{}\n"}

    path.write_bytes(begun.get(name, bomb))
    with pytest.raises(JSBenchError, match=r"UTF-8|not JSON|not a record"):
        readers[name]()
    with path.open("wb") as file:
        file.truncate(300_000_000_000)
    with pytest.raises(JSBenchError, match="bytes; expected at most"):
        readers[name]()


def request(key: CaseKey, repeat: int) -> Request:
    prompt = Prompt(messages=(Message(role="user", content="answer"),))
    return Request(key=key, repeat=repeat, prompt=prompt, schema=SCHEMA, params=GenerationParams(max_tokens=9))


def answered(generate: Callable[[Request], object], key: CaseKey, repeat: int) -> None:
    with contextlib.suppress(CallError):  # the outcome of one attempt
        generate(request(key, repeat))


def told(*arguments: object) -> int:
    """Run a command that shows the run or explains in one line why it cannot."""
    out = io.StringIO()
    status = main([str(one) for one in arguments], out=out)
    assert status in {0, 1, 2}
    return status


def said(survived: Any) -> None:
    assert not survived.broken, str(survived)
    assert survived.grown < 1 << 30


def _resumed(run: Path) -> None:
    read_parts(run, METADATA)
    journal.read_run(run)


@pytest.mark.parametrize("name", ["records.jsonl", "records.gw0.jsonl", "run.json", "batch.json"])
def test_a_file_of_a_run_that_is_a_link_out_of_its_folder_is_not_followed(run: Path, tmp_path: Path, name: str) -> None:
    elsewhere = write_run_folder(tmp_path / "elsewhere")
    BatchFile(elsewhere / "batch.json", METADATA, [BatchPart(id="b", handed_in_at="now", requests=("a",))])
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(elsewhere / name.replace(".gw0", ""))

    readers: list[Callable[[], object]] = [lambda: _resumed(run)]
    if name == "run.json":
        readers = [lambda: run_json.load(run / name), lambda: run_json.read(run)]
    elif name == "records.jsonl":
        readers += [lambda: journal.read_header(run), lambda: journal.read_run(run / name)]
    for read in readers:
        with pytest.raises(JSBenchError, match=rf"{name}: leads out of {run}"):
            read()


def test_a_run_that_is_a_link_out_of_the_folder_of_runs_is_not_followed(run: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "2026").symlink_to(run, target_is_directory=True)

    for read in (journal.read_run, journal.read_header, run_json.read):
        with pytest.raises(JSBenchError, match=r"2026: leads out of .*/runs"):
            read(runs)


def test_a_history_that_is_a_link_out_of_its_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("")
    (tmp_path / "in" / "history.jsonl").symlink_to(tmp_path / "secret")

    with pytest.raises(JSBenchError, match=r"history.jsonl: leads out of .*/in"):
        History.read(tmp_path / "in" / "history.jsonl")


def test_links_within_a_run_and_to_named_directories_are_followed(run: Path, tmp_path: Path) -> None:
    (run / "records.jsonl").rename(run / "kept")
    (run / "records.jsonl").symlink_to("kept")
    (tmp_path / "latest").symlink_to(run, target_is_directory=True)

    assert len(journal.read_run(tmp_path / "latest").outcomes) == len(RECORDS)
