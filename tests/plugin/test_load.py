"""Loads of whole runs: scheduled starts, plain calls and service levels, and the faults that they find in a server."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.bench import NUMBER, Bench, both_ways
from tests.support.loaded_server import Loaded
from tests.support.openai_wire import SECRET
from tests.support.provider import Provider


@pytest.fixture
def four(bench: Bench) -> Bench:
    for name in "abcd":
        bench.case(name, schema={**NUMBER, "title": name})
    return bench


def metrics_of(bench: Bench, folder: str = "out") -> dict[str, Any]:
    metrics: dict[str, Any] = bench.run_json(folder)["metrics"]
    return metrics


def run_at_server(bench: Bench, server: Loaded, *args: str) -> pytest.RunResult:
    pytest.importorskip("urllib3", reason="needs urllib3")
    with Provider() as provider:
        provider.choose = server
        return bench.run_only(
            "--jsbench-engine=openai",
            "--jsbench-model=m",
            f"--jsbench-base-url={provider.url}/v1",
            "--jsbench-dataset=schemas",
            "--jsbench-concurrency=1",
            "--jsbench-output=out",
            *args,
        )


def test_faults_of_a_server_under_load_are_found_and_named(four: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    server = Loaded(compiling=0.3, corrupted='{"n": 1}')

    result = run_at_server(
        four, server, "--jsbench-plain-share=0.5", "--jsbench-repeats=2", "--jsbench-slo=ttft<=0.3,tgt<=60"
    )

    assert result.ret == pytest.ExitCode.OK  # plain calls are no cases
    result.stdout.fnmatch_lines(
        [
            "jsbench: dataset schemas, 4 cases, 1 in flight, 50% of * without a schema",
            "in time    4/8 = 0.500 answers within ttft<=0.3,tgt<=60",
            "goodput    * answers per second passed in time; 4/8 = 0.500 attempts*",
            "cold       TTFT 0.* s of the first calls of 4 schemas, 0.* s of 4 later",
            "plain      1/8 = 0.125 calls without a schema were answered without a problem;*",
            "*json 7*",
            "*json: plain call next to orders::a?2?",
            "*load.plain in records.jsonl*",
        ]
    )
    metrics = metrics_of(four)
    assert metrics["ttft_cold_p50"] >= 0.3 > metrics["ttft_warm_p50"]
    assert metrics["plain_problems"]["json"] == 7
    assert (metrics["planned"], metrics["pass_rate"]) == (8, 1.0)


def test_sound_server_has_no_plain_problems(four: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    result = run_at_server(four, Loaded(), "--jsbench-plain-share=0.5", "--jsbench-gate=plain_ok>=1")

    assert result.ret == pytest.ExitCode.OK
    metrics = metrics_of(four)
    assert (metrics["plain_calls"], metrics["plain_ok"], metrics["plain_repeated"]) == (4, 1.0, 1.0)
    result.stdout.no_fnmatch_line("*: plain call next to *")


@both_ways
def test_calls_begin_at_the_rate_over_all_processes(four: Bench) -> None:
    result = four.run("--jsbench-rate=20/s", "--jsbench-output=out", "-v")

    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "jsbench: dataset schemas, 4 cases, 256 in flight at most, calls begin at 20/s",
            "load       4 calls at 20/s,*",
        ]
    )
    records = four.records()
    # the schedule, without the delays of this machine
    due = sorted(record["load"]["began"] - record["load"]["late_s"] for record in records)
    assert [later - due[0] for later in due] == pytest.approx([0.0, 0.05, 0.1, 0.15], abs=0.02)
    assert all(record["queue_s"] == record["load"]["late_s"] for record in records)
    assert metrics_of(four)["start_delay_count"] == 4


def test_resumed_run_schedules_only_the_missing_calls(four: Bench) -> None:
    four.answers["d"] = {"fault": "bad_request"}
    four.run("--jsbench-rate=50/s", "--jsbench-output=out")
    four.answers["d"] = '{"n": 1}'
    # the start of a run is known to the second, so the earlier run must not be in the same second
    records = four.run_in() / "records.jsonl"
    records.write_text(re.sub(r'"(began|ended)": ?[\d.]+', r'"\1":1.0', records.read_text()))

    result = four.run("--jsbench-rate=0.001/s", "--jsbench-output=again", "--jsbench-resume=out")

    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["load       1 call at 0.001/s, achieved n/a*"])


def test_redacted_run_has_no_plain_answers(four: Bench) -> None:
    four.answers["*"] = "words of another request"

    four.run("--jsbench-plain-share=0.5", "--jsbench-output=out", "--jsbench-redact")

    records = four.records()
    assert [len(record["load"]["plain"]) for record in records] == [1] * 4
    assert "another request" not in json.dumps(records)


def test_run_without_a_load_has_no_trace_of_it(four: Bench) -> None:
    four.run("--jsbench-output=out")

    header, *records = four.lines()
    assert not {"rate", "plain_share", "slo"} & header["run"].keys()
    assert all("load" not in record for record in records)
    assert not [name for name in metrics_of(four) if name.startswith(("plain_", "goodput", "ttft_cold"))]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--jsbench-rate=fast",), "*--jsbench-rate: expected a number of calls per second above 0*found 'fast'"),
        (("--jsbench-plain-share=1",), "*--jsbench-plain-share: expected a number above 0 and at most 0.9, found '1'"),
        (("--jsbench-slo=speed<=1",), "*--jsbench-slo: expected limits on ttft and tgt*found 'speed<=1'"),
        (("--jsbench-rate=1/s", "--jsbench-rpm=60"), "*--jsbench-rate sets when calls begin*remove --jsbench-rpm"),
        (("--jsbench-rate=1/s", "--jsbench-batch"), "*--jsbench-batch submits all calls at once*remove --jsbench-rate"),
        (
            ("--jsbench-instances=builtin", "--jsbench-slo=tgt<=1"),
            "*--jsbench-instances calls no model*remove --jsbench-slo",
        ),
    ],
)
def test_invalid_loads_are_named_in_one_line(bench: Bench, options: tuple[str, ...], message: str) -> None:
    result = bench.run_only("--jsbench-engine=scripted", *options)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


@pytest.mark.parametrize("engine", [False, True], ids=["recordings", "records"])
def test_replay_has_a_service_level_and_no_rate(four: Bench, *, engine: bool) -> None:
    four.run("--jsbench-record=tape", "--jsbench-output=out")
    replay = ["--jsbench-engine=replay", "--jsbench-engine-option=records=out"] if engine else ["--jsbench-replay=tape"]
    load = ["--jsbench-rate=0.001/s", "--jsbench-plain-share=0.5", "--jsbench-slo=tgt<=60"]

    result = four.run_only(*replay, "--jsbench-dataset=schemas", "--jsbench-output=again", *load)

    result.assert_outcomes(passed=4)
    metrics = metrics_of(four, "again")
    assert (metrics["in_time"], metrics["goodput"]) == (1.0, None)
    assert "plain_calls" not in metrics


def test_dry_run_counts_plain_calls_and_the_time_of_the_schedule(four: Bench) -> None:
    result = four.run("--jsbench-rate=2/s", "--jsbench-plain-share=0.5", "--jsbench-dry-run")

    result.stdout.fnmatch_lines(["calls      4 calls to scripted scripted, plus 4 without a schema, plus retries"])
    result.stdout.fnmatch_lines(["time       *at least 4 s at 2/s*"])


def test_small_share_of_plain_calls_is_shown_exactly(four: Bench) -> None:
    result = four.run("--jsbench-plain-share=0.004")

    result.stdout.fnmatch_lines(["jsbench: dataset schemas, 4 cases, * in flight, 0.4% of * without a schema"])
