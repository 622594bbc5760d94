from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import BatchError, RecordError, ResumeError
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    EngineInfo,
    Failed,
    FaultKind,
    Request,
    ResponseFormat,
    Usage,
)
from pytest_jsbench.engines.base import BatchLimits, BatchState, Result
from pytest_jsbench.records.journal import BATCHES
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run.batch_answers import BatchAnswers, BatchedEngine, name_of
from pytest_jsbench.run.batch_file import BatchFile, is_unfinished, read_parts, take_over
from pytest_jsbench.run.batches import Polling, Submission
from pytest_jsbench.run.limits import Refused
from pytest_jsbench.testing import request
from tests.support import examples
from tests.support.examples import replace

EXPIRED = Failed(kind=FaultKind.TIMEOUT, message="the batch expired before this request was made")
ENGINE = EngineInfo(engine="fake", model="m", response_format=ResponseFormat.TEXT, streaming=False)


@dataclass(slots=True, kw_only=True)
class FakeBatches:
    """A provider in memory; each batch ends at the second query."""

    limits: BatchLimits = field(default_factory=lambda: BatchLimits(requests=100, size=10_000_000))
    made: dict[str, list[str]] = field(default_factory=dict)
    looks: dict[str, int] = field(default_factory=dict)
    #: Names that are never answered.
    lost: set[str] = field(default_factory=set)
    #: Raised by the next queries, or by the next creation.
    faults: list[CallError] = field(default_factory=list)
    fault_of_making: CallError | None = None
    answered: dict[str, list[str]] = field(default_factory=dict)

    def line(self, name: str, request: Request) -> bytes:
        return json.dumps({"name": name, "asked": request.key.id}).encode()

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        return lambda: self._make([json.loads(line)["name"] for line in lines])

    def _make(self, names: list[str]) -> str:
        if self.fault_of_making is not None:
            raise self.fault_of_making
        self.made[batch := f"b{len(self.made)}"] = names
        self.answered[batch] = [name for name in names if name not in self.lost]
        return batch

    def state(self, batch: str) -> BatchState:
        if self.faults:
            raise self.faults.pop(0)
        self.looks[batch] = self.looks.get(batch, 0) + 1
        ended, total = self.looks[batch] > 1, len(self.made[batch])
        return BatchState(
            ended=ended, answered=total * ended, failed=0, total=total, unanswered=EXPIRED if ended else None
        )

    def results(self, batch: str) -> Iterator[Result]:
        for name in reversed(self.answered[batch]):
            yield name, replace(examples.batched(batch), usage=Usage(input_tokens=10, output_tokens=10))

    def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class Session:
    """Consecutive runs in the same directory."""

    folder: Path
    batches: FakeBatches = field(default_factory=FakeBatches)
    slept: list[float] = field(default_factory=list)
    handed_in: list[str | None] = field(default_factory=list)
    number: Iterator[int] = field(default_factory=itertools.count)
    engine: BatchedEngine = field(init=False)

    def handing(self, **options: Any) -> Submission:
        path = self.folder / f"answers{next(self.number)}.jsonl"
        self.engine = BatchedEngine(path, ENGINE)
        metadata = examples.metadata()
        return Submission(
            batches=self.batches,
            file=BatchFile(self.folder / "batch.json", metadata, read_parts(self.folder, metadata)),
            answers=BatchAnswers(path),
            polling=Polling(first=1, growth=2, longest=3, patience=2),
            sleep=self.slept.append,
            handed_in=lambda part: self.handed_in.append(part.id),
            **options,
        )

    def run(self, *ids: str, leave: bool = False, **options: Any) -> Submission:
        handing = self.handing(**options)
        with handing.answers:
            handing.hand_in(asking(name) for name in ids)
            handing.wait(leave=leave)
        return handing

    def answer(self, name: str) -> Any:
        try:
            return self.engine.generate(asking(name))
        except (CallError, Refused) as error:
            return error


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(folder=tmp_path)


def asking(name: str, **changes: Any) -> Request:
    return replace(request(), key=CaseKey(task="t", id=name), **changes)


def sizes(session: Session) -> list[int]:
    return [len(names) for names in session.batches.made.values()]


