from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from pytest_jsbench import EngineConfig, open_engine
from pytest_jsbench.engines.registry import find
from pytest_jsbench.records.metadata import Entry
from pytest_jsbench.records.questions import difference
from pytest_jsbench.records.records import AnsweredBy
from pytest_jsbench.run import description
from pytest_jsbench.run.description import describe_run
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.limits import Estimate
from pytest_jsbench.run.plan import Plan
from pytest_jsbench.run.session import RunSession, provider_name
from pytest_jsbench.run.variants import Variant
from pytest_jsbench.settings.options import DEFAULTS
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

    admissions = [session.admission("", who, config) for config in (OURS, THEIRS, OURS)]

    estimate = Estimate(input_tokens=1, output_tokens=1, seconds=1)
    servers = [admission.enter(lambda: estimate).server for admission in admissions]
    assert servers == ["openai at http://…@a/v1 with ONE", "openai at http://b/v1 with ONE", servers[0]]
    assert admissions[0] is admissions[2]


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
    values = {**DEFAULTS, "engine": engine, "model": str(file), "engine_option": {}}
    plan = Plan(variants={"": Variant.of("", values, factory=find(engine))}, suite=False)
    file.write_bytes(b"GGUF weights")
    first, listed = describe_run(plan, Entry.LIBRARY), describe_run(plan, Entry.LIBRARY, only_lists=True)
    file.write_bytes(b"GGUF of other weights")
    second = describe_run(plan, Entry.LIBRARY)

    assert first.details["model_digest"] == f"sha256:{hashlib.sha256(b'GGUF weights').hexdigest()}"
    assert "model_digest" not in listed.details
    assert "model_digest" in difference(first, second)


def test_run_records_the_gpus_that_the_driver_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_engine(lambda _: "{}") as engine:
        plan = Plan(variants={"": engine.variant}, suite=False)
    monkeypatch.setattr(description, "_GPUS", tmp_path)
    before = describe_run(plan, Entry.LIBRARY).host
    for place in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "information").write_text("Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 70\n")

    assert "gpus" not in before
    assert sys.platform == "win32" or before["memory_gb"] >= 1
    assert describe_run(plan, Entry.LIBRARY).host == {**before, "gpus": ["NVIDIA A100-SXM4-40GB"] * 2}
