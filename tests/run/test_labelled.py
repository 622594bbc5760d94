from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Schema
from pytest_jsbench.core.generations import CallError, Decided, Declined, DeclineReason, Failed, FaultKind
from pytest_jsbench.datasets.base import Instance
from pytest_jsbench.engines.base import Acceptance
from pytest_jsbench.metrics.summary import group_by_keyword, summarize
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import Record
from pytest_jsbench.run.labelled_attempts import AcceptanceRunner
from pytest_jsbench.verdicts import FailureType, Judge
from tests.support import examples

KEY = CaseKey(task="simple", id="number")
CASE = Case(key=KEY, schema={"type": "integer"})
INSTANCES = [Instance(id="v", valid=True, text="1"), Instance(id="i", valid=False, text='"1"')]


@dataclass(kw_only=True)
class Grammar:
    """An acceptor with the given result."""

    answer: Callable[[Any, Sequence[str]], Acceptance | Declined]
    asked: int = 0

    def accepts(self, schema: Schema, texts: Sequence[str]) -> Acceptance | Declined:
        self.asked += 1
        return self.answer(schema, texts)

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


def always(*accepted: bool) -> Grammar:
    return Grammar(answer=lambda _schema, _texts: Acceptance(accepted=accepted, grammar_compilation=0.25))


def runner(acceptor: Grammar, judge: Judge, instances: Sequence[Instance] = INSTANCES) -> AcceptanceRunner:
    return AcceptanceRunner(acceptor=acceptor, judge=judge, instances=lambda _: instances)


def test_each_decision_is_compared_with_its_label(judge: Judge) -> None:
    record = runner(always(True, True), judge).attempt(CASE, planned_at=0.0)
    assert isinstance(record.generation, Decided)
    assert [(one.id, one.valid, one.accepted) for one in record.generation.decisions] == [
        ("v", True, True),
        ("i", False, True),
    ]
    assert record.generation.timing.grammar_compilation == 0.25
    assert record.verdict.failure_type is FailureType.WRONG_DECISION
    assert (record.key, record.schema, record.prompt) == (KEY, CASE.schema, None)
    assert record.queue_s is not None


def test_accepted_invalid_answer_names_the_violated_keywords(judge: Judge) -> None:
    case = Case(key=KEY, schema={"type": "object", "required": ["a"], "properties": {"b": {"maximum": 3}}})
    invalid = Instance(id="i", valid=False, text='{"b": 4}')

    record = runner(always(False, True, True), judge, [INSTANCES[0], invalid]).attempt(case)

    assert isinstance(record.generation, Decided)
    # the last one is the invalid answer with the escaped name of a field
    assert [one.id for one in record.generation.decisions][1:] == ["i", "i/escaped"]
    broken = {"required", "maximum"}
    assert [set(one.keywords) for one in record.generation.decisions] == [set(), broken, broken]
    again = Record.from_dict(json.loads(json.dumps(record.to_dict())))
    assert again.generation == record.generation
    found = group_by_keyword([AttemptFacts.of(again)])
    assert {name: (one.failures, one.wrong_decisions.successes) for name, one in found.items()} == {
        "required": (1, 3),
        "maximum": (1, 3),
        "type": (0, 3),
        "properties": (0, 3),
    }


def test_the_time_of_each_mask_is_in_the_record_and_the_metrics(judge: Judge) -> None:
    masks = (1e-5, 2e-5, 6e-5)
    grammar = Grammar(
        answer=lambda _schema, _texts: Acceptance(
            accepted=(True, False), grammar_compilation=0.25, compile_time=0.2, masks=masks
        )
    )
    record = runner(grammar, judge).attempt(CASE)

    again = Record.from_dict(json.loads(json.dumps(record.to_dict())))
    assert isinstance(again.generation, Decided)
    assert again.generation.timing.masks == masks
    total = summarize(examples.run(again)).total
    assert (total.grammar_compilation.p50, total.compile_time.p50) == (0.25, 0.2)
    spread = total.mask_time
    assert (spread.count, spread.p50, spread.max) == (3, 2e-5, 6e-5)
    assert spread.mean == pytest.approx(3e-5)


def test_a_grammar_that_is_right_about_all_passes(judge: Judge) -> None:
    assert runner(always(True, False), judge).attempt(CASE).verdict.passed


def test_a_grammar_that_cannot_be_made_is_the_engines_word(judge: Judge) -> None:
    declined = Declined(reason=DeclineReason.UNSUPPORTED_SCHEMA, message="no integers")
    record = runner(Grammar(answer=lambda *_: declined), judge).attempt(CASE)
    assert record.generation == declined
    assert record.verdict.failure_type is FailureType.UNSUPPORTED_SCHEMA


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (CallError(FaultKind.HANG, "too long"), FaultKind.HANG, "too long"),
        (ZeroDivisionError("oh"), FaultKind.ENGINE, "ZeroDivisionError: oh"),
    ],
)
def test_what_breaks_is_the_cases_outcome(judge: Judge, error: Exception, kind: FaultKind, message: str) -> None:
    def answer(schema: Any, texts: Sequence[str]) -> Acceptance:
        raise error

    record = runner(Grammar(answer=answer), judge).attempt(CASE)
    assert record.generation == Failed(kind=kind, message=message)


def test_a_grammar_that_changes_the_schema_changes_its_copy(judge: Judge) -> None:
    def answer(schema: Any, texts: Sequence[str]) -> Acceptance:
        schema.clear()
        return Acceptance(accepted=(True, False), grammar_compilation=0.1)

    record = runner(Grammar(answer=answer), judge).attempt(CASE)
    assert record.schema == {"type": "integer"}


@pytest.mark.parametrize(
    "case", [BrokenCase(key=KEY, problem="not JSON"), Case(key=KEY, schema={"type": "intger"})], ids=["row", "schema"]
)
def test_nothing_is_asked_where_the_schema_is_broken(judge: Judge, case: Case | BrokenCase) -> None:
    grammar = always(True, True)
    record = runner(grammar, judge).attempt(case)
    assert record.excluded
    assert grammar.asked == 0


def test_a_broken_case_keeps_its_own_reason(judge: Judge) -> None:
    case = BrokenCase(key=KEY, problem="too many bytes", reason="too_large")

    verdict = runner(always(True, True), judge).attempt(case).verdict

    assert (verdict.reason, verdict.message) == ("too_large", "too many bytes")
