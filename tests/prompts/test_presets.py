from __future__ import annotations

import pytest

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.errors import PromptError
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.prompts import PRESETS, find_template

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


def test_a_schema_that_holds_braces_is_not_a_template() -> None:
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


def test_each_preset_has_a_digest_of_its_own_words() -> None:
    digests = {name: template.digest for name, template in PRESETS.items()}

    assert len(set(digests.values())) == 3
    assert digests["chat"] == digest(["chat", "You need to generate a JSON object that matches the schema below."])
