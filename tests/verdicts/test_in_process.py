from __future__ import annotations

import gc
import json
import weakref
from typing import Any

import pytest

from pytest_jsbench.verdicts import FailureType, JudgePolicy, Note, SecondOpinion, Verdict
from pytest_jsbench.verdicts.in_process import Compiled, InProcessJudge

OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}}
CLOSED = {**OPEN, "additionalProperties": False}


def judge(schema: Any, text: str, *, truncated: bool = False, **policy: Any) -> Verdict:
    judge = InProcessJudge(JudgePolicy(**{"validator": "jsonschema-rs", **policy}))
    *_, verdict = judge.judge(json.dumps(schema), text, truncated=truncated)
    return verdict


@pytest.mark.parametrize(
    ("schema", "text", "failure_type", "valid"),
    [
        (OPEN, '{"a": 1}', None, True),
        (OPEN, '{"a": 1, "b": 2}', "hallucination", True),
        (CLOSED, '{"a": 1, "b": 2}', "hallucination", False),
        ({"anyOf": [CLOSED, {"type": "null"}]}, '{"a": 1, "b": 2}', "hallucination", False),
        (CLOSED, '{"a": "x", "b": 2}', "schema_violation", False),
        (OPEN, '{"a": "x", "b": 2}', "schema_violation", False),
        ({**OPEN, "minProperties": 2}, '{"a": 1, "b": 2}', None, True),
        ({**OPEN, "additionalProperties": {"not": {}}}, '{"a": 1, "b": 2}', "hallucination", False),
        (OPEN, '{"$schema": "x", "a": 1}', None, True),
        (CLOSED, '{"$schema": "x", "a": 1}', "schema_violation", False),
        ({**CLOSED, "minProperties": 2}, '{"a": 1, "b": 2}', "schema_violation", False),
        ({**OPEN, "required": ["b"], "additionalProperties": False}, '{"b": 1}', "schema_violation", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("validator", ["jsonschema-rs", "jsonschema"])
def test_invented_fields_are_a_hallucination_where_nothing_else_is_wrong(
    schema: Any, text: str, failure_type: str | None, valid: bool, validator: str
) -> None:
    verdict = judge(schema, text, validator=validator)
    assert (verdict.failure_type, verdict.valid) == (failure_type, valid)
    assert bool(verdict.violations) is not valid


@pytest.mark.parametrize(("schema", "failure_type"), [(OPEN, None), (CLOSED, "schema_violation")])
def test_allowed_fields_pass_only_where_the_schema_lets_them(schema: Any, failure_type: str | None) -> None:
    verdict = judge(schema, '{"a": 1, "b": 2}', extra_fields="allow")
    assert (verdict.failure_type, verdict.extra_fields) == (failure_type, ("$.b",))


def test_ignored_field_passes_only_where_the_schema_allows_it() -> None:
    text = '{"_note": "x", "a": 1}'
    assert judge(OPEN, text).failure_type is FailureType.HALLUCINATION
    assert judge(OPEN, text, ignored_fields=("_note",)).passed
    assert judge(CLOSED, text, ignored_fields=("_note",)).failure_type is FailureType.SCHEMA_VIOLATION


DEEP: dict[str, Any] = {"properties": {"a": {"properties": {"user": {}}}, "name": {}}}


@pytest.mark.parametrize(
    ("text", "reason", "message"),
    [
        ('{"z": 1}', "unnamed", "fields that the schema does not name: $.z"),
        ('{"user": 1}', "misplaced", "fields that the schema names only elsewhere: $.user"),
        (
            '{"user": 1, "a": {"name": 2, "z": 3}}',
            "unnamed",
            (
                "fields that the schema does not name: $.a.z; "
                "fields that the schema names only elsewhere: $.user, $.a.name"
            ),
        ),
        ('{"Name": 1}', "unnamed", 'fields that the schema does not name: $.Name (did you mean "name"?)'),
        ('{" user": 1}', "unnamed", 'fields that the schema does not name: $[" user"] (did you mean "user"?)'),
        ('{"  ": 1}', "unnamed", 'fields that the schema does not name: $["  "] (white space)'),
    ],
)
def test_invented_field_is_distinguished_from_misplaced_one(text: str, reason: str, message: str) -> None:
    verdict = judge(DEEP, text)
    assert (verdict.failure_type, verdict.reason, verdict.message) == ("hallucination", reason, message)


def test_verdict_lists_misplaced_fields_even_if_they_are_allowed() -> None:
    for extra_fields, reason in (("fail", "unnamed"), ("allow", None)):
        verdict = judge(DEEP, '{"user": 1, "z": 1}', extra_fields=extra_fields)
        assert verdict.extra_fields == ("$.user", "$.z")
        assert verdict.misplaced_fields == ("$.user",)
        assert verdict.reason == reason


def test_a_broken_schema_comes_before_a_broken_answer() -> None:
    assert judge({"type": "text"}, "so", truncated=True).failure_type is FailureType.INVALID_SCHEMA


@pytest.mark.parametrize("text", ["", '{"a": 1', "Let me think", '{"a": 1} and so', "[" * 5000])
def test_an_incomplete_text_at_the_token_limit_is_truncated(text: str) -> None:
    assert judge(OPEN, text, truncated=True).failure_type is FailureType.TRUNCATED
    assert judge(OPEN, text).failure_type is FailureType.SYNTAX_ERROR


@pytest.mark.parametrize(
    ("text", "failure_type"),
    [
        ('{"a": 1}', None),
        ('```json\n{"a": 1}', None),
        ('{"a": "x"}', "schema_violation"),
        ('{"b": 1}', "hallucination"),
    ],
)
def test_a_complete_document_at_the_token_limit_is_judged(text: str, failure_type: str | None) -> None:
    assert judge(OPEN, text, truncated=True).failure_type == failure_type


def test_notes_are_kept_for_each_verdict() -> None:
    assert judge(OPEN, '```\n{"a": 1, "a": 2}\n```').notes == (Note.FENCED, Note.DUPLICATE_KEYS)
    assert judge(OPEN, '```\n{"a": "x"}').notes == (Note.UNCLOSED_FENCE,)
    assert judge(OPEN, "```\nso\n```").notes == (Note.FENCED,)


@pytest.mark.parametrize(
    ("schema", "violations"),
    [
        ({"$ref": "#/$defs/o", "$defs": {"o": OPEN}}, [0, 1, 1, 1]),
        ({"$dynamicRef": "#/$defs/o", "$defs": {"o": OPEN}}, [0, 1, 1, 1]),
        ({**OPEN, "title": "x" * 300_000}, [0, 1, 1, 1]),
        # if there can be only few violations, all are returned at once
        (OPEN, [0, 1, 1]),
    ],
)
def test_the_verdict_comes_first_and_its_details_after_it(schema: dict[str, Any], violations: list[int]) -> None:
    steps = list(InProcessJudge(JudgePolicy()).judge(json.dumps(schema), '{"a": "x"}', truncated=False))
    assert {step.failure_type for step in steps} == {FailureType.SCHEMA_VIOLATION}
    assert [len(step.violations) for step in steps] == violations
    *before, last = (step.second_opinion for step in steps)
    assert (set(before), last) == ({SecondOpinion.UNDECIDED}, SecondOpinion.AGREES)


class NotingJudge(InProcessJudge):
    """A judge that notes the texts of the schemas that it compiles."""

    def __init__(self, policy: JudgePolicy) -> None:
        super().__init__(policy)
        self.compiled: list[str] = []

    def compile(self, schema_text: str) -> Compiled | Verdict:
        self.compiled.append(schema_text)
        return super().compile(schema_text)


def test_a_schema_is_compiled_once_for_inspection_and_all_answers() -> None:
    judge = NotingJudge(JudgePolicy())
    text = json.dumps(OPEN)
    assert judge.inspect(text) is None
    first = judge._compile_cached(text, for_answer=False)
    list(judge.judge(text, "{}", truncated=False))
    assert judge._compile_cached(text, for_answer=True) is first
    assert judge.compiled == [text]


def test_large_compiled_schema_displaces_none_that_waits_for_its_answer() -> None:
    judge = NotingJudge(JudgePolicy(validator="jsonschema-rs"))
    small = [json.dumps({"title": str(number)}) for number in range(100)]
    large = [json.dumps({"title": letter * 400_000}) for letter in "ab"]  # one of them fits
    for text in [*small, *small, large[0], small[-1], *large]:
        judge.inspect(text)
    assert judge.compiled == [*small, *large]
    for text in [*small, *large]:
        judge.inspect(text)
    assert judge.compiled == [*small, *large, large[1]]


def test_schema_stays_compiled_until_its_answer_with_64_calls_in_flight() -> None:
    judge = NotingJudge(JudgePolicy(validator="jsonschema-rs"))
    texts = [json.dumps({"maxLength": number}) for number in range(300)]
    for number, text in enumerate(texts):
        judge.inspect(text)
        if number >= 64:
            list(judge.judge(texts[number - 64], '"a"', truncated=False))
    assert judge.compiled == texts


def test_schemas_of_the_next_answers_are_kept_if_there_is_no_room_for_more() -> None:
    judge = NotingJudge(JudgePolicy(validator="jsonschema-rs"))
    first, second, third = (json.dumps({"title": letter * 200_000}) for letter in "abc")  # two of them fit
    for text in (first, second, third):
        judge.inspect(text)
    for text in (first, second, third):
        list(judge.judge(text, "{}", truncated=False))
        assert judge.constants(text)
    assert judge.compiled == [first, second, third, third]


def test_schema_is_dropped_once_its_answer_is_judged_and_there_is_no_room() -> None:
    judge = NotingJudge(JudgePolicy(validator="jsonschema-rs"))
    first, second = (json.dumps({"title": letter * 300_000}) for letter in "ab")  # one of them fits
    for text in (first, second, first):
        list(judge.judge(text, "{}", truncated=False))
    assert judge.compiled == [first, second, first]


def test_schemas_of_failed_calls_are_dropped() -> None:
    judge = NotingJudge(JudgePolicy(validator="jsonschema-rs"))
    failed, other = (json.dumps({"title": letter * 300_000}) for letter in "ab")  # one of them fits
    judge.inspect(failed)
    for _ in range(130):
        judge.inspect(other)
    assert judge.compiled == [failed, *[other] * 129]
    judge.inspect(failed)
    assert judge.compiled[-1] == failed


def test_dropped_schema_is_freed_without_the_garbage_collector() -> None:
    judge = InProcessJudge(JudgePolicy(validator="jsonschema-rs"))
    text = json.dumps({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}})
    *_, verdict = judge.judge(text, '"x"', truncated=False)
    assert verdict.violations
    compiled = weakref.ref(judge._compile_cached(text, for_answer=True))
    gc.disable()
    try:
        judge._judged.clear()
        assert compiled() is None
    finally:
        gc.enable()
