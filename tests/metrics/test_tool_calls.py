"""Figures of the tool calls in answers to cases that offer tools."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs

from pytest_jsbench.core.generations import CalledTool, Completion, FinishReason, GenerationParams
from pytest_jsbench.core.tool_offers import ExpectedCall
from pytest_jsbench.metrics.gates import Gate, check
from pytest_jsbench.metrics.metrics import Metrics
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.records import Record
from pytest_jsbench.verdicts import Verdict
from tests.support import examples


def answer(
    case_id: str,
    called: Sequence[str],
    expected: Sequence[str] | None,
    *,
    conforming: int | None = None,
    choice: str | None = None,
    reasoning: str = "",
    some_call: bool = False,
) -> Record:
    """Return the record of an answer with these calls; all of them conform unless `conforming` is set."""
    calls = tuple(CalledTool(name=name, arguments="{}") for name in called)
    text = "" if calls or reasoning else "Hello."
    generation = Completion(text=text, finish_reason=FinishReason.STOP, timing=None, calls=calls, reasoning=reasoning)
    verdict = Verdict(failure_type=None, valid=True, conforming_calls=len(calls) if conforming is None else conforming)
    record = examples.record(case_id, generation=generation, verdict=verdict)
    expects = None if expected is None else tuple(ExpectedCall(name=name) for name in expected)
    offer = structs.replace(examples.offer("find", "count", "drop", expected=expects), some_call=some_call)
    return structs.replace(record, offer=offer, params=GenerationParams(max_tokens=9, tool_choice=choice))


def metrics(*records: Record) -> Metrics:
    return summarize(examples.run(*records)).total


def test_calls_conform_by_the_schemas_of_their_tools() -> None:
    rate = metrics(answer("a", ["find", "count"], None, conforming=1), answer("b", ["find"], None)).call_pass_rate
    assert (rate.successes, rate.n) == (2, 3)


def test_a_trigger_is_right_if_the_case_expects_a_call() -> None:
    found = metrics(
        answer("a", ["find"], ["find"]),
        answer("b", ["count"], ["find"]),
        answer("c", [], ["find"]),
        answer("d", ["drop"], []),
        answer("e", [], []),
        answer("f", ["find"], None),
        answer("g", ["find"], ["find"], choice="required"),
        answer("h", ["count"], None, some_call=True),
        answer("i", [], None, some_call=True),
    )
    precision, recall, f1 = found.trigger_precision, found.trigger_recall, found.trigger_f1
    assert (precision.successes, precision.n) == (3, 4)
    assert (recall.successes, recall.n) == (3, 5)
    assert (f1.successes, f1.n) == (6, 9)
    assert f1.value == pytest.approx(2 / 3)


def test_each_tool_has_a_precision_and_a_recall() -> None:
    found = metrics(
        answer("a", ["find", "find", "count"], ["find", "count", "count"]),
        answer("b", ["drop"], []),
        answer("c", ["drop"], None),
    )
    assert {name: (rate.successes, rate.n) for name, rate in found.tool_precision.items()} == {
        "count": (1, 1),
        "drop": (0, 1),
        "find": (1, 2),
    }
    assert {name: (rate.successes, rate.n) for name, rate in found.tool_recall.items()} == {
        "count": (1, 2),
        "drop": (0, 0),
        "find": (1, 1),
    }


def test_gate_on_a_tool_counts_failed_calls_as_unknown() -> None:
    failed = examples.record("b", verdict=examples.BROKEN, generation=examples.failed())
    made = answer("a", ["find"], ["find"])

    for name in ("tool_precision", "tool_recall"):
        gate = Gate.parse(f"{name}.find>=1")
        results = [check(gate, summarize(examples.run(*records))) for records in ((made,), (made, failed))]
        assert [(result.met, result.undecided) for result in results] == [(True, False), (False, True)]


def test_confusions_name_what_was_called_instead() -> None:
    found = metrics(
        answer("a", ["drop"], ["find"]),
        answer("b", ["drop"], ["find"]),
        answer("c", ["count"], ["find"]),
        answer("d", [], ["find"]),
        answer("e", ["find", "find"], ["find"]),
    )
    assert found.wrong_calls == {"drop instead of find": 2, "count instead of find": 1}


def test_answers_with_reasoning_only_are_counted() -> None:
    rate = metrics(answer("a", [], [], reasoning="Hm."), answer("b", [], [])).reasoning_only
    assert (rate.successes, rate.n) == (1, 2)


def test_a_run_without_tools_has_no_figures_of_calls() -> None:
    found = metrics(examples.record("a"))
    assert (found.call_pass_rate.value, found.trigger_f1.value, found.reasoning_only.value) == (None, None, None)
    assert (found.tool_precision, found.tool_recall, found.wrong_calls) == ({}, {}, {})
