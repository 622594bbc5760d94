from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.adaptation import Change
from pytest_jsbench.cli.main import main
from pytest_jsbench.core.generations import Completion, ResponseFormat, Sent
from pytest_jsbench.records import journal
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.rejudging import judge_again, order_kept
from pytest_jsbench.verdicts import FailureType, Judge, Note
from tests.support import examples
from tests.support.examples import record, replace

SCHEMA = {"type": "object", "properties": {"n": {"minimum": 5}}}
WIDENED = Change(kind="widened", keyword="minimum", path="/properties/n", note="left out")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


def test_adaptation_loss_note_is_kept_in_a_run_and_on_the_command_line(judge: Judge, tmp_path: Path) -> None:
    widened = replace(record("a", schema=SCHEMA, verdict=examples.VIOLATED), changes=(WIDENED,))
    journal.write(tmp_path / "records.jsonl", examples.metadata(), [widened])
    out = io.StringIO()

    main(["judge", str(tmp_path), "--json"], out=out)

    assert judge_again(widened, judge).verdict.notes == (Note.ADAPTATION_LOSS,)
    assert json.loads(out.getvalue())["notes"] == ["adaptation_loss"]


def test_not_enforced_note_is_set_when_judged_and_when_rejudged(judge: Judge) -> None:
    made = examples.completion()
    assert isinstance(made, Completion)
    left_out = Sent(response_format=ResponseFormat.TEXT, left_out=True)
    held = replace(left_out, left_out=False)

    found = {
        sent: judge_again(record("a", schema=SCHEMA, generation=replace(made, sent=sent)), judge).verdict.notes
        for sent in (left_out, held)
    }

    assert found == {left_out: (Note.NOT_ENFORCED,), held: ()}


def test_adaptation_loss_note_needs_a_removed_and_violated_keyword(judge: Judge) -> None:
    other = replace(record("a", schema=SCHEMA), changes=(replace(WIDENED, keyword="maximum"),))
    kept = replace(record("a", schema=SCHEMA), changes=(replace(WIDENED, kind="tightened"),))
    passed = replace(record("a", schema=True), changes=(WIDENED,))

    assert [judge_again(one, judge).verdict.notes for one in (other, kept, passed)] == [(), (), ()]


def test_rejudging_keeps_records_without_a_call(judge: Judge) -> None:
    excluded = record("a", verdict=examples.EXCLUDED)

    assert judge_again(excluded, judge) is excluded
    assert excluded.verdict.failure_type is FailureType.INVALID_SCHEMA


LISTED = {
    "properties": {"city": {"enum": ["Oslo", "Paris", 7]}, "deep": {"items": {"$ref": "#/$defs/kind"}}},
    "$defs": {"kind": {"const": "Fjord"}},
}


@pytest.mark.parametrize(
    ("answer", "notes"),
    [
        ('{"city": "oslo"}', (Note.CAPITALS,)),
        ('{"deep": ["FJORD"]}', (Note.CAPITALS,)),
        ('{"city": "OSLO", "deep": ["lake"]}', (Note.CAPITALS,)),
        ('{"city": "oslo ", "deep": ["lake"], "more": "Oslo"}', ()),
        ('{"city": "Oslo", "deep": ["Fjord"]}', ()),
    ],
)
def test_a_listed_value_in_other_capitals_fails_and_is_noted(
    judge: Judge, answer: str, notes: tuple[Note, ...]
) -> None:
    judged = judge_again(record("a", schema=LISTED, generation=examples.completion(text=answer)), judge).verdict
    assert judged.notes == notes
    assert judged.passed is (answer == '{"city": "Oslo", "deep": ["Fjord"]}')


def test_property_order_is_recorded_for_conforming_answers_only(judge: Judge) -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {}}}
    kept = {}
    for text in ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"b": 2, "a": "1"}', '{"a": 1}'):
        asked = record("a", schema=schema, generation=examples.completion(text=text))
        judged = judge_again(asked, judge)
        kept[text] = judged.verdict.order_kept
        assert judged.verdict.passed is (kept[text] is not None or text == '{"a": 1}')
    assert list(kept.values()) == [True, False, None, None]


def test_verdict_has_the_passing_constant_answers_for_any_outcome(judge: Judge) -> None:
    wide, narrow = {"minProperties": 0}, {"type": "object", "required": ["a"]}

    found = [judge_again(record("a", schema=schema), judge).verdict.trivial for schema in (wide, narrow)]

    assert found == [("{}", "[]", '""', "0", "true", "null"), ()]
    assert judge.constants({"type": 1}) is None


AB: dict[str, Any] = {"properties": {"a": {}, "b": {}}}


@pytest.mark.parametrize(
    ("schema", "instance", "kept"),
    [
        (AB, {"a": 1, "b": 2}, True),
        (AB, {"b": 1, "a": 2}, False),
        (AB, {"a": 1}, None),
        (AB, {"x": 1, "a": 2, "y": 3, "b": 4}, True),
        (AB, [{"b": 1, "a": 2}], None),
        (True, {"b": 1, "a": 2}, None),
        ({"items": AB}, [{"a": 1, "b": 2}, {"b": 1, "a": 2}], False),
        ({"items": AB}, [{"a": 1, "b": 2}, {"a": 1}], True),
        ({"prefixItems": [{}], "items": AB}, [{"b": 1, "a": 2}, {"a": 1, "b": 2}], True),
        ({"properties": {"a": AB}}, {"a": {"b": 1, "a": 2}}, False),
        ({"$ref": "#/$defs/ab", "$defs": {"ab": AB}}, {"b": 1, "a": 2}, False),
        ({"allOf": [AB, {"properties": {"c": {}, "d": {}}}]}, {"c": 1, "a": 2, "b": 3, "d": 4}, True),
        ({"allOf": [AB, {"properties": {"c": {}, "d": {}}}]}, {"a": 2, "b": 3, "d": 4, "c": 1}, False),
        ({"anyOf": [AB, {"properties": {"b": {}, "a": {}}}]}, {"b": 1, "a": 2}, None),
        ({"properties": {"a": {"$ref": "#"}, "b": {}}}, {"a": {"a": {"b": 1, "a": {}}}, "b": 1}, False),
    ],
)
def test_property_order_is_checked_by_each_objects_schema(schema: Any, instance: Any, kept: bool | None) -> None:
    assert order_kept(schema, instance) is kept


def test_circular_reference_terminates() -> None:
    assert order_kept({"$ref": "#"}, {"a": 1, "b": 2}) is None
    assert order_kept({**AB, "allOf": [{"$ref": "#"}]}, {"a": 1, "b": 2}) is True


def test_property_order_is_unknown_for_very_many_objects() -> None:
    assert order_kept({"items": AB}, [{"a": 1, "b": number} for number in range(5_000)]) is None


def test_runaways_are_noted_on_answers_that_conform(judge: Judge) -> None:
    ran_away = examples.completion('{"n": 5' + "\n" * 193 + "}")
    twice = examples.completion('{"n": 5, "a": "' + "no " * 60 + '", "b": "' + " " * 200 + '"}')

    judged = [judge_again(record("a", schema=True, generation=each), judge) for each in (ran_away, twice)]

    assert [each.verdict.passed for each in judged] == [True, True]
    assert [each.verdict.notes for each in judged] == [(Note.WHITESPACE,), (Note.WHITESPACE, Note.REPEATING)]
    assert judged[0].verdict.runaway_share == 0.96
    assert AttemptFacts.of(judged[0]).runaway_share == 0.96
    assert "runaway_share" not in judge_again(record("a", schema=True), judge).to_dict()["verdict"]