def test_a_requests_name_is_its_attempts_and_its_questions() -> None:
    params = request().params
    others = [
        asking("b"),
        asking("a", repeat=1),
        asking("a", schema={}),
        asking("a", params=structs.replace(params, temperature=0.5)),
        asking("a", params=structs.replace(params, seed=1)),
        asking("a", prompt=request(prompt="else").prompt),
    ]

    names = {name_of(one) for one in [asking("a"), *others]}

    assert len(names) == 7
    assert name_of(asking("a", params=structs.replace(params, timeout=1.0))) == name_of(asking("a"))
    assert all(len(name) <= 64 and name.replace("-", "").isalnum() for name in names)


def test_what_does_not_fit_into_one_batch_is_several(session: Session) -> None:
    session.batches.limits = BatchLimits(requests=2, size=10_000)

    session.run("a", "b", "c", "d", "e")

    assert sizes(session) == [2, 2, 1]
    assert session.handed_in == ["b0", "b1", "b2"]
    assert all(isinstance(session.answer(name), Completion) for name in "abcde")


def test_neither_lines_nor_bytes_pass_the_limit(session: Session) -> None:
    line = len(session.batches.line(name_of(asking("a")), asking("a"))) + 1
    session.batches.limits = BatchLimits(requests=100, size=2 * line)

    session.run("a", "b", "c")

    assert sizes(session) == [2, 1]


def test_pauses_grow_and_what_was_left_unanswered_is_said(session: Session) -> None:
    session.batches.lost = {name_of(asking("b"))}
    seen: list[BatchState] = []
    handing = session.handing()
    with handing.answers:
        handing.hand_in([asking("a"), asking("b")])
        session.batches.faults = [CallError(FaultKind.CONNECTION, "gone")] * 2
        handing.wait(seen.append)

    assert session.slept == [1, 2, 3]
    assert seen[-1] == BatchState(ended=False, answered=0, failed=0, total=2)
    assert isinstance(session.answer("a"), Completion)
    broken = session.answer("b")
    assert (broken.kind, broken.message) == (FaultKind.TIMEOUT, EXPIRED.message)


@pytest.mark.parametrize(
    ("faults", "slept"),
    [([CallError(FaultKind.SERVER, "down")] * 3, [1, 2]), ([CallError(FaultKind.AUTH, "no key")], [])],
)
def test_a_batch_that_cannot_be_looked_at_stays(session: Session, faults: list[CallError], slept: list[float]) -> None:
    handing = session.handing()
    with handing.answers:
        handing.hand_in([asking("a")])
        session.batches.faults = list(faults)
        with pytest.raises(BatchError, match=f"batch b0 cannot be queried: {faults[0].message}"):
            handing.wait()

    assert session.slept == slept
    assert [part.id for part in handing.waiting()] == ["b0"]
    session.run("a")
    assert sizes(session) == [1]


def test_left_alone_a_batch_is_looked_at_once(session: Session) -> None:
    session.run("a", leave=True)

    assert (session.answer("a").reason, session.slept) == (MissingReason.BATCH, [])
    session.run("a", leave=True)
    assert isinstance(session.answer("a"), Completion)
    assert sizes(session) == [1]


def test_stopped_session_submits_and_awaits_nothing(session: Session) -> None:
    stopped = threading.Event()
    handing = session.handing(stopped=stopped)
    handing.sleep = lambda _: stopped.set()
    with handing.answers:
        handing.hand_in([asking("a")])
        session.batches.looks["b0"] = -100
        handing.wait()
        handing.hand_in([asking("b")])

    assert sizes(session) == [1]
    assert [part.id for part in handing.waiting()] == ["b0"]
    assert session.answer("a").reason is MissingReason.BATCH


def test_only_failed_requests_of_an_ended_batch_are_submitted_again(session: Session) -> None:
    session.batches.lost = {name_of(asking("b"))}
    session.run("a", "b")
    session.batches.lost = set()

    session.run("a", "b", "c")

    assert list(session.batches.made.values()) == [
        [name_of(asking("a")), name_of(asking("b"))],
        [name_of(asking("b")), name_of(asking("c"))],
    ]
    assert all(isinstance(session.answer(name), Completion) for name in "abc")


