"""Detection of disagreements, and matching with decided classes."""

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
AJV_CLASS = DecidedClass(name="one", validators=("ajv",), decided="so", source="RFC 0", example={})


def test_disagreements_contain_each_dissenting_validator_and_text() -> None:
    others = {"ajv": Opinion(verdicts="vv"), "hyperjump": Opinion(verdicts="vi")}
    answered = Answered(question=QUESTION, ours=Opinion(verdicts="vi"), others=others, flags="u")
    (one,) = disagreements(answered)
    assert (one.validator, one.text, one.ours, one.theirs) == ("ajv", "2", "i", "v")
    assert one.others == {"hyperjump": "i"}


def test_class_matches_a_disagreement_that_meets_all_conditions() -> None:
    assert dataclasses.replace(AJV_CLASS, verdicts=("rejected",), why="^no such", label=True).matches(REFUSED)


@pytest.mark.parametrize(
    "condition",
    [
        {"validators": ("hyperjump",)},
        {"verdicts": ("valid",)},
        {"why": "^another"},
        {"our_why": "."},
        {"formats": ("date",)},
    ],
)
def test_class_does_not_match_if_one_condition_fails(condition: dict[str, tuple[str, ...] | str]) -> None:
    assert not DecidedClass(
        **{"name": "one", "validators": ("ajv",), "decided": "so", "source": "RFC 0", "example": {}, **condition}  # type: ignore[arg-type]
    ).matches(REFUSED)


def test_decided_classes_have_sources_and_known_readings() -> None:
    classes = load(HERE / "decided.toml")
    assert len({one.name for one in classes}) == len(classes)
    for one in classes:
        assert one.source, one.name
        assert one.example, one.name
        assert not one.reading or one.reading in READINGS, one.name
        assert not one.restated or one.restated in RESTATEMENTS, one.name
