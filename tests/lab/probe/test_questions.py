from __future__ import annotations

import json
from random import Random

import jsonschema_rs
import pytest

from pytest_jsbench.adaptation.subsets import SUBSETS
from pytest_jsbench.lab.probe.demo_chat import make_conforming_value
from pytest_jsbench.lab.probe.probe import select_fitting
from pytest_jsbench.lab.probe.questions import KEYWORDS, SHAPES, ProbeQuestion, Words, any_question, keyword_question

RANDOM = Random(7)


def is_valid(question: ProbeQuestion, value: object) -> bool:
    return jsonschema_rs.Draft202012Validator(json.dumps(question.schema), validate_formats=True).is_valid(value)


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_keyword_prompt_requests_an_answer_that_breaks_only_its_keyword(keyword: str) -> None:
    question = keyword_question(keyword, Words(RANDOM))

    assert f'"{keyword}"' in json.dumps(question.schema)
    assert not is_valid(question, json.loads(question.wanted))
    assert is_valid(question, make_conforming_value(question.schema))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_schema_of_a_shape_has_it_and_a_short_answer_that_conforms(shape: str) -> None:
    question = keyword_question(shape, Words(RANDOM))
    text = json.dumps(question.schema)

    has = {"large": len(text) > 4_000, "nested": text.count("additionalProperties") == 8, "recursive": "$defs" in text}
    assert has[shape]
    assert not is_valid(question, json.loads(question.wanted))
    answer = make_conforming_value(question.schema)
    assert is_valid(question, answer)
    assert len(json.dumps(answer)) < 300


def test_each_question_has_unique_words_some_only_in_its_schema() -> None:
    words = Words(RANDOM)
    asked = [(keyword, keyword_question(keyword, words)) for keyword in [*KEYWORDS] * 3]
    asked += [("enum", any_question(words, plain=bool(at % 2))) for at in range(20)]
    questions = [question for _, question in asked]

    owned = [word for question in questions for word in question.words]
    assert len(owned) == len(set(owned))
    assert all(question.words for question in questions)
    assert all(question.marks for keyword, question in asked if keyword in {"enum", "const", "pattern", "$ref"})


def test_may_begin_accepts_a_truncated_conforming_answer() -> None:
    question = any_question(Words(RANDOM), plain=False)
    (name,) = question.schema["properties"]  # type: ignore[index]

    assert all(map(question.may_begin, ["", " {", f'{{\n  "{name[:3]}', f'{{"{name}": "x', "<think> well"]))
    assert not any(map(question.may_begin, ["no", '{"other": 1', "[", f"{name}"]))


@pytest.mark.parametrize("subset", SUBSETS)
def test_a_provider_is_asked_about_keywords_that_it_documents(subset: str) -> None:
    keywords = select_fitting(KEYWORDS, subset)

    assert {"enum", "properties", "required", "additionalProperties", "$ref", "anyOf"} <= set(keywords)
    for keyword in ("allOf", "minimum"):
        assert (keyword in keywords) is (keyword in SUBSETS[subset].keywords)
    assert select_fitting(KEYWORDS, None) == tuple(KEYWORDS)
