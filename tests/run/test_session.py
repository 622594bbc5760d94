from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from pytest_jsbench import EngineConfig, open_engine
from pytest_jsbench.core.cases import Case, CaseKey, Prompt
from pytest_jsbench.core.generations import Failed, FaultKind
from pytest_jsbench.core.messages import Message
from pytest_jsbench.engines.registry import find
from pytest_jsbench.records import journal
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.metadata import Entry
from pytest_jsbench.records.questions import difference
from pytest_jsbench.records.records import AnsweredBy, Attempt, Missing, MissingReason
from pytest_jsbench.run.attempts import Runner
from pytest_jsbench.run.description import describe_host, describe_run
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.limits import Estimate, Refused
from pytest_jsbench.run.plan import Plan
from pytest_jsbench.run.question import CallSettings, ProjectCall, Question
from pytest_jsbench.run.runners import provider_name
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.run.variants import Variant
from pytest_jsbench.settings.call_options import Ask
from pytest_jsbench.settings.options import RecordingOptions
from tests.support import examples

OURS = EngineConfig(name="openai", base_url="http://me:secret@a/v1", api_key_env="ONE")
THEIRS = EngineConfig(name="openai", base_url="http://b/v1", api_key_env="ONE")
OTHER_KEY = EngineConfig(name="openai", base_url="http://b/v1", api_key_env="TWO")


@pytest.mark.parametrize(
    ("engines", "name"),
    [
        ([OURS], "openai m"),
        ([OURS, OURS], "openai m"),
        ([OURS, THEIRS], "openai m at http://…@a/v1"),
        ([OURS, THEIRS, OTHER_KEY], "openai m at http://…@a/v1 with ONE"),
    ],
)
def test_servers_and_keys_of_one_model_fail_apart(engines: list[EngineConfig], name: str) -> None:
    assert provider_name(AnsweredBy(engine="openai", model="m"), OURS, engines) == name


def test_model_at_another_address_has_the_limits_of_that_server(tmp_path: Path) -> None:
    with open_engine(lambda _: "{}") as engine:
        variant = engine.variant
    plan = Plan(variants={"": variant})
    session = RunSession(plan, Handover(metadata=examples.metadata(), folder=None, shared=tmp_path))
    who = AnsweredBy(engine="openai", model="m")

    admissions = [session.runners.admission("", who, config) for config in (OURS, THEIRS, OURS)]

    estimate = Estimate(input_tokens=1, output_tokens=1, seconds=1)
    servers = [admission.enter(lambda: estimate).server for admission in admissions]
    assert servers == ["openai at http://…@a/v1 with ONE", "openai at http://b/v1 with ONE", servers[0]]
    assert admissions[0] is admissions[2]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[RunSession]:
    with open_engine(lambda _: "{}") as engine:
        variant = engine.variant
    plan = Plan(variants={"": variant}, suite=False)
    handover = Handover(metadata=examples.metadata(), folder=None, shared=tmp_path)
    with closing(RunSession(plan, handover)) as session:
        session.begin([])
        session.open(cases=[])
        yield session


def question(settings: CallSettings | None = None, prompt: Prompt | None = None) -> Question:
    case = Case(key=CaseKey(task="t", id="c"), schema=True)
    call = ProjectCall(
        test="test_it.py::test_it", line=1, settings=settings or CallSettings(), prompt=prompt, first=case.key
    )
    return Question(attempt=Attempt(case.key, 0), case=case, call=call)


def test_ask_writes_who_asked_and_returns_the_record(session: RunSession, tmp_path: Path) -> None:
    answered = session.ask(question())

    assert answered.record is not None
    asked_by = answered.record.asked_by
    assert asked_by is not None
    assert (asked_by.test, asked_by.line) == ("test_it.py::test_it", 1)
    assert isinstance(answered.result.result, AttemptFacts)
    assert answered.result.result.read() == answered.record.kept
    assert [outcome.asked_by for outcome in journal.read(tmp_path / "records.jsonl").outcomes] == [asked_by]


def test_ask_makes_a_call_with_the_settings_and_prompt_of_the_test(session: RunSession) -> None:
    prompt = Prompt(messages=(Message(role="user", content="Say nothing"),))

    plain = session.ask(question()).record
    changed = session.ask(question(CallSettings(call={"temperature": 0.5}), prompt)).record

    assert plain is not None
    assert changed is not None
    assert (changed.prompt, changed.params and changed.params.temperature) == (prompt, 0.5)
    assert plain.prompt != prompt
    assert plain.asked_by != changed.asked_by


def test_ask_on_an_exhausted_machine_ends_all_calls(session: RunSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "attempt", Mock(side_effect=MemoryError))

    answered = session.ask(question())

    missing = answered.result.result
    assert isinstance(missing, Missing)
    assert missing.reason is MissingReason.EXHAUSTED
    admission = session.runners.for_variant("").admission
    assert admission is not None
    with pytest.raises(Refused, match="out of memory"):
        admission.enter(lambda: Estimate(input_tokens=1, output_tokens=1, seconds=1))


def test_ask_does_not_write_a_fault_of_the_sessions_end(
    session: RunSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = examples.record("c", generation=Failed(kind=FaultKind.CONNECTION, message="closed"))
    monkeypatch.setattr(Runner, "attempt", Mock(return_value=failed))
    session.stop()

    answered = session.ask(question())

    assert isinstance(answered.result.result, AttemptFacts)
    assert not (tmp_path / "records.jsonl").stat().st_size


def test_an_engine_that_cannot_be_closed_keeps_no_file_open(tmp_path: Path) -> None:
    def refuse() -> None:
        raise RuntimeError("stays open")

    with open_engine(lambda _: "{}") as engine:
        variant = engine.variant
    plan = Plan(variants={"": variant})
    session = RunSession(plan, Handover(metadata=examples.metadata(), folder=None, shared=tmp_path))
    session.begin([])
    session.open(cases=())
    session._resources.callback(refuse)
    journal = session._journal
    assert journal is not None

    with pytest.raises(RuntimeError, match="stays open"):
        session.close()

    assert (journal._closed, journal._file) == (True, None)


@pytest.mark.parametrize("engine", ["local", "llguidance"])
def test_run_records_the_digest_of_its_model_file(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    variant = Variant.of("", Ask({"engine": engine, "model": str(file)}), RecordingOptions(), factory=find(engine))
    plan = Plan(variants={"": variant}, suite=False)
    file.write_bytes(b"GGUF weights")
    first, listed = describe_run(plan, Entry.LIBRARY), describe_run(plan, Entry.LIBRARY, only_lists=True)
    file.write_bytes(b"GGUF of other weights")
    second = describe_run(plan, Entry.LIBRARY)

    assert first.details["model_digest"] == f"sha256:{hashlib.sha256(b'GGUF weights').hexdigest()}"
    assert "model_digest" not in listed.details
    assert "model_digest" in difference(first, second)


def test_run_records_the_gpus_that_the_driver_lists(tmp_path: Path) -> None:
    with open_engine(lambda _: "{}") as engine:
        plan = Plan(variants={"": engine.variant}, suite=False)
    before = describe_host(tmp_path)
    for place in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "information").write_text("Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 70\n")

    assert "gpus" not in before
    assert sys.platform == "win32" or isinstance(before["memory_gb"], int)
    assert describe_host(tmp_path) == {**before, "gpus": ["NVIDIA A100-SXM4-40GB"] * 2}
    assert describe_run(plan, Entry.LIBRARY).host == describe_host()
