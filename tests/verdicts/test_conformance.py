from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from pytest_jsbench.schemas.dialects import DIALECTS, DRAFT_2019_09, Dialect
from pytest_jsbench.verdicts import Judge, JudgePolicy, SecondOpinion, Verdict
from pytest_jsbench.verdicts.in_process import InProcessJudge
from tests.support.bundles import bundle
from tests.support.fuzzing import at_least, each, needs_all_data
from tests.support.public_data import labelled, needs_labels, needs_suite, suite

#: Name, schema, text and label.
Answer = tuple[str, Any, str, bool]


@pytest.fixture(scope="module")
def answers() -> list[Answer]:
    return list(labelled(every=each(1)))


@pytest.fixture(scope="module")
def judged(answers: list[Answer]) -> list[tuple[str, Verdict, bool]]:
    judge = InProcessJudge(JudgePolicy(validator="jsonschema-rs"))
    verdicts = []
    for name, schema, text, valid in answers:
        *_, verdict = judge.judge(json.dumps(schema), text, truncated=False)
        verdicts.append((name, verdict, valid))
    return verdicts


@pytest.mark.slow
@needs_labels
def test_the_judge_agrees_with_every_label(judged: list[tuple[str, Verdict, bool]]) -> None:
    assert len(judged) > at_least(14_000)
    wrong = [(name, verdict) for name, verdict, valid in judged if verdict.valid is not valid]
    assert wrong == []


@pytest.mark.slow
@needs_labels
@needs_all_data
def test_rate_of_invented_fields_matches_manual_review(
    judged: list[tuple[str, Verdict, bool]],
) -> None:
    verdicts = [verdict for _, verdict, valid in judged if valid]
    flagged = sum(bool(verdict.extra_fields) for verdict in verdicts)
    assert flagged / len(verdicts) == pytest.approx(0.030, abs=0.001)


@pytest.mark.slow
@needs_labels
def test_the_second_opinion_disputes_no_labelled_verdict(judge: Judge, answers: list[Answer]) -> None:
    opinions = set()
    for _, schema, text, valid in answers[::15]:
        verdict = judge.judge(schema, text)
        opinions.add((verdict.second_opinion, verdict.valid is valid))
    assert opinions == {(SecondOpinion.AGREES, True)}


FOLDERS = dict(zip(DIALECTS, ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"), strict=True))
#: Number of tests, so that an incomplete copy of the suite does not pass.
TESTS = {"draft4": 937, "draft6": 1270, "draft7": 1721, "draft2019-09": 2174, "draft2020-12": 2225}


def suite_verdicts(
    dialect: Dialect, validator: Literal["both", "jsonschema-rs"] = "jsonschema-rs", files: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, str, str], dict[str, Any], Verdict]]:
    """Yield each test of the suite for that dialect: its case, the test, and its verdict."""
    judges = {
        formats: InProcessJudge(JudgePolicy(default_dialect=dialect.uri, formats=formats, validator=validator))
        for formats in ("assert", "ignore")
    }
    for file, case in suite(FOLDERS[dialect]):
        if files and file not in files:
            continue
        # elsewhere the suite expects formats and contents to be annotations only
        judge = judges["assert" if file.startswith("optional/format/") or file == "optional/content.json" else "ignore"]
        schema = json.dumps(bundle(case["schema"], dialect))
        for test in case["tests"]:
            *_, verdict = judge.judge(schema, json.dumps(test["data"]), truncated=False)
            yield (FOLDERS[dialect], file, case["description"]), test, verdict


@needs_suite
@pytest.mark.parametrize("dialect", DIALECTS, ids=FOLDERS.__getitem__)
def test_every_verdict_is_that_of_the_official_suite(dialect: Dialect) -> None:
    wrong, tests = [], 0
    for case, test, verdict in suite_verdicts(dialect):
        tests += 1
        if verdict.valid is not test["valid"]:
            wrong.append((*case, test["description"], verdict.message))
    assert wrong == []
    assert tests >= TESTS[FOLDERS[dialect]]


@needs_suite
@pytest.mark.parametrize("dialect", DIALECTS[3:], ids=FOLDERS.__getitem__)
def test_the_second_opinion_reads_vocabularies_and_dependencies_too(dialect: Dialect) -> None:
    files = ("vocabulary.json", "optional/format-assertion.json", "optional/dependencies-compatibility.json")
    opinions = [(test["valid"], verdict) for (_, file, _), test, verdict in suite_verdicts(dialect, "both", files)]
    assert len(opinions) == (41 if dialect is DRAFT_2019_09 else 45)
    assert all(verdict.valid is valid for valid, verdict in opinions)
    assert {verdict.second_opinion for _, verdict in opinions} == {SecondOpinion.AGREES}
