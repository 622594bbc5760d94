from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_jsbench.core.arrivals import ArrivalRate
from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    EngineInfo,
    FaultKind,
    FinishReason,
    GenerationParams,
    Request,
    ResponseFormat,
)
from pytest_jsbench.engines.base import CachedAnswer, EngineConfig
from pytest_jsbench.engines.registry import FunctionFactory
from pytest_jsbench.prompts import PROMPTS
from pytest_jsbench.records.call_load import PlainProblem, find_problem
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run.attempts import PreparedRequest, Runner
from pytest_jsbench.run.call_layers import Call, ScheduledStarts, Tries
from pytest_jsbench.run.limits import Admission, LimitsFile, Refused
from pytest_jsbench.run.plain_calls import PLAIN, PlainCalls, count_plain, plain_config
from pytest_jsbench.run.plan import RateLimits
from pytest_jsbench.run.variants import Variant
from pytest_jsbench.verdicts import Judge
from tests.support import examples
from tests.support.clock import Clock
from tests.support.examples import replace

LINE = "apple river 1234567"
CASE = Case(key=CaseKey(task="t", id="c"), schema={"type": "object"})


def obedient(request: Request) -> Completion:
    """Repeat the line of a plain call, and answer any other call with an object."""
    asked = request.prompt.messages[-1].content
    return examples.completion(asked.rpartition("\n")[2] if request.key.task == PLAIN else "{}")


@dataclass(kw_only=True)
class Server:
    """An engine that notes its requests."""

    answer: Callable[[Request], Completion | Declined] = obedient
    requests: list[Request] = field(default_factory=list)

    info = EngineInfo(engine="server", model="m", response_format=ResponseFormat.TEXT, streaming=True)

    def generate(self, request: Request) -> Completion | Declined:
        self.requests.append(request)
        return self.answer(request)

    def close(self) -> None:
        pass

    @property
    def tasks(self) -> list[str]:
        return [request.key.task for request in self.requests]


class Remembering(Server):
    def remembered(self, request: Request) -> CachedAnswer | None:
        return CachedAnswer(answer=examples.completion(), model="m")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


def runner(engine: Server, judge: Judge, *, share: float, admission: Admission | None = None) -> Runner:
    """Return a runner with this share of plain calls."""
    alone = Runner(
        engine=engine,
        judge=judge,
        template=PROMPTS["schema"].render,
        params=GenerationParams(max_tokens=10),
        retries=0,
        sleep=lambda _: None,
        admission=admission,
        measures_load=True,
    )
    return replace(alone, load_layers=(PlainCalls(alone, share, numbers=random.Random(0)),))


@pytest.mark.parametrize(("share", "plain"), [(0.3, 3), (0.5, 7), (0.9, 63), (0.1, 0), (None, 0)])
def test_plain_calls_have_their_share_of_all_calls(share: float | None, plain: int) -> None:
    assert count_plain(7, share) == plain


@pytest.mark.parametrize("share", [0.1, 0.25, 0.3, 0.5, 0.75, 0.9])
def test_share_is_kept_over_many_calls(share: float) -> None:
    plain = count_plain(9000, share)

    assert plain / (9000 + plain) == pytest.approx(share, abs=1e-4)


def test_plain_calls_have_no_schema_and_are_in_the_record(judge: Judge) -> None:
    server = Server()
    records = [runner(server, judge, share=0.5).attempt(CASE) for _ in range(2)]

    assert server.tasks == ["plain", "t"] * 2
    assert [request.schema for request in server.requests[::2]] == [True, True]
    for record in records:
        assert record.verdict.passed
        assert record.load is not None
        (plain,) = record.load.plain
        assert (plain.problem, plain.repeated) == (None, True)
        assert re.fullmatch(r"(\w+ ){12}\d{7}", plain.line)
        assert plain.began <= record.load.began <= record.load.ended


