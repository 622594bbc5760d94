from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.core.generations import (
    CalledTool,
    Completion,
    DeclineReason,
    FaultKind,
    FinishReason,
    Generation,
    GenerationParams,
    ResponseFormat,
    Sent,
    Tools,
)
from pytest_jsbench.records.next_steps import _AFTER_SYNTAX_ERROR, next_step
from pytest_jsbench.verdicts import UNDESCRIBED, FailureType, Note, Verdict
from pytest_jsbench.verdicts.extra_fields import ExtraFieldReason
from pytest_jsbench.verdicts.judge import IN_REASONING
from pytest_jsbench.verdicts.tool_calls import SEVERAL_CALLS
from pytest_jsbench.verdicts.verdicts import SchemaReason, SyntaxReason
from tests.support import examples
from tests.support.examples import replace

PARAMS = GenerationParams(max_tokens=300, timeout=7.5)
PARSER_ERROR = "The model produced output that does not match the expected peg-native format (after 13 characters)"
SCHEMA = {
    "type": "integer",
    "minimum": 1,
    "maximum": 5,
    "properties": {
        "far": {"type": "integer", "minimum": 0, "maximum": 2000},
        "any": {"type": "number", "minimum": 0, "maximum": 1},
        "half": {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.5},
        "loose": {"pattern": "^\\d+"},
        "open": {"pattern": "[0-9]"},
        "plain": {"pattern": "^[0-9]+$"},
    },
}


def answer(text: str, response_format: ResponseFormat = ResponseFormat.JSON_SCHEMA) -> Completion:
    made = examples.completion(text)
    return replace(made, sent=Sent(response_format=response_format), finish_reason=FinishReason.STOP)


def failed(kind: FailureType, **changes: Any) -> Verdict:
    return replace(examples.VIOLATED, failure_type=kind, **changes)


def broken(*paths: str) -> Verdict:
    found = [
        replace(examples.VIOLATED.violations[0], schema_path=path, keyword=path.rpartition("/")[2]) for path in paths
    ]
    return replace(examples.VIOLATED, violations=tuple(found))


@pytest.mark.parametrize(
    ("verdict", "generation", "step"),
    [
        (failed(FailureType.TRUNCATED), answer('{"n": '), "--jsbench-max-tokens=600 (it is 300)"),
        (
            failed(FailureType.TRUNCATED),
            answer('{"n": "' + "and so on and on " * 9),
            "the answer repeats itself",
        ),
        (failed(FailureType.TRUNCATED), answer('{"ip": "12' + "-1234" * 8), "the answer repeats itself"),
        (failed(FailureType.TRUNCATED), answer('{"ip": "12' + "-1234" * 3), "raise the limit"),
        (broken("/properties/far/maximum"), answer("{}"), "did not enforce it: `jsbench probe` shows"),
        (broken("/properties/any/maximum"), answer("{}"), "did not enforce it: `jsbench probe` shows"),
        (broken("/properties/half/maximum"), answer("{}"), "rewrite maximum as an enum of its values"),
        (broken("/properties/loose/pattern"), answer("{}"), "rewrite pattern as one with [0-9] instead of \\d and"),
        (
            broken("/properties/open/pattern"),
            answer("{}"),
            "rewrite pattern as one that starts with ^ and ends with $",
        ),
        (broken("/prefixItems/0/minimum"), answer("{}"), "received keyword minimum, but did not enforce it"),
        (broken("/prefixItems/0/required"), answer("{}"), "rewrite prefixItems as named properties"),
        (broken("/else/required", "/anyOf"), answer("{}"), "them: `jsbench probe` shows"),
        (broken("/properties/plain/pattern"), answer("{}"), "did not enforce it: `jsbench probe` shows"),
        (failed(FailureType.SYNTAX_ERROR), answer("Sure!", ResponseFormat.TEXT), "--jsbench-response-format"),
        (failed(FailureType.SYNTAX_ERROR), answer("Sure!"), "received the schema, but did not enforce JSON"),
        (failed(FailureType.HALLUCINATION, valid=True), answer("{}"), "--jsbench-extra-fields=allow"),
        (failed(FailureType.UNSUPPORTED_SCHEMA), None, "`jsbench adapt`"),
        (failed(FailureType.UNJUDGED), answer("{}"), "--jsbench-judge-timeout"),
        (failed(FailureType.REFUSAL), None, "-v shows the refused prompt"),
        (
            broken("/minimum"),
            answer("{}"),
            "received keyword minimum, but did not enforce it: rewrite minimum as an enum of its values; or",
        ),
        (broken("/items/allOf/0/else/not"), answer("{}"), "received keyword else, but did not enforce it"),
        (broken("/allOf/0/required"), answer("{}"), "rewrite allOf as one schema"),
        (
            broken("/then/required", "/properties/not/enum"),
            answer("{}"),
            "rewrite then as branches of anyOf; or try",
        ),
        (broken("/contains", "/a/uniqueItems"), answer("{}"), "them: `jsbench probe` shows"),
        (broken("/properties/not/enum"), answer("{}"), "did not enforce it: `jsbench probe` shows"),
        (
            examples.VIOLATED,
            answer('{"type": "object", "properties": {}}'),
            "the answer is a schema, not an instance",
        ),
        (examples.VIOLATED, answer("{}", ResponseFormat.JSON_OBJECT), "json_object does not enforce minimum"),
        (
            examples.VIOLATED,
            replace(answer("{}"), sent=None),
            "state in the prompt which values conform to minimum",
        ),
        (replace(examples.VIOLATED, notes=(Note.ADAPTATION_LOSS,)), answer("{}"), "--jsbench-adapt=verbatim"),
        (
            replace(examples.VIOLATED, notes=(Note.NOT_ENFORCED,)),
            answer("{}"),
            "send the schema with the request",
        ),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.TIMEOUT), "more time (it is 7.5 s)"),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.RATE_LIMITED), "--jsbench-rpm"),
        (
            failed(FailureType.API_ERROR),
            examples.failed(kind=FaultKind.SERVER),
            "all failed calls with --jsbench-resume",
        ),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.CONNECTION), "check that the server answers"),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.AUTH), "check the API key"),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.ENGINE), "fix what the message names"),
        (
            failed(FailureType.API_ERROR),
            replace(examples.failed(kind=FaultKind.ENGINE), message=PARSER_ERROR),
            "in a pattern, list the allowed characters instead",
        ),
        (failed(FailureType.NO_CALL), answer(""), "tool_choice"),
        (failed(FailureType.UNKNOWN_TOOL), answer(""), "declare the tool"),
    ],
)
def test_the_next_step_names_what_can_be_changed(verdict: Verdict, generation: Generation | None, step: str) -> None:
    words = next_step(verdict, generation, PARAMS, SCHEMA)

    assert step in words
    assert bool(step) == bool(words)


