"""Reduction of disagreements about JSON, other text and schemas."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from benchmarks.differential.disagreements import Disagreement
from benchmarks.differential.opinions import Answered, Opinion, Panel
from benchmarks.differential.questions import Question, SchemaQuestion
from benchmarks.differential.shrinking import shrink
from pytest_jsbench.schemas.dialects import DRAFT_2020_12


class FakePanel(Panel):
    """Fake panel without Node: ajv accepts each text with a brace, and the judge rejects it."""

    def evaluate(self, questions: Iterable[Question]) -> Generator[Answered, None, None]:
        for question in questions:
            theirs = Opinion(verdicts="v" if "{" in question.texts[0] else "x")
            yield Answered(question=question, ours=Opinion(verdicts="x"), others={"ajv": theirs}, flags="u")


def smallest(schema: object, text: str) -> tuple[object, str]:
    question = SchemaQuestion(name="one", schema=schema, dialect=DRAFT_2020_12, texts=(text,))
    found = Disagreement(question=question, validator="ajv", ours="x", theirs="v", our_why="", their_why="", others={})
    small = shrink(found, FakePanel("node")).question
    assert isinstance(small, SchemaQuestion)
    return small.schema, small.texts[0]


def test_shrink_removes_characters_of_text_that_is_not_json() -> None:
    assert smallest({}, '[{"a": 1') == ({}, "{")


def test_shrink_removes_parts_of_json_and_keeps_it_json() -> None:
    assert smallest({}, '[{"a": 1}, 2]') == ({}, "[{}]")


def test_shrink_removes_keywords_of_schema() -> None:
    assert smallest({"properties": {"a": {"type": "null"}}}, "{}") == ({}, "{}")
