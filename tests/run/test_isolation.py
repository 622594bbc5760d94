"""Tests of the layer that finds the request that breaks a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.call_lock import CallLock
from pytest_jsbench.core.cases import CaseKey, Prompt
from pytest_jsbench.core.generations import CallError, Completion, Failed, FaultKind, GenerationParams, Request
from pytest_jsbench.core.messages import Message
from pytest_jsbench.library.evaluation import evaluate
from pytest_jsbench.run.call_layers import Limits, Tries
from pytest_jsbench.run.isolation import Isolation
from pytest_jsbench.run.limits import Admission, LimitsFile
from pytest_jsbench.run.plan import RateLimits
from tests.support import examples
from tests.support.bench import Bench
from tests.support.clock import Clock
from tests.support.examples import replace
from tests.support.supervised_server import DEADLY, supervised_server

CLOSED = CallError(FaultKind.CONNECTION, "the server closed the connection", closed=True)
REQUEST = Request(
    key=CaseKey(task="t", id="c"),
    repeat=0,
    prompt=Prompt(messages=(Message(role="user", content="Secret."),)),
    schema={"properties": {"secret": {}}},
    params=GenerationParams(max_tokens=500),
)


class Calls:
    """A call that raises these errors first, and then returns an answer."""

    def __init__(self, *errors: CallError) -> None:
        self._errors = list(errors)
        self.requests: list[Request] = []

    def __call__(self, request: Request, _: Tries) -> Completion:
        self.requests.append(request)
        if self._errors:
            raise self._errors.pop(0)
        return examples.completion()


@pytest.fixture
def isolate(tmp_path: Path) -> Callable[..., Isolation]:
    lock = CallLock(tmp_path / "calls.db")
    lock.create()

    def make(check: Calls, *, patience: float = 5.0, sleeps: list[float] | None = None) -> Isolation:
        pauses: list[float] = [] if sleeps is None else sleeps
        return Isolation(lock=lock, check=check, patience=patience, sleep=pauses.append)

    return make


def test_interrupted_request_is_repeated_alone_and_answered(isolate: Callable[..., Isolation]) -> None:
    check, below, tries = Calls(), Calls(CLOSED), Tries()

    answer = isolate(check).call(below, REQUEST, tries)

    assert answer == examples.completion()
    assert (tries.retries, tries.counted) == (1, 1)
    (harmless,) = check.requests
    assert "secret" not in f"{harmless.schema}{harmless.prompt}".lower()


def test_repeated_try_that_the_limits_do_not_count_is_uncounted_once(
    isolate: Callable[..., Isolation], tmp_path: Path
) -> None:
    clock = Clock()
    shared = LimitsFile(tmp_path / "limits.db", RateLimits(patience=60.0), clock=clock.read)
    with closing(Admission(shared, clock=clock.read, wait=clock.wait)) as admission:
        limits = Limits(admission)
        refused = CallError(FaultKind.CONNECTION, "connection refused")
        down, before = Calls(*[refused] * 20), Tries()
        while not before.wait_together:
            with pytest.raises(CallError):
                limits.call(down, REQUEST, before)
        tries = Tries()

        isolate(Calls()).call(partial(limits.call, Calls(refused)), REQUEST, tries)

    assert (tries.retries, tries.uncounted, tries.counted) == (1, 1, 1)


def test_request_that_breaks_the_server_twice_is_the_cause(isolate: Callable[..., Isolation]) -> None:
    below = Calls(CLOSED, CLOSED)

    with pytest.raises(CallError, match="broke the server as the only request in flight, just after") as found:
        isolate(Calls()).call(below, REQUEST, Tries())

    assert (found.value.kind, found.value.broke_server) == (FaultKind.CRASH, True)
    assert len(below.requests) == 2


def test_server_is_awaited_before_the_request_is_repeated(isolate: Callable[..., Isolation]) -> None:
    refused = CallError(FaultKind.CONNECTION, "connection refused")
    gone = CallError(FaultKind.SERVER, "bad gateway", status=502)
    rejected = CallError(FaultKind.BAD_REQUEST, "max_tokens is too small", status=400)
    sleeps: list[float] = []

    isolate(Calls(refused, gone, rejected), sleeps=sleeps).call(Calls(gone), REQUEST, Tries())

    assert sleeps == [1.0, 1.0]


def test_server_that_stays_away_is_no_fault_of_the_request(isolate: Callable[..., Isolation]) -> None:
    refused = [CallError(FaultKind.CONNECTION, "connection refused") for _ in range(9)]
    below = Calls(CLOSED)

    with pytest.raises(CallError) as found:
        isolate(Calls(*refused), patience=3.0).call(below, REQUEST, Tries())

    assert found.value is CLOSED
    assert len(below.requests) == 1


@pytest.mark.parametrize(
    "error",
    [
        CallError(FaultKind.SERVER, "internal error", status=500),
        CallError(FaultKind.TIMEOUT, "no answer in time"),
        CallError(FaultKind.RATE_LIMITED, "too many requests", status=429),
    ],
)
def test_other_faults_are_raised_at_once(isolate: Callable[..., Isolation], error: CallError) -> None:
    check = Calls()

    with pytest.raises(CallError) as found:
        isolate(check).call(Calls(error), REQUEST, Tries())

    assert found.value is error
    assert check.requests == []


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Write 24 schemas, with one that kills the server, and return their file."""
    rows: list[dict[str, Any]] = [{"id": f"s{number}", "schema": {"type": "object"}} for number in range(24)]
    rows[9]["schema"] = {"type": "object", DEADLY: True}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_deadly_schema_is_found_among_16_calls_in_flight(source: str, tmp_path: Path) -> None:
    with supervised_server(in_flight=16) as server:
        run = evaluate(
            "openai",
            source,
            model="m",
            base_url=server.address,
            concurrency=16,
            retries=0,
            isolate_crashes=True,
            output=tmp_path / "runs",
        )

    assert [str(outcome.key) for outcome in run.outcomes if outcome.failed] == ["rows::s9"]
    assert run.broke_server == ("rows::s9",)
    assert server.deaths == 2
    assert "the server was broken by rows::s9, with no other call in flight" in str(run)
    assert run.folder is not None
    written = json.loads((run.folder / "run.json").read_text("utf-8"))
    assert written["run"]["broke_server"] == ["rows::s9"]


