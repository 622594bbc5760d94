from __future__ import annotations

import _thread
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pytest_jsbench.plugin.batch_submission
import pytest_jsbench.run.batches
from pytest_jsbench.run.batches import Polling
from tests.support.batch_server import AnthropicServer, BatchServer, OpenAIServer
from tests.support.bench import NUMBER, Bench, unless_said, with_workers
from tests.support.openai_wire import error_body
from tests.support.provider import Provider, json_reply
from tests.support.run_files import without_times

RUNS = ".pytest_cache/d/jsbench"
KEY = "Zq7-not-to-be-told-4411"

pytest.importorskip("urllib3", reason="calls to a provider need the package urllib3")
# see the conftest
for _name in ("openai.resources", "pytest_jsbench.engines.providers.batches"):
    importlib.import_module(_name)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setattr(pytest_jsbench.run.batches, "POLLING", Polling(first=0.01, patience=1))


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with Provider() as provider:
        yield OpenAIServer(provider=provider)


def add_cases(bench: Bench, server: BatchServer, **answers: Any) -> None:
    server.answers = answers
    for name in answers:
        bench.case(name, schema={**NUMBER, "title": name})


MIXED = {
    "passed": '{"n": 1}',
    "violated": '{"n": -1}',
    "unsupported": (400, error_body("Invalid schema for response_format 'output'", param="response_format")),
    "broke": (429, error_body("slow down", type="rate_limit_error")),
    "late": "batch_expired",
}


def run(bench: Bench, server: BatchServer, *args: str, **options: Any) -> pytest.RunResult:
    engine = "anthropic" if isinstance(server, AnthropicServer) else "openai"
    asked = ("--jsbench-model=m", f"--jsbench-base-url={server.url}", "--jsbench-api-key-env=MY_KEY")
    engines = unless_said(args, f"--jsbench-engine={engine}")
    return bench.run_only(*engines, *asked, "--jsbench-dataset=schemas", *args, **options)


def runs(bench: Bench) -> list[Path]:
    return sorted((bench.path / RUNS).iterdir())


def records(folder: Path) -> dict[str, Any]:
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()[1:]]
    return {line["id"]: line for line in lines}


def without_batch(found: dict[str, Any]) -> Any:
    for record in found.values():
        (record["generation"].get("sent") or {}).pop("batch", None)
    return without_times(found)


@pytest.mark.slow
@with_workers
def test_a_batch_ends_as_calls_would_have(bench: Bench, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytest_jsbench.plugin.batch_submission, "is_watched", lambda _: True)
    add_cases(bench, server, **{**MIXED, "late": '{"n": 5'})
    server.looks = 2

    result = run(bench, server, "--jsbench-batch", "--junitxml=junit.xml")

    assert list(server.batches) == ["batch_0"]
    assert server.live == []
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(
        ["jsbench: batch batch_0 (5 requests) submitted", "jsbench: 0 of 5 answered, 0 failed, 0:00 elapsed"]
    )
    assert "jsbench.tgt_s" not in (bench.path / "junit.xml").read_text()
    bench.workers = ()
    run(
        bench, server, "--jsbench-retries=0", "--jsbench-patience=0", "--jsbench-engine-option=stream=false"
    ).assert_outcomes(passed=1, failed=4)
    batched, live = (records(folder) for folder in runs(bench))
    assert batched["passed"]["generation"]["sent"]["batch"] == "batch_0"
    assert (batched["passed"]["generation"]["timing"], batched["passed"]["queue_s"]) == (None, None)
    assert without_batch(batched) == without_batch(live)


@pytest.mark.usefixtures("interruptible")
def test_batch_survives_ctrl_c_and_resumes_without_new_cost(bench: Bench, server: OpenAIServer) -> None:
    add_cases(bench, server, **MIXED)
    server.looks = None
    server.on_look = lambda look: _thread.interrupt_main() if look == 2 else None

    stopped = run(bench, server, "--jsbench-batch", no_reraise_ctrlc=True)

    assert stopped.ret == pytest.ExitCode.INTERRUPTED
    (first,) = runs(bench)
    stopped.stdout.fnmatch_lines([f"*batch batch_0 (5 requests) not finished; * --jsbench-resume={RUNS}/{first.name}"])
    (first / "records.jsonl").write_text("")  # as a killed process would leave it
    server.looks, server.on_look, bench.workers = 0, None, ()
    bench.case("grown", schema={**NUMBER, "title": "grown"})

    result = run(bench, server, "--jsbench-batch", f"--jsbench-resume={RUNS}")

    result.assert_outcomes(passed=2, failed=4)
    result.stdout.fnmatch_lines(["jsbench: resuming batch batch_0 (5 requests)"])
    assert {name: len(rows) for name, rows in server.batches.items()} == {"batch_0": 5, "batch_1": 1}
    assert set(records(runs(bench)[1])) == {*MIXED, "grown"}


