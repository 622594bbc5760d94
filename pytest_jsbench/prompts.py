"""Prompts: a case as messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pytest_jsbench.cases import Case, Schema, digest
from pytest_jsbench.cases import Message as Message
from pytest_jsbench.errors import PromptError, nearest

#: seed 002, to the letter (the spaces before the line ends are the original's)
_SCHEMA_TEMPLATE = (
    "You need to generate a JSON object that matches the schema below. \n"
    "Do not include the schema in the output and DIRECTLY return the JSON object without any additional"
    " information. \n"
    "The schema is: {schema}"
)

#: seed 003, to the letter
_FIELDS_SYSTEM = (
    "You are a helpful assistant that generates valid JSON.\n"
    "You MUST output ONLY a valid JSON object that strictly adheres to the provided schema.\n"
    "Do not include any text, explanation, or markdown formatting - only the raw JSON object.\n"
    "Do not add any fields not specified in the schema."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The messages that ask for one case's instance."""

    messages: tuple[Message, ...]

    def to_messages(self) -> list[dict[str, str]]:
        """The messages as the chat APIs take them."""
        return [{"role": m.role, "content": m.content} for m in self.messages]

    @property
    def digest(self) -> str:
        """The SHA-256 of the messages, as `sha256:<hex>`."""
        return digest(self.to_messages())


#: a case becomes a prompt
PromptTemplate = Callable[[Case], Prompt]


def schema_prompt(case: Case) -> Prompt:
    """The benchmark's own prompt (seed 002): one user message that ends in the schema."""
    text = _SCHEMA_TEMPLATE.replace("{schema}", json.dumps(case.schema, ensure_ascii=False))
    return Prompt(messages=(Message(role="user", content=text),))


def fields_prompt(case: Case) -> Prompt:
    """The prompt of seed 003: rules as the system message, then the fields, then the schema."""
    lines = [f"Generate a valid JSON object (task: {case.key.id})"]
    if hints := _field_hints(case.schema):
        lines.append(f"Fields: {hints}")
    schema = json.dumps(case.schema, indent=2, ensure_ascii=False)
    user = "\n".join(lines) + f"\n\nRequired JSON Schema:\n{schema}"
    return Prompt(messages=(Message(role="system", content=_FIELDS_SYSTEM), Message(role="user", content=user)))


def _field_hints(schema: Schema) -> str:
    if not isinstance(schema, Mapping):
        return ""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return ""
    needed = set(required) if isinstance(required, list) else set()
    return "; ".join(
        f"'{name}' ({_type_name(subschema)}){' [REQUIRED]' if name in needed else ''}"
        for name, subschema in properties.items()
    )


def _type_name(schema: object) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if isinstance(kind, list):
        return " or ".join(map(str, kind))
    return kind if isinstance(kind, str) else "any"


PRESETS: Mapping[str, PromptTemplate] = {"schema": schema_prompt, "fields": fields_prompt}


def template(name: str) -> PromptTemplate:
    """The preset of that name; PromptError where there is none."""
    try:
        return PRESETS[name]
    except KeyError:
        message = f"unknown prompt '{name}': {nearest(name, PRESETS)}"
        raise PromptError(message) from None