def test_a_wrong_plain_answer_does_not_change_the_verdict(judge: Judge) -> None:
    def answer(request: Request) -> Completion:
        if request.key.task == PLAIN:
            raise CallError(FaultKind.SERVER, "a fault")
        return examples.completion("{}")

    record = runner(Server(answer=answer), judge, share=0.5).attempt(CASE)

    assert record.verdict.passed
    assert record.load is not None
    assert [plain.problem for plain in record.load.plain] == [PlainProblem.FAILED]


def test_recorded_answers_and_second_tries_have_no_plain_calls(judge: Judge) -> None:
    recorded = Remembering()
    assert runner(recorded, judge, share=0.5).attempt(CASE).load is None
    assert recorded.requests == []

    server = Server()
    trying = runner(server, judge, share=0.5)
    prepared = trying.prepare(CASE, 0)
    assert isinstance(prepared, PreparedRequest)
    assert prepared.prompt is not None
    trying.send_more(prepared, prepared.prompt)
    assert len(server.requests) == 1


def test_a_refused_plain_call_does_not_refuse_the_case(judge: Judge, tmp_path: Path) -> None:
    server = Server()
    trying = runner(server, judge, share=0.5)
    spent = Admission(LimitsFile(tmp_path / "limits.db", RateLimits()))
    spent.stop(Refused(MissingReason.LIMIT, "spent"))
    trying = replace(trying, load_layers=(PlainCalls(replace(trying, admission=spent, load_layers=()), 0.5),))

    assert trying.attempt(CASE).verdict.passed
    assert server.tasks == ["t"]


def test_call_of_a_case_does_not_wait_for_plain_answers_at_a_rate(judge: Judge, tmp_path: Path) -> None:
    called = threading.Event()

    def answer(request: Request) -> Completion:
        if request.key.task != PLAIN:
            called.set()
        assert called.wait(timeout=60)
        return obedient(request)

    clock = Clock()
    shared = LimitsFile(tmp_path / "limits.db", RateLimits(), clock=clock.read)
    with closing(Admission(shared, clock=clock.read, wait=clock.wait)) as admission:
        starts = ScheduledStarts(ArrivalRate.parse("2/s"), admission)
        plain = replace(runner(Server(answer=answer), judge, share=0.5, admission=admission), load_layers=(starts,))
        trying = replace(plain, load_layers=(PlainCalls(plain, 0.5, starts=starts), starts))

        records = [trying.attempt(CASE, planned_at=0.0) for _ in range(3)]

        assert starts.take() == 1003.0  # each call has taken a start, the plain one first
    for record in records:
        assert record.load is not None
        assert record.queue_s == record.load.late_s
        assert [(each.problem, each.late_s is None) for each in record.load.plain] == [(None, False)]


def test_call_of_a_case_ends_before_the_plain_answers_it_waits_for(judge: Judge, tmp_path: Path) -> None:
    ended = threading.Event()
    times = [datetime(2026, 1, 1, tzinfo=UTC)]

    def answer(request: Request) -> Completion:
        if request.key.task == PLAIN:
            assert ended.wait(timeout=60)
            times[0] += timedelta(hours=1)
        return obedient(request)

    class Ends:
        """Layer that notes the end of a call."""

        def call(self, below: Call, request: Request, tries: Tries) -> Completion | Declined:
            generation = below(request, tries)
            ended.set()
            return generation

    clock = Clock()
    shared = LimitsFile(tmp_path / "limits.db", RateLimits(), clock=clock.read)
    with closing(Admission(shared, clock=clock.read, wait=clock.wait)) as admission:
        starts = ScheduledStarts(ArrivalRate.parse("2/s"), admission)
        plain = replace(runner(Server(answer=answer), judge, share=0.5, admission=admission), load_layers=(starts,))
        trying = replace(
            plain, load_layers=(PlainCalls(plain, 0.5, starts=starts), starts, Ends()), now=lambda: times[0]
        )

        record = trying.attempt(CASE)

    assert record.load is not None
    assert len(record.load.plain) == 1
    assert record.load.ended == record.load.began