def test_batch_without_requests_of_this_run_is_not_awaited(session: Session) -> None:
    session.run("a", leave=True)

    assert session.run("b").waiting() == []
    assert session.batches.looks == {"b0": 1, "b1": 2}
    assert is_unfinished(session.folder)


def test_submission_stays_within_the_cost_limit(session: Session) -> None:
    def price(usage: Usage) -> float | None:
        return None if usage.output_tokens is None else float(usage.output_tokens)

    # Each may cost 12 and costs 10.
    handing = session.run("a", "b", "c", price=price, most=30.0)

    assert sizes(session) == [2]
    assert handing.spent == 20
    refused = session.answer("c")
    assert (refused.reason, refused.message) == (MissingReason.LIMIT, "the call could exceed --jsbench-max-cost=30")
    assert session.run("c", price=price, most=30.0, leave=True).spent == 12


def test_a_batch_that_may_have_been_made_is_not_made_again(session: Session) -> None:
    session.batches.fault_of_making = CallError(FaultKind.TIMEOUT, "no answer")
    with pytest.raises(BatchError, match=r"no answer: .*batch\.json: the run ended while it submitted a batch"):
        session.run("a")

    session.batches.fault_of_making = None
    with pytest.raises(ResumeError, match="if the provider lists this batch"):
        session.run("a")

    path = session.folder / "batch.json"
    path.write_text(path.read_text().replace('"id": null', '"id": "b0"'))
    session.batches.made["b0"] = session.batches.answered["b0"] = [name_of(asking("a"))]
    session.run("a")
    assert isinstance(session.answer("a"), Completion)


def test_the_id_is_on_disk_before_anybody_waits(session: Session) -> None:
    handing = session.handing()
    with handing.answers:
        handing.hand_in([asking("a")])

    (part,) = read_parts(session.folder, examples.metadata())
    assert (part.id, part.requests, part.ended) == ("b0", (name_of(asking("a")),), False)


def test_batches_of_another_engine_are_not_taken_over(session: Session) -> None:
    session.run("a", leave=True)

    with pytest.raises(ResumeError, match=r'the earlier run used model "m", this run "other"'):
        read_parts(session.folder, examples.metadata(model="other"))


def test_a_run_that_calls_does_not_pay_for_what_is_in_a_batch(session: Session) -> None:
    session.run("a", leave=True)
    metadata = examples.metadata()

    with pytest.raises(ResumeError, match=r"batch b0 \(requests: 1\) have not been read; add --jsbench-batch"):
        take_over(session.folder, metadata, batch=False)

    assert take_over(session.folder, metadata, batch=True) == read_parts(session.folder, metadata)
    session.run("a")
    assert take_over(session.folder, metadata, batch=False) == ()


@pytest.mark.parametrize("text", ["", "[]", '{"run": {}, "batches": []}', '{"run": 1, "batches": [{"id": 1}]}'])
def test_invalid_batch_file_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "batch.json").write_text(text)

    with pytest.raises(
        RecordError, match=r"batch.json(: not JSON| cannot be read: .*; expected a file written by --jsbench-batch)"
    ):
        read_parts(tmp_path, examples.metadata())
    assert is_unfinished(tmp_path)


@pytest.mark.parametrize("place", ["id", "handed_in_at"])
@pytest.mark.parametrize("text", ["::stop-commands::x", "a\x1b[2J", "a\u202e", "a\n::error::b"])
def test_a_batch_whose_name_cannot_be_shown_is_refused_in_one_line(tmp_path: Path, place: str, text: str) -> None:
    metadata = examples.metadata()
    part = {"id": "batch_1", "handed_in_at": "2026-11-21T10:00:00+00:00", "requests": ["a"], "ended": False}

    (tmp_path / BATCHES).write_text(json.dumps({"run": metadata.to_dict(), "batches": [part]}))
    assert [one.id for one in read_parts(tmp_path, metadata)] == ["batch_1"]

    (tmp_path / BATCHES).write_text(json.dumps({"run": metadata.to_dict(), "batches": [{**part, place: text}]}))
    with pytest.raises(RecordError, match=f"{place} is '.*', which is not safe to print") as caught:
        read_parts(tmp_path, metadata)
    assert len(str(caught.value).splitlines()) == 1
