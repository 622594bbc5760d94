"""Test that pytest's options and the arguments of a program give the same records."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import pytest_jsbench.run.batches
from pytest_jsbench import evaluate, load_run
from pytest_jsbench.records.redaction import Redaction
from pytest_jsbench.run.batches import Polling
from tests.support.batch_server import OpenAIServer
from tests.support.bench import NUMBER, Bench
from tests.support.openai_wire import error_body
from tests.support.provider import Provider
from tests.support.run_files import without_times

# as `import_session_modules`
for _name in ("pytest_jsbench.engines.providers.batches", "pytest_jsbench.lab.decoding.engines"):
    importlib.import_module(_name)
ANSWERS = {"good": '{"n": 1}', "bad": '{"n": -1}', "prose": "no", "fenced": '```json\n{"n": 2}\n```', "other": "{}"}


@dataclass(kw_only=True)
class EntryPoints:
    """A directory for the same run with pytest and from a program."""

    bench: Bench
    #: Options of both runs, by name.
    options: dict[str, Any] = field(default_factory=dict)

    def by_plugin(self, *args: str, output: str = "plugin") -> Path:
        flags = [f"--jsbench-{name.replace('_', '-')}={_text(value)}" for name, value in self.options.items()]
        self.bench.run_only("-p", "no:benchmark", *flags, f"--jsbench-output={output}", *args)
        return self._newest(output)

    def by_library(self, engine: Any, dataset: Any, output: str = "library", **more: Any) -> Path:
        taken = {name: value for name, value in self.options.items() if name not in {"engine", "dataset"}}
        run = evaluate(engine, dataset, output=output, **{**taken, **more})
        assert run.folder is not None
        return run.folder

    def _newest(self, output: str) -> Path:
        return sorted((self.bench.path / output).iterdir())[-1]


def _text(value: object) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def lines(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the header and the records of a run, without what differs between runs."""
    header, *records = (json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines())
    for name in ("run_id", "uuid", "started_at", "entry", "resumed_from"):
        header["run"].pop(name, None)
    header["run"]["versions"].pop("pytest", None)
    return header, [without_times(record) for record in records]


def assert_same(*folders: Path) -> list[dict[str, Any]]:
    (header, records), *others = map(lines, folders)
    assert records
    for other_header, other_records in others:
        assert other_records == records
        assert other_header == header
    return records


@pytest.fixture
def entry_points(bench: Bench) -> EntryPoints:
    for name, answer in ANSWERS.items():
        bench.case(name, answer)
    (bench.path / "answers.json").write_text(json.dumps(bench.answers))
    return EntryPoints(bench=bench)


TABLE = """
[[tool.jsbench.variants]]
name = "plain"
engine = "scripted"
engine_option = { answers = "answers.json" }

[[tool.jsbench.variants]]
name = "warm"
engine = "scripted"
model = "m"
temperature = 0.7
prompt = "fields"
engine_option = { answers = "answers.json" }
"""
ROWS = {
    "plain": {"engine": "scripted", "engine_option": {"answers": "answers.json"}},
    "warm": {
        "engine": "scripted",
        "model": "m",
        "temperature": 0.7,
        "prompt": "fields",
        "engine_option": {"answers": "answers.json"},
    },
}


@pytest.mark.parametrize(("engine", "names"), [(ROWS, {}), (None, {"variants": "all"})], ids=["mapping", "table"])
def test_two_variants_three_repeats_and_a_shard(entry_points: EntryPoints, engine: Any, names: dict[str, str]) -> None:
    entry_points.bench.write({"pyproject.toml": TABLE})
    entry_points.options = {"repeats": 3, "shard": "1/2", "seed": 5}

    by_plugin = entry_points.by_plugin("--jsbench-variants=all", "--jsbench-dataset=schemas")
    by_library = entry_points.by_library(engine, "schemas", **names)

    records = assert_same(by_plugin, by_library)
    assert len(records) == 3 * 2 * 3
    assert {record["variant"] for record in records} == {"plain", "warm"}


@pytest.mark.parametrize(
    ("options", "broken"),
    [
        ({"redact": True}, ()),
        ({"extra_fields": "allow", "fences": "forbid", "limit": 4, "sample": "3:7"}, ()),
        ({"where": "not id:prose", "retries": 0, "adapt": "narrow:openai", "context": 100_000, "shots": 1}, ()),
        ({"invalid_schemas": "strict", "seed": 3, "max_tokens": 9}, ("good",)),
        ({"record": "kept", "comparer": "n=tolerance:1"}, ()),
        ({"classify": "codes:code", "min_pass_rate": 0.3, "rpm": 6000, "timeout": 9}, ()),
        ({"preset": "jsonschemabench", "tasks": "orders"}, ()),
    ],
    ids=["redacted", "judged", "chosen", "strict", "recorded", "classified", "preset"],
)
def test_run_without_variants_has_one_variant(
    entry_points: EntryPoints, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], broken: tuple[str, ...]
) -> None:
    salted = Redaction.new()
    monkeypatch.setattr(Redaction, "new", lambda: salted)
    for name in broken:
        entry_points.bench.case(name, schema={**NUMBER, "requird": []})
    entry_points.bench.write(
        {"codes.py": "def code(record):\n    return 'short' if record.verdict.keyword else None\n"}
    )
    monkeypatch.syspath_prepend(entry_points.bench.path)
    entry_points.options = {
        **options,
        "engine": "scripted",
        "engine_option": "answers=answers.json",
        "dataset": "schemas",
    }

    by_plugin = entry_points.by_plugin()
    entry_points.options["engine_option"] = {"answers": "answers.json"}
    if entry_points.options.pop("comparer", None):
        entry_points.options["comparers"] = {"n": "tolerance:1"}
    by_library = entry_points.by_library("scripted", "schemas")

    records = assert_same(by_plugin, by_library)
    verdicts = [json.loads((folder / "run.json").read_text())["verdict"] for folder in (by_plugin, by_library)]
    assert ("min_pass_rate" in options) == (verdicts[1] is not None)
    if "min_pass_rate" in options:
        # only pytest runs have failed tests, which the gate allows
        (tests,) = (reason for reason in verdicts[0]["because"] if "tests failed, which the gate allows: " in reason)
        verdicts[0]["because"].remove(tests)
        assert verdicts[0] == verdicts[1]
        assert {code for record in records for code in record["codes"]} == {"short"}
    assert not broken or any(record["verdict"]["reason"] == "unknown_keyword" for record in records)
    if "redact" in options:
        digests = [record["redacted"] for record in records]
        assert all(digests)


