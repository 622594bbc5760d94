from __future__ import annotations

import json

import pytest

from pytest_jsbench import judge
from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.errors import PromptError
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.sources.folder import load, open_builtin
from pytest_jsbench.prompts import find_template
from pytest_jsbench.prompts.shots import KINDS, MOST_SHOTS, Example, _load, examples_of

CASE = Case(key=CaseKey(task="Glaiveai2K", id="c"), schema={"type": "string"})
EXAMPLES = [(kind, example) for kind in KINDS for example in _load(kind)]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES, ids=[f"{kind}-{example.id}" for kind, example in EXAMPLES])
def test_an_example_teaches_no_mistake(kind: str, example: Example) -> None:
    assert judge(example.schema, json.dumps(example.instance)).passed


def test_there_are_as_many_examples_of_each_kind_and_none_twice() -> None:
    assert {len(_load(kind)) for kind in KINDS} == {MOST_SHOTS}
    assert len({digest(example.schema) for _, example in EXAMPLES}) == len(EXAMPLES)


def test_no_example_gives_a_built_in_case_away() -> None:
    builtin = {digest(load(key)["schema"]) for key in open_builtin(Selection()).keys()}

    assert builtin.isdisjoint(digest(example.schema) for _, example in EXAMPLES)


def test_examples_stand_before_the_question_as_the_benchmark_puts_them() -> None:
    first, second = examples_of("Glaiveai2K")[:2]

    assert find_template("chat", shots=2).render(CASE).to_messages() == [
        {"role": "system", "content": "You need to generate a JSON object that matches the schema below."},
        {"role": "user", "content": json.dumps(first.schema)},
        {"role": "assistant", "content": json.dumps(first.instance)},
        {"role": "user", "content": json.dumps(second.schema)},
        {"role": "assistant", "content": json.dumps(second.instance)},
        {"role": "user", "content": '{"type": "string"}'},
    ]


def test_any_template_asks_an_example_as_it_asks_the_case() -> None:
    messages = find_template("fields", shots=1).render(CASE).messages

    assert [message.role for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[1].content.startswith("Generate a valid JSON object (task: convert_currency)\nFields: 'amount' (")


def test_each_task_has_examples_of_its_kind_and_any_other_the_general_ones() -> None:
    assert examples_of("Github_easy") == examples_of("Github_ultra") != examples_of("Kubernetes")
    assert examples_of("simple") == examples_of("orders") == _load("general")


def test_no_examples_change_nothing_and_each_number_has_a_digest_of_its_own() -> None:
    assert find_template("chat", shots=0) is find_template("chat")
    assert len({find_template("chat", shots=shots).digest for shots in range(4)}) == 4


def test_more_examples_than_there_are_is_one_line() -> None:
    with pytest.raises(PromptError, match=r"--jsbench-shots=4: there are 3 examples for each task; expected 0 to 3"):
        find_template("chat", shots=4)
