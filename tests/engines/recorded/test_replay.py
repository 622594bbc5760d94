from __future__ import annotations

from pathlib import Path

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import CallError, Completion, FaultKind, GenerationParams, Origin, ResponseFormat
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
from pytest_jsbench.prompts import PROMPTS
from pytest_jsbench.records import journal
from pytest_jsbench.records.records import Record
from pytest_jsbench.run.attempts import Runner
from pytest_jsbench.run.call_layers import RETRIED
from pytest_jsbench.verdicts import Judge
from tests.support import examples
from tests.support.engine_calls import request
from tests.support.examples import record, replace

SCHEMA = {"type": "integer"}


def replaying(folder: Path, *records: Record) -> EngineConfig:
    journal.write(folder / "records.jsonl", examples.metadata(), records)
    return EngineConfig(name="replay", options={"records": str(folder)})


def test_replayed_answer_has_the_recorded_timing(tmp_path: Path) -> None:
    recorded = [
        record("a", schema=SCHEMA),
        record("b", schema=SCHEMA, verdict=examples.UNSUPPORTED, generation=examples.declined()),
    ]
    config = replaying(tmp_path, *recorded)

    engine = find("replay").build(config)

    assert [engine.generate(request(SCHEMA, case_id=one.key.id)) for one in recorded] == [
        one.generation for one in recorded
    ]
    engine.close()


def test_replay_reads_the_worker_files_of_a_killed_run(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").touch()
    for worker, case in (("gw0", "a"), ("gw1", "b")):
        journal.write(tmp_path / f"records.{worker}.jsonl", examples.metadata(), [record(case, schema=SCHEMA)])
    config = EngineConfig(name="replay", options={"records": str(tmp_path)})

    find("replay").check(config)
    engine = find("replay").build(config)

    for case in "ab":
        assert engine.generate(request(SCHEMA, case_id=case)) == record(case, schema=SCHEMA).generation


def test_replay_engine_has_the_recorded_identity(tmp_path: Path) -> None:
    config = replaying(tmp_path, record("a"))

    info = find("replay").describe(config)

    assert (info.engine, info.model, info.response_format) == ("replay", "m", ResponseFormat.JSON_SCHEMA)
    assert info.details == {"replayed_engine": "scripted", "replayed_run": "20261121T100000Z-scripted-m"}
    assert find("replay").build(config).info == info
    find("replay").check(config)


def test_recorded_fault_is_replayed_without_retries(tmp_path: Path) -> None:
    broken = record("a", schema=SCHEMA, verdict=examples.BROKEN, generation=examples.failed(FaultKind.TIMEOUT))
    engine = find("replay").build(replaying(tmp_path, broken))

    with pytest.raises(CallError, match="no answer in 1 s") as caught:
        engine.generate(request(SCHEMA, case_id="a"))

    assert caught.value.kind is FaultKind.TIMEOUT
    assert FaultKind.TIMEOUT in RETRIED
    with Judge() as judge:
        params = GenerationParams(max_tokens=10)
        runner = Runner(engine=engine, judge=judge, template=PROMPTS["schema"].render, params=params, retries=5)
        made = runner.attempt(Case(key=broken.key, schema=SCHEMA))
    assert (made.generation, made.retries) == (broken.generation, 0)


@pytest.mark.parametrize(
    ("case_id", "schema", "message"),
    [
        ("b", SCHEMA, r"no answer for simple::b in /.*; select only cases of the recorded run$"),
        ("excluded", SCHEMA, "no answer for simple::excluded"),
        ("a", {"type": "string"}, "simple::a was recorded with another schema; use the dataset of the recorded run"),
    ],
)
def test_replay_without_a_record_is_an_engine_fault(
    tmp_path: Path, case_id: str, schema: dict[str, str], message: str
) -> None:
    excluded = record("excluded", schema=SCHEMA, verdict=examples.EXCLUDED)
    engine = find("replay").build(replaying(tmp_path, record("a", schema=SCHEMA), excluded))

    with pytest.raises(CallError, match=message) as caught:
        engine.generate(request(schema, case_id=case_id))

    assert caught.value.kind is FaultKind.ENGINE


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, {}, "needs records: --jsbench-engine-option records=PATH"),
        (None, {"records": "nowhere"}, "no run at nowhere: no such file or directory"),
        (None, {"record": "x"}, "has no option 'record': did you mean 'records'?"),
        ("", {"records": "r.jsonl"}, "r.jsonl has no header line"),
        ('{"type": "record"}\n', {"records": "r.jsonl"}, "r.jsonl has no header line"),
        ("nonsense\n", {"records": "r.jsonl"}, "r.jsonl has no header line"),
        ('{"type": "run", "run": {"engine": "x"}}\n', {"records": "r.jsonl"}, "not the header of a run"),
    ],
)
def test_what_cannot_be_replayed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, options: dict[str, str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "r.jsonl").write_text(content)

    with pytest.raises(EngineError) as caught:
        find("replay").check(EngineConfig(name="replay", options=options))

    assert str(caught.value).startswith("engine 'replay'")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_replay_skips_a_torn_record(tmp_path: Path) -> None:
    config = replaying(tmp_path, record("a", schema=SCHEMA), record("b", schema=SCHEMA))
    path = tmp_path / "records.jsonl"
    header, first, second = path.read_text().splitlines()
    path.write_text("\n".join([header, first[:50], second]))

    engine = find("replay").build(config)

    assert isinstance(engine.generate(request(SCHEMA, case_id="b")), Completion)
    with pytest.raises(CallError):
        engine.generate(request(SCHEMA, case_id="a"))


