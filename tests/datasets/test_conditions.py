from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Schema
from pytest_jsbench.core.errors import ConditionError
from pytest_jsbench.core.tool_offers import OfferedTool, ToolOffer
from pytest_jsbench.datasets.base import ListedCase, Listing
from pytest_jsbench.datasets.conditions import FIELDS, Subject, parse
from pytest_jsbench.datasets.selection import find_matching
from pytest_jsbench.schemas.dialects import DRAFT_2020_12
from pytest_jsbench.schemas.features import FEATURES
from pytest_jsbench.verdicts import Judge

KEY = CaseKey(task="Github_easy", id="o12.2")
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "string",
    "pattern": "a",
    "definitions": {"a": {"items": {"$ref": "#"}}},
}
#: a schema of 4,096 bytes
LARGE = {**SCHEMA, "title": "x" * (4096 - len(json.dumps(SCHEMA, separators=(",", ":"))) - len(',"title":""'))}


def subject(case: Case | BrokenCase) -> Subject:
    listed = ListedCase(task=case.key.task, name=case.key.id, where="here", read=lambda _: case)
    return Subject(Listing(entries={case.key: listed}), case.key, DRAFT_2020_12.uri)


def met(text: str) -> bool | None:
    return parse(text)(subject(Case(key=KEY, schema=LARGE, tags=("billing", "new"))))


MET = [
    "keywords:pattern",
    "keywords:$ref",
    "keywords:pattern and size<=4096",
    "  ( keywords : pattern )  ",
    "size=4096 and size == 4096 and size != 1 and size>4095 and size>=4096",
    "depth<4",
    "dialect:draft-07",
    "feature:recursive and not feature:remote",
    "task:Github_*",
    "task:Github_easy and id:o1?.*",
    "id:'o12.2'",
    "tag:billing and tag:n*",
    'id:"o12.2"',
    "id:not or task:G*",
    "not not depth=3",
    # "and" binds closer than "or", and "not" closer than both
    "depth=3 or depth=3 and depth=9",
    "not depth=9 and depth=3",
    "not (depth=9 or depth=8)",
]
NOT_MET = ["size<4096", "tag:old", "keywords:format", "task:github_*", "id:o12", "not depth=3 or depth=2"]


@pytest.mark.parametrize(("text", "expected"), [*((text, True) for text in MET), *((text, False) for text in NOT_MET)])
def test_a_condition_is_met_or_its_contrary_is(text: str, expected: bool) -> None:
    assert met(text) is expected
    assert met(f"not ({text})") is not expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("size<9", None),
        ("not size<9", None),
        ("size<9 or id:a*", True),
        ("size<9 and id:b*", False),
        ("size<9 or id:b*", None),
        ("id:a* and keywords:type", None),
        ("dialect:draft-04", None),
        ("tag:a", None),
    ],
)
def test_missing_schema_has_no_sentence(text: str, expected: bool | None) -> None:
    assert parse(text)(subject(BrokenCase(key=CaseKey(task="t", id="a1"), problem="no schema"))) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            "expected a condition such as keywords:pattern or size<4096; the fields are task, .*, at character 1: >>>$",
        ),
        ("keywrds:pattern", r"unknown field 'keywrds': did you mean 'keywords'\? .*, at character 1: >>>keywrds:pat"),
        ("not keywords:patern", r"unknown keywords 'patern': did you mean 'pattern'\? .*14: not keywords:>>>patern$"),
        ("feature:recursion", r"unknown feature 'recursion': did you mean 'recursive'\?"),
        ("dialect:draft7", r"unknown dialect 'draft7': did you mean 'draft-07'\?"),
        ("size", "expected a comparison after 'size', one of < <= .*, at character 5: size>>>$"),
        ("size:3", "expected a comparison after 'size'"),
        ("size<4k", "expected a whole number, at character 6: size<>>>4k"),
        ("size<1.5", "expected a whole number"),
        ("task=a", "expected ':' after 'task', as in task:Github_.*, at character 5: task>>>=a"),
        ("id:", "expected a word after 'id:', at character 4"),
        ("id:'a", "expected a word after 'id:', at character 4: id:>>>'a"),
        ("(size<3", r"'\(' is not closed, at character 1: >>>\(size<3"),
        ("(size<3 depth<3", r"expected 'and', 'or' or '\)', at character 9"),
        ("size<3)", r"expected 'and', 'or' or the end of the condition, at character 7: size<3>>>\)"),
        ("size<3 and", "expected a condition such as .*, at character 11"),
        ("size<3 or and", "expected a condition such as .*, at character 11"),
        ("size<3; import os", "expected 'and', 'or' or the end of the condition, at character 7"),
    ],
)
def test_invalid_condition_is_rejected_with_its_position(text: str, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        parse(text)


def test_an_unknown_word_and_the_known_ones_are_values_of_the_error() -> None:
    with pytest.raises(ConditionError) as error:
        parse("feature:recursion")
    assert (error.value.found, error.value.expected) == ("recursion", sorted(FEATURES))


@pytest.mark.parametrize("opening", ["(", "not "])
def test_a_condition_nested_too_deeply_is_refused_before_python_gives_up(opening: str) -> None:
    with pytest.raises(ConditionError, match="nested more than 100 levels deep"):
        parse(opening * 5000 + "size<1")


PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"


def test_every_condition_of_the_page_can_be_read() -> None:
    conditions = re.findall(r"--jsbench-where '([^']+)'", PAGE.read_text("utf-8"))

    assert len(conditions) >= 3
    assert all(parse(text) for text in conditions)


def test_the_page_names_every_field_and_feature() -> None:
    named = set(re.findall(r"`([a-z]+)(?=[:<`])", PAGE.read_text("utf-8")))

    assert named >= {*FIELDS, *FEATURES}


def test_a_case_is_trivial_where_a_constant_answer_conforms() -> None:
    schemas: dict[str, Schema] = {
        "wide": {"properties": {"a": {}}},
        "asks": {"required": ["a"], "type": "object"},
        "number": {"const": 0},
    }

    def read(key: CaseKey) -> Case:
        return Case(key=key, schema=schemas[key.id])

    keys = [CaseKey(task="t", id=name) for name in schemas]
    listing = Listing(entries={key: ListedCase(task="t", name=key.id, where="here", read=read) for key in keys})
    names = {
        text: [key.id for key in find_matching(parse(text), listing, default_dialect=DRAFT_2020_12.uri)]
        for text in ("trivial", "not trivial and keywords:required")
    }

    assert names == {"trivial": ["wide", "number"], "not trivial and keywords:required": ["asks"]}


def test_conditions_on_a_case_with_tools_look_at_the_schemas_of_the_tools() -> None:
    tools = (
        OfferedTool(name="a", parameters={"type": "object", "properties": {"n": {"pattern": "x"}}}),
        OfferedTool(name="b", parameters={"type": "object", "required": ["m"]}),
    )
    case = Case(key=KEY, schema=True, offer=ToolOffer(tools=tools))
    with Judge() as judge:
        listed = ListedCase(task=KEY.task, name=KEY.id, where="here", read=lambda _: case)
        asked = Subject(Listing(entries={KEY: listed}), KEY, DRAFT_2020_12.uri, judge)
        assert parse("keywords:pattern and keywords:required and feature:pattern and depth=2")(asked) is True
        assert parse("trivial")(asked) is None
