"""The prompts that have a name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_jsbench.core.cases import Case, Schema
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.prompts import Prompt, PromptTemplate, Template

#: of the benchmark itself, to the letter (the spaces before the line ends are the original's)
_SCHEMA_TEMPLATE = (
    "You need to generate a JSON object that matches the schema below. \n"
    "Do not include the schema in the output and DIRECTLY return the JSON object without any additional"
    " information. \n"
    "The schema is: {schema}"
)

#: rules for a system message, to the letter
_FIELDS_SYSTEM = (
    "You are a helpful assistant that generates valid JSON.\n"
    "You MUST output ONLY a valid JSON object that strictly adheres to the provided schema.\n"
    "Do not include any text, explanation, or markdown formatting - only the raw JSON object.\n"
    "Do not add any fields not specified in the schema."
)
_FIELDS_TEMPLATE = "Generate a valid JSON object (task: {id})\nFields: {fields}\n\nRequired JSON Schema:\n{schema}"

#: the messages of JSONSchemaBench's own runs
_CHAT_SYSTEM = "You need to generate a JSON object that matches the schema below."


def schema_prompt(case: Case) -> Prompt:
    """The prompt of the benchmark itself: one user message that ends in the schema."""
    return _prompt(case, _SCHEMA_TEMPLATE.replace("{schema}", json.dumps(case.schema)))


def _prompt(case: Case, user: str, *, system: str = "") -> Prompt:
    """The messages of a preset; above the user's stands what the dataset says of the case."""
    text = f"{case.about}\n\n{user}" if case.about else user
    rules = (Message(role="system", content=system),) if system else ()
    return Prompt(messages=(*rules, Message(role="user", content=text)))


def fields_prompt(case: Case) -> Prompt:
    """The prompt with rules: they are the system message, then the fields, then the schema."""
    asked, hints, schema = _FIELDS_TEMPLATE.partition("\nFields: {fields}")
    shown = "; ".join(
        f"'{field['name']}' ({field['type']}){' [REQUIRED]' if field['required'] else ''}"
        for field in fields_of(case.schema)
    )
    user = asked.replace("{id}", case.key.id)
    if shown:
        user += hints.replace("{fields}", shown)
    user += schema.replace("{schema}", json.dumps(case.schema, indent=2))
    return _prompt(case, user, system=_FIELDS_SYSTEM)


def chat_prompt(case: Case) -> Prompt:
    """The benchmark's messages: a line as the system message, then the schema and nothing else."""
    return _prompt(case, json.dumps(case.schema), system=_CHAT_SYSTEM)


def fields_of(schema: Schema) -> list[dict[str, Any]]:
    """The outermost fields of a schema: `name`, `type`, whether `required`, and `description`."""
    if not isinstance(schema, Mapping):
        return []
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return []
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return [_field(name, subschema, required=name in needed) for name, subschema in properties.items()]


def _field(name: str, schema: object, *, required: bool) -> dict[str, Any]:
    said = schema if isinstance(schema, Mapping) else {}
    kind, description = said.get("type"), said.get("description")
    named = " or ".join(map(str, kind)) if isinstance(kind, list) else kind if isinstance(kind, str) else "any"
    shown = description if isinstance(description, str) else ""
    return {"name": name, "type": named, "required": required, "description": shown}


_RENDERERS: Mapping[str, tuple[PromptTemplate, tuple[str, ...]]] = {
    "schema": (schema_prompt, (_SCHEMA_TEMPLATE,)),
    "fields": (fields_prompt, (_FIELDS_SYSTEM, _FIELDS_TEMPLATE)),
    "chat": (chat_prompt, (_CHAT_SYSTEM,)),
}
PRESETS: Mapping[str, Template] = {
    name: Template(name=name, digest=digest([name, *texts]), render=render)
    for name, (render, texts) in _RENDERERS.items()
}
