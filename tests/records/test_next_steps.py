from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.core.generations import (
    Completion,
    FaultKind,
    FinishReason,
    Generation,
    GenerationParams,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.records.next_steps import next_step
from pytest_jsbench.verdicts import FailureType, Note, Verdict
from tests import examples
from tests.examples import replace

PARAMS = GenerationParams(max_tokens=300, timeout=7.5)
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


def answered(text: str, response_format: ResponseFormat = ResponseFormat.JSON_SCHEMA) -> Completion:
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
        (failed(FailureType.TRUNCATED), answered('{"n": '), "--jsbench-max-tokens=600 (it is 300)"),
        (failed(FailureType.TRUNCATED), answered('{"n": "' + "and so on and on " * 9), "the answer repeats itself"),
        (failed(FailureType.TRUNCATED), answered('{"ip": "12' + "-1234" * 8), "the answer repeats itself"),
        (failed(FailureType.TRUNCATED), answered('{"ip": "12' + "-1234" * 3), "raise the limit"),
        (broken("/properties/far/maximum"), answered("{}"), "did not enforce it: `jsbench probe` finds out"),
        (broken("/properties/any/maximum"), answered("{}"), "did not enforce it: `jsbench probe` finds out"),
        (broken("/properties/half/maximum"), answered("{}"), "say maximum as an enum of its values"),
        (broken("/properties/loose/pattern"), answered("{}"), "say pattern as one with [0-9] for \\d and"),
        (broken("/properties/open/pattern"), answered("{}"), "say pattern as one from ^ to $; or"),
        (broken("/prefixItems/0/minimum"), answered("{}"), "sent minimum and did not enforce it"),
        (broken("/prefixItems/0/required"), answered("{}"), "say prefixItems as named properties"),
        (broken("/else/required", "/anyOf"), answered("{}"), "them: `jsbench probe` finds out"),
        (broken("/properties/plain/pattern"), answered("{}"), "did not enforce it: `jsbench probe` finds out"),
        (failed(FailureType.SYNTAX_ERROR), answered("Sure!", ResponseFormat.TEXT), "--jsbench-response-format"),
        (failed(FailureType.SYNTAX_ERROR), answered("Sure!"), ""),
        (failed(FailureType.HALLUCINATION), answered("{}"), "--jsbench-extra-fields=allow"),
        (failed(FailureType.UNSUPPORTED_SCHEMA), None, "`jsbench adapt`"),
        (failed(FailureType.UNJUDGED), answered("{}"), "--jsbench-judge-timeout"),
        (failed(FailureType.REFUSAL), None, "-v shows the prompt"),
        (
            broken("/minimum"),
            answered("{}"),
            "sent minimum and did not enforce it: say minimum as an enum of its values; or",
        ),
        (broken("/items/allOf/0/else/not"), answered("{}"), "sent else and did not enforce it"),
        (broken("/allOf/0/required"), answered("{}"), "say allOf as one schema"),
        (broken("/then/required", "/properties/not/enum"), answered("{}"), "say then as branches of anyOf; or ask"),
        (broken("/contains", "/a/uniqueItems"), answered("{}"), "them: `jsbench probe` finds out"),
        (broken("/properties/not/enum"), answered("{}"), "did not enforce it: `jsbench probe` finds out"),
        (
            examples.VIOLATED,
            answered('{"type": "object", "properties": {}}'),
            "the answer is a schema, and no instance",
        ),
        (examples.VIOLATED, answered("{}", ResponseFormat.JSON_OBJECT), "json_object enforces no minimum"),
        (examples.VIOLATED, replace(answered("{}"), sent=None), ""),
        (replace(examples.VIOLATED, notes=(Note.ADAPTATION_LOSS,)), answered("{}"), ""),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.TIMEOUT), "more than 7.5 s"),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.RATE_LIMITED), "--jsbench-rpm"),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.SERVER), "with --jsbench-resume all that broke"),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.CONNECTION), "see that the server answers"),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.AUTH), ""),
        (failed(FailureType.API_ERROR), examples.failed(kind=FaultKind.ENGINE), ""),  # again it would be the same
        (failed(FailureType.NO_CALL), answered(""), ""),
    ],
)
def test_the_next_step_names_what_can_be_changed(verdict: Verdict, generation: Generation | None, step: str) -> None:
    words = next_step(verdict, generation, PARAMS, SCHEMA)

    assert step in words
    assert bool(step) == bool(words)
