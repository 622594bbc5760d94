"""Which disagreements a decided class takes."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.differential.disagreements import DecidedClass, Disagreement, disagreements, load
from benchmarks.differential.opinions import HERE, Answered, Opinion
from benchmarks.differential.questions import SchemaQuestion
from benchmarks.differential.readings import READINGS, RESTATEMENTS
from pytest_jsbench.schemas.dialects import DRAFT_2020_12

QUESTION = SchemaQuestion(name="one", schema={}, dialect=DRAFT_2020_12, texts=("1", "2"), labels=(True, False))
REFUSED = Disagreement(
    question=QUESTION,
    validator="ajv",
    ours="v",
    theirs="r",
    our_why="",
    their_why="no such thing",
    others={"label": "v"},
)
TAKES = DecidedClass(name="one", validators=("ajv",), decided="so", source="RFC 0", example={})


def test_every_validator_that_says_something_else_is_a_disagreement_of_that_text_alone() -> None:
    others = {"ajv": Opinion(verdicts="vv"), "hyperjump": Opinion(verdicts="vi")}
    answered = Answered(question=QUESTION, ours=Opinion(verdicts="vi"), others=others, flags="u")
    (one,) = disagreements(answered)
    assert (one.validator, one.text, one.ours, one.theirs) == ("ajv", "2", "i", "v")
    assert one.others == {"hyperjump": "i"}


def test_a_class_takes_what_its_conditions_name() -> None:
    assert dataclasses.replace(TAKES, says=("refused",), why="^no such", label=True).holds(REFUSED)


@pytest.mark.parametrize(
    "condition",
    [
        {"validators": ("hyperjump",)},
        {"says": ("valid",)},
        {"why": "^another"},
        {"our_why": "."},
        {"formats": ("date",)},
    ],
)
def test_a_class_takes_nothing_where_one_condition_fails(condition: dict[str, tuple[str, ...] | str]) -> None:
    assert not DecidedClass(
        **{"name": "one", "validators": ("ajv",), "decided": "so", "source": "RFC 0", "example": {}, **condition}  # type: ignore[arg-type]
    ).holds(REFUSED)


def test_every_decided_class_has_a_source_and_known_readings() -> None:
    classes = load(HERE / "decided.toml")
    assert len({one.name for one in classes}) == len(classes)
    for one in classes:
        assert one.source, one.name
        assert one.example, one.name
        assert not one.reading or one.reading in READINGS, one.name
        assert not one.restated or one.restated in RESTATEMENTS, one.name
