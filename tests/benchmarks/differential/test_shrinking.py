"""Disagreements become smaller, whatever their text is."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from benchmarks.differential.disagreements import Disagreement
from benchmarks.differential.opinions import Answered, Opinion, Panel
from benchmarks.differential.questions import Question, SchemaQuestion
from benchmarks.differential.shrinking import shrunk
from pytest_jsbench.schemas.dialects import DRAFT_2020_12


class PanelThatSeesABrace(Panel):
    """Ajv takes every text with a brace, and the judge takes none; the asking needs no Node."""

    def ask(self, questions: Iterable[Question]) -> Generator[Answered, None, None]:
        for question in questions:
            theirs = Opinion(verdicts="v" if "{" in question.texts[0] else "x")
            yield Answered(question=question, ours=Opinion(verdicts="x"), others={"ajv": theirs}, flags="u")


def smallest(schema: object, text: str) -> tuple[object, str]:
    question = SchemaQuestion(name="one", schema=schema, dialect=DRAFT_2020_12, texts=(text,))
    found = Disagreement(question=question, validator="ajv", ours="x", theirs="v", our_why="", their_why="", others={})
    small = shrunk(found, PanelThatSeesABrace("node")).question
    assert isinstance(small, SchemaQuestion)
    return small.schema, small.texts[0]


def test_a_text_that_is_no_json_becomes_smaller_by_its_characters() -> None:
    assert smallest({}, '[{"a": 1') == ({}, "{")


def test_a_json_text_becomes_smaller_by_its_parts_and_stays_json() -> None:
    assert smallest({}, '[{"a": 1}, 2]') == ({}, "[{}]")


def test_a_schema_becomes_smaller_by_its_keywords() -> None:
    assert smallest({"properties": {"a": {"type": "null"}}}, "{}") == ({}, "{}")
