from __future__ import annotations

import json
import time
from typing import Any

import pytest

from pytest_jsbench.verdicts import FailureType, Judge, JudgePolicy, SecondOpinion, Verdict

#: stands in 51 of the benchmark's schemas
URL_PATTERN = r"^(https?:\/\/)?([\da-z\.-]+)\.([a-z\.]{2,6})([\/\w \.-]*)*\/?$"
URL = "https://www.example.com/images/products/headphones-black.png?size=large"
NODE = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"c": {"$ref": "#/$defs/n"}}}}}


def doubling(keyword: str, times: int, leaf: Any) -> dict[str, Any]:
    steps = {f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(times)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{times}": leaf}}


def judged_in_time(judge: Judge, schema: Any, text: str) -> Verdict:
    start = time.perf_counter()
    verdict = judge.judge(schema, text)
    # at most its time for the verdict, a second for its violations and for the second opinion, and a new child
    assert time.perf_counter() - start < 5
    return verdict


@pytest.mark.parametrize(
    ("schema", "instance", "valid"),
    [
        ({"pattern": URL_PATTERN}, URL, False),
        ({"patternProperties": {URL_PATTERN: {}}, "additionalProperties": {"const": 1}}, {URL: 1}, True),
        ({"propertyNames": {"pattern": URL_PATTERN}}, {URL: 1}, False),
        ({"items": {"allOf": [{"$ref": "#/items"}]}}, [1], True),
        ({"uniqueItems": True}, [{"a": i} for i in range(3_000)], True),
        ({"items": {"anyOf": [{"const": i} for i in range(600)]}}, list(range(600)), True),
    ],
)
def test_what_hangs_only_the_second_opinion_has_a_verdict(
    hasty_judge: Judge, schema: Any, instance: object, valid: bool
) -> None:
    verdict = judged_in_time(hasty_judge, schema, json.dumps(instance))
    assert verdict.valid is valid
    assert verdict.second_opinion is SecondOpinion.UNDECIDED


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (doubling("allOf", 22, {"type": "string"}), "1"),
        ({"items": {"type": "string"}}, json.dumps([1] * 60_000)),
        ({"allOf": [{"minProperties": 2 + i} for i in range(300)]}, json.dumps({"a": "x" * 900_000})),
    ],
    ids=["doubled", "60,000", "quoted 300 times"],
)
def test_a_verdict_stands_when_its_violations_cannot_all_be_listed(hasty_judge: Judge, schema: Any, text: str) -> None:
    verdict = judged_in_time(hasty_judge, schema, text)
    assert verdict.failure_type is FailureType.SCHEMA_VIOLATION
    assert len(verdict.violations) == 1
    assert len(verdict.message) < 400


def test_violations_without_bound_leave_the_bare_verdict(hasty_judge: Judge) -> None:
    verdict = judged_in_time(hasty_judge, doubling("anyOf", 22, False), "1")
    assert verdict.failure_type is FailureType.SCHEMA_VIOLATION
    assert verdict.message


@pytest.mark.parametrize("schema", [{"pattern": r"(x+x+)+(?<=y)\1"}, {"not": {"pattern": r"(x+x+)+(?<=y)\1"}}])
def test_a_pattern_that_backtracks_without_end_decides_nothing(hasty_judge: Judge, schema: Any) -> None:
    verdict = judged_in_time(hasty_judge, schema, json.dumps("x" * 60))
    assert (verdict.failure_type, verdict.reason, verdict.valid) == (FailureType.UNJUDGED, "timeout", None)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?!b)(a|a)*$", r"^([a-z0-9]+[._-]?)*@$", "^((a*)*)*b"])
def test_a_pattern_without_look_around_or_references_takes_linear_time(rs_judge: Judge, pattern: str) -> None:
    verdict = judged_in_time(
        rs_judge, {"pattern": pattern, "patternProperties": {pattern: {}}}, json.dumps("a" * 50_000 + "!")
    )
    assert verdict.keyword == "pattern"


def test_a_hang_in_a_schema_is_found_before_any_call_as_nobodys_fault() -> None:
    # regular expressions for names are compiled when their schema is inspected
    many: dict[str, Any] = {"patternProperties": {f"^(\\w{{1,90}}|{i})$": {} for i in range(5000)}}
    with Judge(JudgePolicy(timeout=0.2, validator="jsonschema-rs")) as judge:
        judge.inspect(True)
        problem = judge.inspect(many)
        assert problem is not None
        assert (problem.failure_type, problem.reason) == (FailureType.UNJUDGED, "timeout")
        assert judge.judge(True, "1").passed


def test_the_deepest_answer_that_is_read_is_judged(judge: Judge) -> None:
    deepest = '{"c":' * 127 + "{}" + "}" * 127
    verdict = judged_in_time(judge, NODE, deepest)
    assert (verdict.passed, verdict.second_opinion) == (True, SecondOpinion.AGREES)


def tree(depth: int) -> dict[str, Any]:
    return {"a": tree(depth - 1), "b": [tree(depth - 1)]} if depth else {"c": 1}


def test_a_tree_of_two_thousand_nodes_by_a_recursive_schema_is_searched_for_invented_fields(judge: Judge) -> None:
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


def test_jsonschema_alone_is_stopped_where_it_hangs() -> None:
    with Judge(JudgePolicy(timeout=0.5, validator="jsonschema")) as judge:
        judge.inspect(True)
        verdict = judged_in_time(judge, {"pattern": URL_PATTERN}, json.dumps(URL))
        assert (verdict.failure_type, verdict.reason) == (FailureType.UNJUDGED, "timeout")
        assert judge.judge({"pattern": "^a"}, '"abc"').passed
