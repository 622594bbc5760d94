from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pytest_jsbench.core.errors import ClassifierError
from pytest_jsbench.records.records import Record
from pytest_jsbench.run.classifiers import Classifier, classify, find
from tests.support import examples
from tests.support.examples import record, replace
from tests.support.packages import install

OWN = """
def negative(record):
    return "negative_number" if record.verdict.keyword == "minimum" else None


kinds = ["a"]


def letters(record):
    return sum(letter.isalpha() for letter in record.generation.text), len(record.generation.text)
"""
PROJECT = """
[project]
name = "classifying"
version = "2.1"
[project.entry-points."pytest_jsbench.classifiers"]
negative = "jsbench_own_classifier:negative"
kinds = "jsbench_own_classifier:kinds"
[project.entry-points."pytest_jsbench.metrics"]
letters = "jsbench_own_classifier:letters"
lost = "jsbench_own_classifier:lost"
"""
FAILED = record("a", verdict=examples.VIOLATED, schema={"type": "object"})


def classifier(function: object, name: str = "mine") -> Classifier:
    return Classifier(name=name, origin="a test", function=function)  # type: ignore[arg-type]  # some are not functions


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jsbench_own_classifier", raising=False)
    install(tmp_path / "site", {"jsbench_own_classifier.py": OWN, "pyproject.toml": PROJECT}, monkeypatch)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("name", ["negative", "jsbench_own_classifier:negative"])
def test_an_installed_package_or_a_function_classifies(name: str) -> None:
    assert classify(FAILED, [find(name)])[0] == replace(FAILED, codes=("negative_number",))


@pytest.mark.usefixtures("own")
def test_an_installed_metric_counts_of_each_answer_and_of_no_broken_call() -> None:
    metric = find("letters")

    assert classify(record("a"), [metric])[0].scores == {"letters": (1, 8)}
    assert classify(FAILED, [metric, find("negative")])[0].codes == ("negative_number",)
    broken = record("a", verdict=examples.BROKEN, generation=examples.failed())
    assert classify(broken, [metric])[0] == broken
    assert Record.from_dict(classify(FAILED, [metric])[0].to_dict()).scores == {"letters": (1, 8)}


@pytest.mark.parametrize(
    ("result", "scores", "error"),
    [
        (True, {"mine": (1, 1)}, None),
        ((0, 0), {"mine": (0, 0)}, None),
        (None, {}, None),
        ((3, 2), {}, "metric 'mine', a test, returned (3, 2); expected None, True, False, or two counts"),
        (0.5, {}, "metric 'mine', a test, returned 0.5; expected None"),
        ((1.0, 2), {}, "metric 'mine', a test, returned (1.0, 2); expected None"),
    ],
)
def test_metric_returns_a_pair_of_integers_or_is_rejected(
    result: object, scores: dict[str, tuple[int, int]], error: str | None
) -> None:
    classified, errors = classify(record("a"), [replace(classifier(lambda _: result), counts=True)])

    assert classified.scores == scores
    assert [message.startswith(error or "") for message in errors] == [True] * (error is not None)


def test_codes_of_several_classifiers_add_up_each_once() -> None:
    given = iter(["b", None, "a", "b"])

    classified, errors = classify(FAILED, [classifier(lambda _: next(given))] * 4)

    assert classified.codes == ("b", "a")
    assert errors == ()


@pytest.mark.parametrize("attempt", [record("a"), record("a", verdict=examples.EXCLUDED)], ids=["passed", "excluded"])
def test_passed_attempt_is_not_classified(attempt: Record) -> None:
    shown: list[Record] = []

    classified, _ = classify(replace(attempt, codes=("of_an_earlier_verdict",)), [classifier(shown.append)])

    assert classified == attempt
    assert shown == []


def test_a_classifier_cannot_change_the_record() -> None:
    def meddle(seen: Record) -> str:
        assert isinstance(seen.schema, dict)
        seen.schema.clear()
        return "meddled"

    classified, _ = classify(FAILED, [classifier(meddle)])

    assert classified == replace(FAILED, codes=("meddled",))
    assert classified.schema == {"type": "object"}


def refuse(_: Record) -> str:
    raise ValueError("no\nmood \x1b[31m")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def despair(_: Record) -> str:
    raise Unspeakable


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (despair, "raised Unspeakable"),
        (lambda _: Unspeakable(), "returned a Unspeakable; expected None or a code"),
        (lambda _: sys.exit(3), "raised SystemExit: 3"),
        (lambda _: pytest.skip("not mine"), "raised Skipped: not mine"),
        (refuse, "raised ValueError: no mood \\x1b[31m"),
        (lambda _: [1, Unspeakable()], "returned a list; expected None or a code"),
        (lambda _: 10**5000, "returned an int; expected None or a code"),
        (lambda _: 3, "returned 3; expected None or a code such as 'refusal_in_german' that is not a failure type"),
        (lambda _: "Bad Code", "returned 'Bad Code'; expected None or a code"),
        (lambda _: "truncated", "returned 'truncated'; expected None or a code"),
        (lambda _: "x" * 65, "expected None or a code"),
    ],
)
def test_a_classifier_that_breaks_loses_no_record_and_no_other_code(function: object, message: str) -> None:
    classified, errors = classify(FAILED, [classifier(function), classifier(lambda _: "fine")])

    assert classified == replace(FAILED, codes=("fine",))
    (error,) = errors
    assert error.startswith("classifier 'mine', a test, ")
    assert message in error
    assert "\n" not in error


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kinds", "classifier 'kinds', jsbench_own_classifier:kinds (package classifying 2.1), is a list; expected a"),
        (
            "negativ",
            "unknown classifier or metric 'negativ': did you mean 'negative'? (one of kinds, letters, lost, neg",
        ),
        ("lost", "metric 'lost': cannot import jsbench_own_classifier:lost (package classifying 2.1): Attribute"),
    ],
)
def test_invalid_classifier_is_rejected_in_one_line(name: str, message: str) -> None:
    with pytest.raises(ClassifierError, match=f"^{re.escape(message)}"):
        find(name)


def test_error_explains_custom_prompts_if_none_are_installed() -> None:
    with pytest.raises(ClassifierError, match=r"^unknown classifier or metric 'german': expected package\.module:fun"):
        find("german")