def test_left_alone_nothing_of_it_runs_until_it_is_back(bench: Bench) -> None:
    with Provider() as provider:
        server = AnthropicServer(provider=provider, looks=1)
        add_cases(bench, server, a='{"n": 1}', b='{"n": -1}')
        bench.write({"test_own.py": "def test_own(): pass"})

        left = run(bench, server, "--jsbench-batch=leave", ".", "-rs")
        back = run(bench, server, "--jsbench-batch=leave", f"--jsbench-resume={RUNS}")

    left.assert_outcomes(passed=1, skipped=2)
    assert left.ret == pytest.ExitCode.TESTS_FAILED
    left.stdout.fnmatch_lines(["SKIPPED * not run: batch msgbatch_0 has not ended", "*(left in a batch 2)*"])
    back.assert_outcomes(passed=1, failed=1)
    assert list(server.batches) == ["msgbatch_0"]


def test_no_file_of_a_batch_holds_the_key(bench: Bench, server: OpenAIServer) -> None:
    add_cases(bench, server, a=(401, error_body(f"you sent {KEY}", type="authentication_error")))
    server.ending = "failed"
    server.errors = [{"code": "invalid", "message": f"Bearer {KEY}"}]

    result = run(bench, server, "--jsbench-batch", "-vv", "-rA", "--log-level=DEBUG", "--log-file=log.txt")

    assert any(KEY in str(asked.headers) for asked in server.provider.asked)
    assert KEY not in result.stdout.str() + result.stderr.str()
    files = [path for path in bench.path.rglob("*") if path.is_file()]
    assert "batch.json" in {path.name for path in files}
    assert [path.name for path in files if KEY.encode() in path.read_bytes()] == []


def test_a_projects_tests_still_call(bench: Bench, server: OpenAIServer) -> None:
    add_cases(bench, server, a='{"n": 1}')
    bench.write({"test_own.py": f"import pytest\n\n@pytest.mark.jsbench(schema={NUMBER})\n{OWN}"})

    for looking in ("--collect-only", "--setup-only", "--setup-plan"):
        run(bench, server, ".", "--jsbench-batch", looking).assert_outcomes()
        assert server.batches == {}, looking
    assert server.provider.asked == []
    run(bench, server, ".", "--jsbench-batch").assert_outcomes(passed=2)

    assert (len(server.live), len(server.batches["batch_0"])) == (1, 1)


OWN = "def test_own(jsbench):\n    jsbench.generate('a number')\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("--jsbench-batch", "--jsbench-engine=scripted"),
            "--jsbench-batch: engine 'scripted' has no batch API: expected anthropic, gemini, openai",
        ),
        (
            ("--jsbench-batch", "-p", "no:cacheprovider"),
            "--jsbench-batch needs a run directory for the batch's id: add --jsbench-output=DIR",
        ),
    ],
)
def test_what_cannot_be_is_one_line(bench: Bench, server: OpenAIServer, args: tuple[str, ...], message: str) -> None:
    add_cases(bench, server, a='{"n": 1}')

    result = run(bench, server, *args)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}*"])
    assert server.batches == {}


@pytest.mark.parametrize(
    ("path", "reply", "message", "entries"),
    [
        ("batches", json_reply(error_body("too many"), status=400), "not accepted: too many", 0),
        ("batches", json_reply(error_body("down"), status=500), "down: *batch.json: the run ended while*", 1),
    ],
)
def test_rejected_batch_is_one_line_and_a_doubtful_one_is_not_resubmitted(
    bench: Bench, server: OpenAIServer, path: str, reply: Any, message: str, entries: int
) -> None:
    add_cases(bench, server, a='{"n": 1}')
    server.broken = {path: [reply]}

    result = run(bench, server, "--jsbench-batch")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --jsbench-batch: *{message}*"])
    again = run(bench, server, "--jsbench-batch", f"--jsbench-resume={RUNS}")
    assert again.ret == (pytest.ExitCode.USAGE_ERROR if entries else pytest.ExitCode.OK)
    assert len(server.batches) == 1 - entries


def test_single_variant_is_submitted_and_resumed(bench: Bench, server: OpenAIServer) -> None:
    add_cases(bench, server, a='{"n": 1}')
    bench.write({"jsbench.toml": '[[variants]]\nname = "chatty"\nprompt = "chat"\n[[variants]]\nname = "other"\n'})
    chatty = ("--jsbench-variants=chatty", f"--jsbench-resume={RUNS}")
    server.looks = 1

    left = run(bench, server, chatty[0], "--jsbench-batch=leave", "-rs")
    result = run(bench, server, *chatty, "--jsbench-batch", "-v")

    left.assert_outcomes(skipped=1)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["jsbench::orders::a[[]chatty] PASSED*"])
    assert [line["variant"] for line in records(runs(bench)[-1]).values()] == ["chatty"]
    assert (len(server.batches), server.live) == (1, [])