def test_summary_and_junit_file_name_the_deadly_case(source: str, bench: Bench) -> None:
    with supervised_server(in_flight=16) as server:
        result = bench.run_only(
            *("--jsbench-engine=openai", "--jsbench-model=m", f"--jsbench-base-url={server.address}"),
            *(f"--jsbench-dataset={source}", "--jsbench-concurrency=16", "--jsbench-isolate-crashes"),
            "--junitxml=junit.xml",
        )

    result.assert_outcomes(passed=23, failed=1)
    result.stdout.fnmatch_lines(["crashes * the server was broken by rows::s9, with no other call in flight"])
    junit = (bench.path / "junit.xml").read_text("utf-8")
    assert junit.count('name="jsbench.broke_server" value="True"') == 1


def test_attempt_that_broke_the_server_is_named_as_in_its_node_id() -> None:
    broke = Failed(kind=FaultKind.CRASH, message="it broke", broke_server=True)
    record = replace(examples.record("a", generation=broke, verdict=examples.BROKEN), repeat=1)
    run = examples.run(record)  # such as a run of one attempt that was pooled with another

    assert run.broke_server == (run.name_of(record.attempt),) == ("simple::a[2]",)


def test_without_the_option_nothing_is_repeated(source: str, tmp_path: Path) -> None:
    with supervised_server(in_flight=16) as server:
        run = evaluate("openai", source, model="m", base_url=server.address, concurrency=16, retries=0)

    assert sum(outcome.failed for outcome in run.outcomes) > 1
    assert run.broke_server == ()
