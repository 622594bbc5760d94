from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_jsbench import judge
from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.errors import PromptError
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import load_builtin, open_builtin
from pytest_jsbench.prompts import PROMPTS, find_template
from pytest_jsbench.prompts.named import KINDS, MOST_SHOTS, Example, _load, examples_of
from tests.support.packages import install

SCHEMA = {
    "properties": {
        "dimensions": {"type": "object", "properties": {"width": {"type": "number"}}},
        "shape": {"description": "The shape for which to calculate the area", "type": "string"},
        "note": {"type": ["string", "null"]},
        "any": True,
    },
    "required": ["shape", "dimensions"],
    "type": "object",
}
CASE = Case(key=CaseKey(task="t", id="calculate_area_88ee549f"), schema=SCHEMA)


def test_the_schema_prompt_is_seed_002_to_the_letter() -> None:
    prompt = find_template("schema").render(Case(key=CASE.key, schema={"type": "string"}))

    assert prompt.to_messages() == [
        {
            "role": "user",
            "content": "You need to generate a JSON object that matches the schema below. \n"
            "Do not include the schema in the output and DIRECTLY return the JSON object without any additional "
            'information. \nThe schema is: {"type": "string"}',
        }
    ]


def test_the_fields_prompt_is_seed_003_to_the_letter() -> None:
    system, user = find_template("fields").render(CASE).to_messages()

    assert system["role"] == "system"
    assert system["content"].startswith("You are a helpful assistant that generates valid JSON.\nYou MUST output ONLY")
    assert system["content"].endswith("\nDo not add any fields not specified in the schema.")
    assert user["content"].startswith(
        "Generate a valid JSON object (task: calculate_area_88ee549f)\n"
        "Fields: 'dimensions' (object) [REQUIRED]; 'shape' (string) [REQUIRED]; 'note' (string or null); 'any' (any)\n"
        '\nRequired JSON Schema:\n{\n  "properties": {\n'
    )


@pytest.mark.parametrize("schema", [True, {}, {"type": "array"}, {"properties": []}, {"required": "a"}])
def test_the_fields_prompt_does_without_fields(schema: object) -> None:
    _, user = find_template("fields").render(Case(key=CASE.key, schema=schema)).to_messages()  # type: ignore[arg-type]

    assert "Fields:" not in user["content"]


def test_schema_with_braces_is_not_a_template() -> None:
    prompt = find_template("schema").render(Case(key=CASE.key, schema={"const": "{schema} {0}"}))

    assert prompt.messages[0].content.endswith('The schema is: {"const": "{schema} {0}"}')


def test_an_unknown_preset_is_one_line_with_the_known_ones() -> None:
    with pytest.raises(
        PromptError,
        match=r"unknown prompt 'schemas': did you mean 'schema'\? \(one of chat, fields, schema\), or a Jinja2 file",
    ):
        find_template("schemas")


def test_the_chat_prompt_is_the_messages_of_the_benchmark() -> None:
    assert find_template("chat").render(Case(key=CASE.key, schema={"type": "string"})).to_messages() == [
        {"role": "system", "content": "You need to generate a JSON object that matches the schema below."},
        {"role": "user", "content": '{"type": "string"}'},
    ]


@pytest.mark.parametrize("name", ["schema", "fields", "chat"])
def test_a_schema_is_written_as_the_seeds_write_it_and_can_always_be_sent(name: str) -> None:
    prompt = find_template(name).render(Case(key=CASE.key, schema={"title": "é\ud800"}))

    assert '"title": "\\u00e9\\ud800"' in prompt.messages[-1].content


def test_each_preset_has_its_own_digest() -> None:
    digests = {name: template.digest for name, template in PROMPTS.items()}

    assert len(set(digests.values())) == 3
    assert digests["chat"] == digest(["chat", "You need to generate a JSON object that matches the schema below."])


SOURCE = """
from pytest_jsbench import Message, Prompt

def text(case): return f"Answer {case.key.id}"
def mappings(case): return [{"role": "system", "content": "Rules"}, {"role": "user", "content": "?"}]
def messages(case): return (Message(role="user", content="?"),)
def prompt(case): return Prompt(messages=(Message(role="user", content="?"),))
def nothing(case): return None
def empty(case): return " "
def no_messages(case): return []
def no_role(case): return [{"content": "?"}]
def broken(case): raise ValueError("two\\nlines")
number = 7
"""
CASE_2 = Case(key=CaseKey(task="orders", id="o1"), schema={})


@pytest.fixture(autouse=True)
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "asking_mine", raising=False)
    (tmp_path / "asking_mine.py").write_text(SOURCE)
    return tmp_path / "asking_mine.py"


def rendered(name: str) -> list[tuple[str, str]]:
    prompt = find_template(f"asking_mine:{name}").render(CASE_2)
    return [(message.role, message.content) for message in prompt.messages]


