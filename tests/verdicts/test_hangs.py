from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_jsbench.verdicts import FailureType, Judge, JudgePolicy, SecondOpinion, Verdict
from tests.support.stand_in_judge import StandInCalls, troubled

NODE = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"c": {"$ref": "#/$defs/n"}}}}}


def judged_in_time(judge: Judge, schema: Any, text: str) -> Verdict:
    start = time.perf_counter()
    verdict = judge.judge(schema, text)
    # limits for the verdict, its violations and the second opinion, and the start of a new child
    assert time.perf_counter() - start < 5
    return verdict


@pytest.fixture(scope="module")
def hasty_judge() -> Iterator[Judge]:
    """Return a judge that gives each step of a verdict half a second, and whose validators can misbehave."""
    with contextlib.closing(StandInCalls()) as calls:
        judge = Judge(JudgePolicy(timeout=0.5), calls=calls)
        judge.inspect(True)
        yield judge


@pytest.mark.parametrize("valid", [True, False])
def test_verdict_is_given_when_the_second_opinion_hangs(hasty_judge: Judge, valid: bool) -> None:
    verdict = judged_in_time(hasty_judge, troubled("second opinion", type="integer"), "1" if valid else '"x"')
    assert (verdict.valid, verdict.second_opinion) == (valid, SecondOpinion.UNDECIDED)


def test_verdict_of_endless_references_is_given_without_a_second_opinion(hasty_judge: Judge) -> None:
    # jsonschema raises RecursionError
    verdict = judged_in_time(hasty_judge, {"items": {"allOf": [{"$ref": "#/items"}]}}, "[1]")
    assert (verdict.valid, verdict.second_opinion) == (True, SecondOpinion.UNDECIDED)


def test_first_violation_is_kept_when_listing_all_hangs(hasty_judge: Judge) -> None:
    schema = troubled("all violations", items={"type": "string"})
    verdict = judged_in_time(hasty_judge, schema, "[1, 2, 3]")
    assert verdict.failure_type is FailureType.SCHEMA_VIOLATION
    assert len(verdict.violations) == 1
    assert len(verdict.message) < 400


def test_bare_verdict_is_kept_when_the_first_violation_hangs(hasty_judge: Judge) -> None:
    verdict = judged_in_time(hasty_judge, troubled("first violation", type="string"), "1")
    assert verdict.failure_type is FailureType.SCHEMA_VIOLATION
    assert (verdict.violations, verdict.message) == ((), "the instance does not conform to the schema")


def test_validator_that_hangs_leaves_the_answer_unjudged(hasty_judge: Judge) -> None:
    verdict = judged_in_time(hasty_judge, troubled("validate"), "1")
    assert (verdict.failure_type, verdict.reason, verdict.valid) == (FailureType.UNJUDGED, "timeout", None)
    assert hasty_judge.judge(True, "1").passed


def test_schema_that_hangs_when_compiled_is_found_before_any_call(hasty_judge: Judge) -> None:
    problem = hasty_judge.inspect(troubled("compile"))
    assert problem is not None
    assert (problem.failure_type, problem.reason) == (FailureType.UNJUDGED, "timeout")
    assert hasty_judge.judge(True, "1").passed


def test_the_deepest_answer_that_is_read_is_judged(judge: Judge) -> None:
    deepest = '{"c":' * 127 + "{}" + "}" * 127
    verdict = judged_in_time(judge, NODE, deepest)
    assert (verdict.passed, verdict.second_opinion) == (True, SecondOpinion.AGREES)


def tree(depth: int) -> dict[str, Any]:
    return {"a": tree(depth - 1), "b": [tree(depth - 1)]} if depth else {"c": 1}


def test_extra_fields_are_found_in_a_recursive_tree_of_2000_nodes(judge: Judge) -> None:
    named = {"properties": {key: {"$ref": "#/$defs/n"} for key in "abc"}}
    alternatives = [named, {"items": {"$ref": "#/$defs/n"}, "type": "array"}, {"type": "integer"}]
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": alternatives}}}
    verdict = judged_in_time(judge, schema, json.dumps({**tree(10), "d": 1}))
    assert (verdict.failure_type, verdict.extra_fields) == (FailureType.HALLUCINATION, ("$.d",))


def test_fifty_thousand_invented_fields_are_counted_and_not_all_listed(judge: Judge) -> None:
    text = json.dumps({f"k{i}": i for i in range(50_000)})
    verdict = judged_in_time(judge, {"properties": {"a": {}}}, text)
    assert verdict.failure_type is FailureType.HALLUCINATION
    assert len(verdict.extra_fields) == 100
    assert verdict.message.endswith("and 49995 more")


def test_jsonschema_alone_is_stopped_if_it_hangs() -> None:
    with contextlib.closing(StandInCalls()) as calls:
        judge = Judge(JudgePolicy(timeout=0.5, validator="jsonschema"), calls=calls)
        judge.inspect(True)
        verdict = judged_in_time(judge, troubled("validate"), "1")
        assert (verdict.failure_type, verdict.reason) == (FailureType.UNJUDGED, "timeout")
        assert judge.judge({"pattern": "^a"}, '"abc"').passed