#: Possible reasons of each failure type.
REASONS: dict[FailureType, list[str]] = {
    FailureType.API_ERROR: [*FaultKind],
    FailureType.UNSUPPORTED_SCHEMA: [*DeclineReason],
    FailureType.REFUSAL: [FinishReason.CONTENT_FILTER],
    FailureType.TRUNCATED: [*SyntaxReason],
    FailureType.SYNTAX_ERROR: [*SyntaxReason, FinishReason.REJECTED, IN_REASONING],
    FailureType.WRONG_TOOL: [SEVERAL_CALLS],
    FailureType.UNJUDGED: ["timeout", "memory", "crashed", "endless_reference"],
    FailureType.HALLUCINATION: [*ExtraFieldReason],
    FailureType.WRONG_DECISION: ["over_constraint", "under_constraint", "both"],
    FailureType.INVALID_SCHEMA: [*SchemaReason, "unknown_keyword", UNDESCRIBED],
}


@pytest.mark.parametrize("failure_type", FailureType)
@pytest.mark.parametrize("response_format", [*ResponseFormat, None])
def test_next_step_exists_for_each_failure_type_and_reason(
    failure_type: FailureType, response_format: ResponseFormat | None
) -> None:
    generation = None if response_format is None else answer("{}", response_format)
    for reason in (*REASONS.get(failure_type, ()), None):
        violations = examples.VIOLATED.violations if failure_type is FailureType.SCHEMA_VIOLATION else ()
        verdict = failed(failure_type, reason=reason, violations=violations)
        assert next_step(verdict, generation, PARAMS, SCHEMA), (failure_type, reason)


@pytest.mark.parametrize("reason", SyntaxReason)
def test_next_step_depends_on_the_reason(reason: SyntaxReason) -> None:
    step = next_step(failed(FailureType.SYNTAX_ERROR, reason=reason), None, PARAMS, SCHEMA)
    assert step == _AFTER_SYNTAX_ERROR[reason]


def test_next_step_names_an_applications_request_without_a_format() -> None:
    made = answer("Sure", ResponseFormat.TEXT)
    assert made.sent is not None
    verdict = failed(FailureType.SYNTAX_ERROR, reason=SyntaxReason.PROSE)

    step = next_step(verdict, replace(made, sent=replace(made.sent, by_application=True)), PARAMS, SCHEMA)

    assert step == "the application's request named no format: add response_format (or text.format) to its call"
    assert next_step(verdict, made, PARAMS, SCHEMA).startswith("no response format was set: --jsbench-response-format")


def test_next_step_after_a_grammar_names_the_library_and_no_larger_model() -> None:
    plain = answer("{}")
    assert plain.sent is not None
    held = replace(plain, sent=replace(plain.sent, enforced_by="llguidance 1.9.1"))
    step = next_step(broken("/properties/far/maximum"), held, PARAMS, SCHEMA)
    assert step.startswith("llguidance 1.9.1 received keyword maximum, but did not enforce it")
    assert "larger model" not in step