def test_replay_uses_the_named_variant(tmp_path: Path) -> None:
    of_a = replace(record("a", schema=SCHEMA, generation=examples.completion("1")), variant="x")
    of_b = replace(record("a", schema=SCHEMA, generation=examples.completion("2")), variant="y")
    journal.write(tmp_path / "records.jsonl", examples.variants(x={}, y={"model": "n"}), [of_a, of_b])
    config = EngineConfig(name="replay", options={"records": str(tmp_path), "variant": "y"})

    assert find("replay").describe(config).model == "n"
    assert find("replay").build(config).generate(request(SCHEMA, case_id="a")) == of_b.generation


@pytest.mark.parametrize(("named", "said"), [({}, "has several variants"), ({"variant": "z"}, "has no variant 'z'")])
def test_replay_requires_the_variant_option(tmp_path: Path, named: dict[str, str], said: str) -> None:
    journal.write(tmp_path / "records.jsonl", examples.variants(x={}, y={"model": "n"}), [])
    config = EngineConfig(name="replay", options={"records": str(tmp_path), **named})

    with pytest.raises(EngineError, match=f"{said}; set option 'variant' to one of: x, y"):
        find("replay").check(config)


def test_replay_reports_only_a_different_seed(tmp_path: Path) -> None:
    sampled = GenerationParams(max_tokens=64, seed=5)
    recorded = [
        replace(record("a", schema=SCHEMA), repeat=repeat, params=sampled.with_repeat(repeat)) for repeat in range(3)
    ]
    config = replaying(tmp_path, *recorded)
    engine = find("replay").build(replace(config, options={**config.options, "strict": True}))
    asked = [replace(request(SCHEMA, case_id="a"), repeat=repeat) for repeat in range(3)]

    same = Origin(run={"seed": 5, "response_format": "json_schema"})
    answers = [engine.generate(replace(attempt, origin=same)) for attempt in asked]

    assert [answer.sent.asked_otherwise for answer in answers if answer.sent] == [None] * 3
    with pytest.raises(CallError, match="seed was 7, is 8"):
        engine.generate(replace(asked[2], origin=Origin(run={"seed": 6})))


def test_replay_accepts_a_seed_that_the_engine_did_not_support(tmp_path: Path) -> None:
    asked = {"max_tokens": 64, "temperature": None, "seed": 5, "timeout": 9.0}
    metadata = replace(examples.metadata(), params={**asked, "seed": None}, asked_params=asked)
    unseeded = record("a", schema=SCHEMA)
    unseeded = replace(unseeded, repeat=1, params=GenerationParams(max_tokens=64))
    journal.write(tmp_path / "records.jsonl", metadata, [unseeded])
    config = EngineConfig(name="replay", options={"records": str(tmp_path), "strict": True})
    again = replace(request(SCHEMA, case_id="a"), repeat=1)

    engine = find("replay").build(config)

    sent = engine.generate(replace(again, origin=Origin(run={"seed": 5}))).sent
    assert sent is not None
    assert (sent.asked_otherwise, sent.params) == (None, unseeded.params)
    with pytest.raises(CallError, match="seed was 6, is 7"):
        engine.generate(replace(again, origin=Origin(run={"seed": 6})))
