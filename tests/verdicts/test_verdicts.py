from __future__ import annotations

import pytest

from pytest_jsbench.verdicts import FailureType, Judge, JudgePolicy, Verdict
from pytest_jsbench.verdicts.verdicts import excerpt, verdict_text


def lines(*extra: str, misplaced: tuple[str, ...] = ()) -> list[str]:
    kind = FailureType.HALLUCINATION
    verdict = Verdict(failure_type=kind, valid=True, extra_fields=extra, misplaced_fields=misplaced)
    return verdict_text(verdict, None).splitlines()[1:]


def test_fields_named_elsewhere_are_not_reported_as_unknown() -> None:
    assert lines("$.z", "$.b", misplaced=("$.b",)) == [
        "  not in the schema: $.z",
        "  only elsewhere in the schema: $.b",
    ]
    assert lines("$.b", misplaced=("$.b",)) == ["  only elsewhere in the schema: $.b"]
    assert lines("$.z") == ["  not in the schema: $.z"]


def test_paths_that_are_not_listed_are_counted() -> None:
    redacted = "(redacted)"
    assert lines(redacted, redacted, redacted, misplaced=(redacted,)) == [
        "  not in the schema: (redacted), (redacted)",
        "  only elsewhere in the schema: (redacted)",
    ]


CARD = {"properties": {"kind": {"const": "card"}, "number": {"type": "string"}}, "required": ["kind", "number"]}
IBAN = {"properties": {"kind": {"const": "iban"}, "iban": {"type": "string"}}, "required": ["kind", "iban"]}


@pytest.mark.parametrize(
    ("keyword", "answer", "nearest"),
    [
        ("anyOf", '{"kind": "card"}', 'nearest is branch 0: $: "number" is a required property'),
        ("oneOf", '{"kind": "iban", "iban": 5}', 'nearest is branch 1: $.iban: 5 is not of type "string"'),
        ("anyOf", '{"kind": "cash"}', 'nearest is branch 0: $.kind: "cash" is not one of "card", "iban" (and 1 more)'),
    ],
)
def test_nearest_branch_explains_the_failure(keyword: str, answer: str, nearest: str) -> None:
    with Judge(JudgePolicy()) as judge:
        verdict = judge.judge({keyword: [CARD, IBAN]}, answer)

    assert nearest in verdict.message
    assert len(verdict.message) <= 400


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"n": 1}', ['  answer: {"n": 1}']),
        ("", ["  answer: (empty)"]),
        ('{\n  "a": "\x1b[31m"\n}', ["  answer:", "    {", '      "a": "\\x1b[31m"', "    }"]),
        ("word " * 30, ["  answer:", "    " + "word " * 20, "    " + "word " * 10]),
        ("\n".join(map(str, range(99))), ["  answer:", *(f"    {n}" for n in (*range(10), "…", 95, 96, 97, 98))]),
    ],
)
def test_an_answer_is_shown_in_its_lines_from_its_beginning_to_its_end(text: str, shown: list[str]) -> None:
    assert excerpt("answer", text) == shown


def test_of_a_huge_answer_no_more_than_its_ends_is_looked_at() -> None:
    lines = excerpt("answer", "x" * 50_000_000)

    assert (len(lines), sum(map(len, lines)) < 2000) == (16, True)