@pytest.mark.parametrize(
    ("path", "is_named"),
    [
        ("/required", True),
        ("/properties/a/type", True),
        ("/anyOf", True),
        ("/properties/b/anyOf", False),
        ("/properties/b/anyOf/0/required", False),
    ],
)
def test_next_step_after_llama_cpp_names_branches_next_to_properties(path: str, is_named: bool) -> None:
    free = answer("{}")
    assert free.sent is not None
    branches = {"anyOf": [{"type": "object", "required": ["a"]}]}
    b_alone = {"properties": {"b": branches}}
    schema = {"properties": {"a": {"type": "string"}}, **branches} if is_named else b_alone
    held = replace(free, sent=replace(free.sent, enforced_by="llama.cpp's grammar"))

    step = next_step(broken(path), held, PARAMS, schema)

    assert ("as whole objects in each branch" in step) is is_named
    assert "each branch" not in next_step(broken(path), free, PARAMS, schema)


def test_next_step_after_a_grammar_let_a_schema_through_names_the_grammar() -> None:
    free = answer('{"type": "object", "properties": {"a": {"type": "string"}}}')
    assert free.sent is not None
    held = replace(free, sent=replace(free.sent, enforced_by="llama.cpp's grammar"))
    schema = {"properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}

    assert next_step(broken("/anyOf"), free, PARAMS, schema).startswith("the answer is a schema")
    assert next_step(broken("/anyOf"), held, PARAMS, schema).startswith("llama.cpp's grammar received keyword anyOf,")


@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties", "oneOf"])
def test_next_step_treats_a_forbidden_field_as_a_violation(keyword: str) -> None:
    violation = replace(examples.VIOLATED.violations[0], keyword=keyword, schema_path=f"/{keyword}")
    verdict = failed(FailureType.HALLUCINATION, violations=(violation,))
    step = next_step(verdict, answer("{}"), PARAMS, {keyword: False})
    assert f"received keyword {keyword}, but did not enforce it" in step
    assert "--jsbench-extra-fields" not in step


def test_next_step_for_a_pattern_of_another_engine_is_to_fix_the_pattern() -> None:
    schema = {"pattern": "\\A[a-z]+\\Z"}
    step = next_step(broken("/pattern"), answer('"a"'), PARAMS, schema)
    assert step == "fix the pattern: it has \\A, which is not ECMA-262: write ^"


@pytest.mark.parametrize(
    ("verdict", "schema", "words"),
    [
        ({"valid_in": "draft-07"}, {"items": [{}]}, "--jsbench-default-dialect=draft-07"),
        ({}, {"properties": {"a": {"required": True}}}, "fix the schema: $.properties.a: a boolean `required`"),
        ({}, {"type": "any"}, "type `any` belongs to draft 3: remove `type`"),
        ({}, {"type": 5}, "fix the schema, or skip such cases with --jsbench-invalid-schemas=skip"),
        ({}, None, "fix the schema, or skip such cases with --jsbench-invalid-schemas=skip"),
    ],
)
def test_next_step_for_an_invalid_schema_names_its_draft_or_its_fault(
    verdict: dict[str, Any], schema: Any, words: str
) -> None:
    found = failed(FailureType.INVALID_SCHEMA, reason="metaschema", violations=(), **verdict)
    assert words in next_step(found, None, PARAMS, schema)


def test_a_pattern_with_look_around_is_to_be_written_without() -> None:
    step = next_step(broken("/pattern"), answer('"b"'), PARAMS, {"pattern": "^(?!a).*$"})
    assert "rewrite pattern as one without look-around" in step


FORMAT_DROPPED = (
    "the server may drop the response format next to tools: `jsbench probe --checks=format_with_tools` tests this"
)
TOOLS_DROPPED = (
    "the server may drop the tools next to a response format: `jsbench probe --checks=format_with_tools` tests this"
)


def test_next_step_names_a_server_that_may_drop_the_format_or_the_tools() -> None:
    made = answer("Sure")
    assert made.sent is not None
    tools = Tools(schemas={"f": {}}, allowed=("f",), required=False)
    both = replace(made, sent=replace(made.sent, tools=tools))
    calling = replace(both, calls=(CalledTool(name="f", arguments="{}"),))
    enforced = replace(both, sent=replace(both.sent, enforced_by="llguidance 1.9.1"))
    prose = failed(FailureType.SYNTAX_ERROR, reason=SyntaxReason.PROSE)
    no_call = failed(FailureType.NO_CALL)
    required = broken("/required")

    assert next_step(prose, both, PARAMS, SCHEMA) == next_step(required, both, PARAMS, SCHEMA) == FORMAT_DROPPED
    assert next_step(no_call, both, PARAMS, SCHEMA) == TOOLS_DROPPED
    for other in (made, calling, enforced):
        for verdict in (prose, required, no_call):
            assert "probe --checks" not in next_step(verdict, other, PARAMS, SCHEMA)
