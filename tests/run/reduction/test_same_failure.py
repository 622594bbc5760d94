from __future__ import annotations

import pytest

from pytest_jsbench.core.generations import Declined, DeclineReason, Failed, FaultKind
from pytest_jsbench.records.records import Record
from pytest_jsbench.run.reduction.same_failure import FailurePattern, ReductionError, mask_names
from pytest_jsbench.verdicts import FailureType
from pytest_jsbench.verdicts.verdicts import Verdict, Violation
from tests.support.examples import record


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("pattern of 'zip' is not supported", "pattern of 'city' is not supported", True),
        ("pattern at /properties/a/items: no", "pattern at /: no", True),
        ('Unimplemented keys: ["not"]', 'Unimplemented keys: ["contains"]', False),
        ("uniqueItems at /a: no", "minItems at /a: no", False),
        ("unsupported structure {'a': {'b': 1}}, sorry", "unsupported structure {}, sorry", True),
        ("more than 100 properties (found 214)", "more than 100 properties (found 101)", True),
        ('failed after 13 characters: "EmailSub', 'failed after 9 characters: "a b', True),
        ("format is unknown", "format is unknown, and so is the type", False),
        ("zip must be closed", "city must be closed", True),
        ("zip must be closed", "zip must be open", False),
    ],
)
def test_messages_are_the_same_except_for_names(first: str, second: str, same: bool) -> None:
    hidden = frozenset({"zip", "city"})

    assert (mask_names(first, hidden) == mask_names(second, hidden)) is same


def violation(*keywords: str) -> Verdict:
    violations = tuple(
        Violation(keyword=keyword, instance_path="$", schema_path=f"/{keyword}", message="wrong")
        for keyword in keywords
    )
    return Verdict(failure_type=FailureType.SCHEMA_VIOLATION, valid=False, message="wrong", violations=violations)


def test_violation_is_the_same_if_the_keyword_is_among_the_violated() -> None:
    pattern = FailurePattern.of(record("a", verdict=violation("minLength", "required")))

    assert pattern.text == "schema_violation (minLength)"
    assert pattern.matches(record("b", verdict=violation("type", "minLength")), ())
    assert not pattern.matches(record("b", verdict=violation("required")), ())


def test_refusal_is_the_same_only_for_its_reason() -> None:
    def refused(message: str) -> FailurePattern:
        declined = Declined(reason=DeclineReason.UNSUPPORTED_SCHEMA, message=message)
        verdict = Verdict(failure_type=FailureType.UNSUPPORTED_SCHEMA, valid=None, message=message[:10])
        refusals[message] = record("a", generation=declined, verdict=verdict)
        return FailurePattern.of(refusals[message])

    refusals: dict[str, Record] = {}
    pattern = refused("'oneOf' in 'zip' is not supported")
    refused("'oneOf' in 'city' is not supported")
    refused("'anyOf' in 'city' is not supported")

    assert [pattern.matches(each, ()) for each in refusals.values()] == [True, True, False]


@pytest.mark.parametrize(
    ("verdict", "generation", "words"),
    [
        (Verdict(failure_type=None, valid=True), None, "passed"),
        (
            Verdict(failure_type=FailureType.API_ERROR, valid=None, reason="auth"),
            Failed(kind=FaultKind.AUTH, message="no key"),
            "failed by auth, which no schema causes",
        ),
        (Verdict(failure_type=FailureType.UNJUDGED, valid=None, message="too slow"), None, "was not judged"),
    ],
)
def test_what_no_schema_causes_cannot_be_reduced(verdict: Verdict, generation: Failed | None, words: str) -> None:
    with pytest.raises(ReductionError, match=words):
        FailurePattern.of(record("a", verdict=verdict, generation=generation))