def test_a_resumed_run(entry_points: EntryPoints) -> None:
    entry_points.options = {"engine": "scripted", "engine_option": "answers=answers.json", "dataset": "schemas"}
    entry_points.by_plugin("--jsbench-limit=2", output="first")
    first = entry_points._newest("first")
    entry_points.options["resume"] = first

    by_plugin = entry_points.by_plugin()
    entry_points.options["engine_option"] = {"answers": "answers.json"}
    by_library = entry_points.by_library("scripted", "schemas")

    assert len(assert_same(by_plugin, by_library)) == len(ANSWERS)
    headers = [
        json.loads((folder / "records.jsonl").read_text().partition("\n")[0]) for folder in (by_plugin, by_library)
    ]
    assert {header["run"]["resumed_from"] for header in headers} == {first.name}


def test_a_labelled_run(entry_points: EntryPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    entry_points.bench.write(
        {
            "labelled/schemas.jsonl": json.dumps(
                {"schema_id": "number", "task": "simple", "schema": {"type": "integer"}}
            )
            + "\n",
            "labelled/instances.jsonl": "".join(
                json.dumps({"schema_id": "number", "id": str(valid), "valid": valid, "data": instance}) + "\n"
                for valid, instance in ((True, 1), (False, 2.5))
            ),
        }
    )
    monkeypatch.syspath_prepend(entry_points.bench.path)
    entry_points.options = {"instances": "labelled"}

    by_plugin = entry_points.by_plugin("--jsbench-engine=answering:Grammars")
    by_library = entry_points.by_library("answering:Grammars", None)

    (record,) = assert_same(by_plugin, by_library)
    assert record["verdict"]["failure_type"] == "wrong_decision"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    pytest.importorskip("urllib3", reason="calls to a provider need the package urllib3")
    monkeypatch.setenv("MY_KEY", "Zq7-not-to-be-told-4411")
    monkeypatch.setattr(pytest_jsbench.run.batches, "POLLING", Polling(first=0.01, patience=1))
    with Provider() as provider:
        yield OpenAIServer(provider=provider)


def test_a_batch(entry_points: EntryPoints, server: OpenAIServer) -> None:
    server.answers = {
        "good": '{"n": 1}',
        "bad": '{"n": -1}',
        "broke": (429, error_body("slow down", type="rate_limit_error")),
        "late": "batch_expired",
    }
    server.looks = 1
    for name in server.answers:
        entry_points.bench.case(name, schema={**NUMBER, "title": name}, task="asked")
    asked = {"model": "m", "base_url": server.url, "api_key_env": "MY_KEY", "tasks": "asked"}
    entry_points.options = {"batch": "wait", **asked}

    by_plugin = entry_points.by_plugin("--jsbench-engine=openai", "--jsbench-dataset=schemas")
    by_library = entry_points.by_library("openai", "schemas")

    assert list(server.batches) == ["batch_0", "batch_1"]
    assert server.live == []
    for folder, batch in ((by_plugin, "batch_0"), (by_library, "batch_1")):
        path = folder / "records.jsonl"
        path.write_text(path.read_text().replace(batch, "batch"))
    assert len(assert_same(by_plugin, by_library)) == len(server.answers)

    server.looks = None
    left = entry_points.by_library("openai", "schemas", batch="leave", output="left")
    assert (left / "records.jsonl").read_text().count("\n") == 1
    server.looks = 0
    assert len(assert_same(by_plugin, _renamed(entry_points.by_library("openai", "schemas", resume=left)))) == 4
    assert list(server.batches) == ["batch_0", "batch_1", "batch_2"]


def _renamed(folder: Path) -> Path:
    path = folder / "records.jsonl"
    path.write_text(path.read_text().replace("batch_2", "batch"))
    return folder


def test_a_budget(entry_points: EntryPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("genai_prices", reason="a limit in money needs prices")
    monkeypatch.syspath_prepend(entry_points.bench.path)
    entry_points.options = {"max_cost": 0.0017, "concurrency": 1}

    by_plugin = entry_points.by_plugin("--jsbench-engine=answering:Priced", "--jsbench-dataset=schemas")
    by_library = entry_points.by_library("answering:Priced", "schemas")

    assert len(assert_same(by_plugin, by_library)) == 2
    missing = [load_run(folder).unrecorded() for folder in (by_plugin, by_library)]
    assert list(missing[0]) == list(missing[1])
    assert len(missing[0]) == len(ANSWERS) - 2
