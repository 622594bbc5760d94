"""Check redaction: what a record keeps, and what its digests reveal."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from pytest_jsbench.adaptation import Change
from pytest_jsbench.core.cases import Expected, Prompt
from pytest_jsbench.core.generations import Completion
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.core.messages import Message
from pytest_jsbench.metrics.summary import group_by_keyword
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.redaction import Redaction, has_same_prompt
from pytest_jsbench.values import match
from tests.support import examples
from tests.support.conversation import PROMPT as CONVERSATION
from tests.support.examples import replace

SCHEMA: dict[str, Any] = {"properties": {"secret": {"minimum": 3, "x-secret": 1}}, "examples": ["secret"]}
PROMPT = Prompt(messages=(Message(role="system", content="secret"), Message(role="user", content="yes")))


def answered(text: str = "yes") -> Record:
    generation = replace(examples.completion(), text=text, reasoning="secret")
    assert isinstance(generation, Completion)
    change = Change(kind="widened", keyword="minimum", path="/properties/secret", note="secret is left out")
    return replace(
        examples.record("a", generation=generation, verdict=examples.VIOLATED),
        schema=SCHEMA,
        prompt=PROMPT,
        changes=(change,),
        reference={"secret": 1},
    )


def text_of(record: Record) -> str:
    assert isinstance(record.generation, Completion)
    return record.generation.text


def test_redacted_record_has_only_digests_keywords_and_figures() -> None:
    record = Redaction.new().record(answered())

    message = json.dumps(record.to_dict())
    assert "secret" not in message
    assert record.schema_digest == digest(SCHEMA)
    assert group_by_keyword([AttemptFacts.of(record)]) == group_by_keyword([AttemptFacts.of(answered())])
    assert (record.verdict.failure_type, record.changes[0].keyword) == (examples.VIOLATED.failure_type, "minimum")
    assert Record.from_dict(json.loads(message)) == record


def test_as_many_values_are_missing_and_given_as_before() -> None:
    expected = Expected(value={"secret": 1, "b": 2, "c": 3})
    found = match(expected, {"secret": 1, "b": 9, "other": 4, "more": 5})

    redacted = Redaction.new().record(replace(answered(), match=found, expected=expected))

    kept = redacted.match
    assert redacted.expected is None
    assert kept is not None
    assert (kept.right, kept.expected, kept.missing, kept.given) == (1, 3, 1, 4)
    assert kept.surplus == {"(redacted)": 1}
    assert kept.fields == {"(redacted)": (1, 3)}


def test_an_answer_cannot_be_guessed_and_equal_answers_of_a_run_are_equal() -> None:
    redaction, other = Redaction.new(), Redaction.new()

    found = text_of(redaction.record(answered("yes")))

    assert found == text_of(redaction.record(answered("yes")))
    assert found != text_of(redaction.record(answered("no")))
    assert found != text_of(other.record(answered("yes")))
    assert hashlib.sha256(b"yes").hexdigest() not in found
    assert redaction.key not in repr(redaction)
    assert redaction.key not in json.dumps(redaction.record(answered()).to_dict())


@pytest.mark.parametrize("redacted", [True, False])
def test_a_prompt_is_known_again_by_any_later_run(redacted: bool) -> None:
    record = Redaction.new().record(answered()) if redacted else answered()
    reworded = Prompt(messages=(*PROMPT.messages[:1], Message(role="user", content="no")))

    assert has_same_prompt(record, PROMPT)
    assert not has_same_prompt(record, reworded)
    assert not has_same_prompt(replace(record, prompt=None), PROMPT)


def test_redaction_is_idempotent() -> None:
    record = Redaction.new().record(answered())

    assert Redaction.new().record(record) is record


def test_redaction_removes_tool_calls_and_keeps_the_prompt_comparable() -> None:
    record = Redaction.new().record(replace(answered(), prompt=CONVERSATION))

    message = json.dumps(record.to_dict()["prompt"])
    assert not [word for word in ("find_order", "Oslo", "lost", "7}") if word in message]
    assert has_same_prompt(Record.from_dict(json.loads(json.dumps(record.to_dict()))), CONVERSATION)
    assert not has_same_prompt(record, Prompt(messages=CONVERSATION.messages[:5]))