def test_threads_of_plain_calls_end_if_the_call_of_a_case_is_refused(judge: Judge, tmp_path: Path) -> None:
    left = [1000.0]

    class Ending(ScheduledStarts):
        """Starts of one call, and of no more."""

        def take(self) -> float:
            if not left:
                raise Refused(MissingReason.STOPPED, "the session ended first")
            return left.pop()

    server = Server()
    before = set(threading.enumerate())
    with closing(Admission(LimitsFile(tmp_path / "limits.db", RateLimits()))) as admission:
        starts = Ending(ArrivalRate.parse("2/s"), admission)
        plain = runner(server, judge, share=0.5, admission=admission)
        trying = replace(plain, load_layers=(PlainCalls(replace(plain, load_layers=()), 0.5, starts=starts),))

        with pytest.raises(Refused, match="the session ended first"):
            trying.attempt(CASE)

    assert server.tasks == ["plain"]
    started = set(threading.enumerate()) - before
    for thread in started:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in started)


def test_threads_of_plain_calls_end_if_one_raises(judge: Judge, tmp_path: Path) -> None:
    def answer(request: Request) -> Completion:
        if request.key.task == PLAIN:
            raise KeyboardInterrupt
        return obedient(request)

    before = set(threading.enumerate())
    with closing(Admission(LimitsFile(tmp_path / "limits.db", RateLimits()))) as admission:
        starts = ScheduledStarts(ArrivalRate.parse("1000/s"), admission)
        plain = runner(Server(answer=answer), judge, share=0.5, admission=admission)
        trying = replace(plain, load_layers=(PlainCalls(replace(plain, load_layers=()), 0.5, starts=starts),))

        with pytest.raises(KeyboardInterrupt):
            trying.attempt(CASE)

    started = set(threading.enumerate()) - before
    for thread in started:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in started)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LINE, None),
        ("I cannot do that.", None),
        ("", PlainProblem.EMPTY),
        (" \n", PlainProblem.EMPTY),
        ('{"n": 1}', PlainProblem.JSON),
        ("[1", PlainProblem.JSON),
        ("apple \ufffd\ufffd river", PlainProblem.GARBLED),
        ("apple \x00", PlainProblem.GARBLED),
        ("apple" + "!" * 20, PlainProblem.REPEATING),
        ("-" * 40, None),
        ("apple river 7654321", PlainProblem.MIXED_UP),
        ("apple river 1111111", None),
    ],
)
def test_corruption_is_told_from_a_weak_answer(text: str, problem: PlainProblem | None) -> None:
    assert find_problem(examples.completion(text), LINE, {"7654321"}) is problem


def test_empty_answer_after_long_reasoning_is_truncated() -> None:
    answer = replace(examples.completion(""), reasoning="Let me think", finish_reason=FinishReason.LENGTH)

    assert find_problem(answer, LINE, ()) is PlainProblem.TRUNCATED
    assert find_problem(examples.declined(), LINE, ()) is PlainProblem.DECLINED
    assert find_problem(examples.failed(), LINE, ()) is PlainProblem.FAILED


def test_engine_without_plain_calls_is_rejected() -> None:
    class AlwaysConstrained(FunctionFactory):
        def describe(self, config: EngineConfig) -> EngineInfo:
            return replace(super().describe(config), response_format=ResponseFormat.JSON_SCHEMA)

    variant = Variant(
        factory=AlwaysConstrained(lambda _: "{}"),
        engine=EngineConfig(name="own"),
        user_settings={},
        template=PROMPTS["schema"],
        params=GenerationParams(max_tokens=1),
        concurrency=1,
    )

    expected = "--jsbench-plain-share: engine 'own' cannot send calls without a schema; remove this option"
    with pytest.raises(EngineError, match=expected):
        plain_config(variant)
    assert plain_config(replace(variant, factory=FunctionFactory(lambda _: "{}"))).response_format == "text"
