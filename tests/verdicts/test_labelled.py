from __future__ import annotations

import pytest

from pytest_jsbench.verdicts import Judge, JudgePolicy, SecondOpinion, Verdict
from tests.fuzzing import at_least, each, needs_all_data
from tests.verdicts.data import labelled, needs_labels

pytestmark = needs_labels


@pytest.fixture(scope="module")
def judged() -> list[tuple[str, Verdict, bool]]:
    with Judge(JudgePolicy(validator="jsonschema-rs")) as judge:
        return [(name, judge.judge(schema, text), valid) for name, schema, text, valid in labelled(every=each(1))]


def test_the_judge_agrees_with_every_label(judged: list[tuple[str, Verdict, bool]]) -> None:
    assert len(judged) > at_least(14_000)
    wrong = [(name, verdict) for name, verdict, valid in judged if verdict.valid is not valid]
    assert wrong == []


@needs_all_data
def test_hallucinations_among_valid_answers_are_as_rare_as_was_found_by_hand(
    judged: list[tuple[str, Verdict, bool]],
) -> None:
    verdicts = [verdict for _, verdict, valid in judged if valid]
    flagged = sum(bool(verdict.extra_fields) for verdict in verdicts)
    assert flagged / len(verdicts) == pytest.approx(0.030, abs=0.001)


def test_the_second_opinion_disputes_no_labelled_verdict() -> None:
    with Judge(JudgePolicy(validator="both")) as judge:
        opinions = {
            (verdict.second_opinion, verdict.valid is valid)
            for _, schema, text, valid in labelled(every=each(15))
            for verdict in [judge.judge(schema, text)]
        }
    assert opinions == {(SecondOpinion.AGREES, True)}