def test_a_function_returns_text_messages_or_a_prompt() -> None:
    assert rendered("text") == [("user", "Answer o1")]
    assert rendered("mappings") == [("system", "Rules"), ("user", "?")]
    assert rendered("messages") == rendered("prompt") == [("user", "?")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "returned nothing for orders::o1; expected text, a Prompt"),
        ("empty", "returned an empty text for orders::o1; expected text"),
        ("no_messages", "returned a list for orders::o1; expected text"),
        (
            "no_role",
            r"returned messages for orders::o1 that cannot be sent: messages\[0\].role is None; expected one of system",
        ),
        ("broken", "raised ValueError: two lines$"),
    ],
)
def test_a_function_that_gives_or_raises_anything_else_is_one_line(name: str, message: str) -> None:
    with pytest.raises(PromptError, match=f"asking_mine:{name} {message}"):
        rendered(name)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("asking_mine:txt", r"has no 'txt': did you mean 'text'\?"),
        ("asking_mine:number", "is an int; expected a function that takes a case"),
        ("no_such_module_at_all:f", "cannot import no_such_module_at_all"),
    ],
)
def test_reference_to_no_function_is_one_line(reference: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        find_template(reference)


def test_its_digest_changes_with_its_module_and_its_name(asking: Path) -> None:
    text, prompt = (find_template(f"asking_mine:{name}").digest for name in ("text", "prompt"))
    asking.write_text(SOURCE + "\n# changed\n")

    assert text is not None
    assert len({text, prompt, find_template("asking_mine:text").digest}) == 3


def test_an_installed_package_brings_a_prompt_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = '[project]\nname = "asking"\nversion = "1.0"\n[project.entry-points."pytest_jsbench.prompts"]\n'
    points = 'polite = "asking_mine:text"\nseven = "asking_mine:number"\nschema = "asking_mine:text"\n'
    install(tmp_path / "site", {"pyproject.toml": project + points}, monkeypatch)

    template = find_template("polite")

    assert [message.content for message in template.render(CASE_2).messages] == ["Answer o1"]
    assert template.name == "polite"
    assert template.digest != find_template("asking_mine:text").digest
    assert find_template("schema").render(CASE_2).messages[0].content.startswith("You need to")
    with pytest.raises(
        PromptError, match=r"prompt 'seven', asking_mine:number .*, is an int; expected a function that takes a case"
    ):
        find_template("seven")
    with pytest.raises(PromptError, match=r"unknown prompt 'polit': did you mean 'polite'\?"):
        find_template("polit")


QUESTION = Case(key=CaseKey(task="Glaiveai2K", id="c"), schema={"type": "string"})
EXAMPLES = [(kind, example) for kind in KINDS for example in _load(kind)]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES, ids=[f"{kind}-{example.id}" for kind, example in EXAMPLES])
def test_an_example_teaches_no_mistake(kind: str, example: Example) -> None:
    assert judge(example.schema, json.dumps(example.instance)).passed


def test_there_are_as_many_examples_of_each_kind_and_none_twice() -> None:
    assert {len(_load(kind)) for kind in KINDS} == {MOST_SHOTS}
    assert len({digest(example.schema) for _, example in EXAMPLES}) == len(EXAMPLES)


def test_no_example_gives_a_built_in_case_away() -> None:
    builtin = {digest(load_builtin(key)["schema"]) for key in open_builtin(Selection()).keys()}

    assert builtin.isdisjoint(digest(example.schema) for _, example in EXAMPLES)


def test_examples_precede_the_question_as_in_the_benchmark() -> None:
    first, second = examples_of("Glaiveai2K")[:2]

    assert find_template("chat", shots=2).render(QUESTION).to_messages() == [
        {"role": "system", "content": "You need to generate a JSON object that matches the schema below."},
        {"role": "user", "content": json.dumps(first.schema)},
        {"role": "assistant", "content": json.dumps(first.instance)},
        {"role": "user", "content": json.dumps(second.schema)},
        {"role": "assistant", "content": json.dumps(second.instance)},
        {"role": "user", "content": '{"type": "string"}'},
    ]


def test_examples_are_rendered_with_the_template_of_the_case() -> None:
    messages = find_template("fields", shots=1).render(QUESTION).messages

    assert [message.role for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[1].content.startswith("Generate a valid JSON object (task: convert_currency)\nFields: 'amount' (")


def test_each_task_has_examples_of_its_kind_and_any_other_the_general_ones() -> None:
    assert examples_of("Github_easy") == examples_of("Github_ultra") != examples_of("Kubernetes")
    assert examples_of("simple") == examples_of("orders") == _load("general")


def test_each_number_of_examples_has_its_own_digest() -> None:
    assert find_template("chat", shots=0) is find_template("chat")
    assert len({find_template("chat", shots=shots).digest for shots in range(4)}) == 4


def test_more_examples_than_there_are_is_one_line() -> None:
    with pytest.raises(PromptError, match=r"--jsbench-shots=4: there are 3 examples for each task; expected 0 to 3"):
        find_template("chat", shots=4)
