"""Define the built-in prompts, find the template for `--jsbench-prompt`, and add examples to prompts."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from pytest_jsbench.core.cases import Case, CaseKey, Prompt, PromptTemplate, Schema, Template
from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, PromptError, nearest
from pytest_jsbench.core.extensions import find_entry_points, find_function
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.core.messages import INSTRUCTING, Message, read_messages
from pytest_jsbench.core.text import kind_of

#: The prompt of JSONSchemaBench, verbatim, including the spaces before line ends.
_SCHEMA_TEMPLATE = (
    "You need to generate a JSON object that matches the schema below. \n"
    "Do not include the schema in the output and DIRECTLY return the JSON object without any additional"
    " information. \n"
    "The schema is: {schema}"
)

#: Rules in the system message of the prompt `fields`, verbatim.
_FIELDS_SYSTEM = (
    "You are a helpful assistant that generates valid JSON.\n"
    "You MUST output ONLY a valid JSON object that strictly adheres to the provided schema.\n"
    "Do not include any text, explanation, or markdown formatting - only the raw JSON object.\n"
    "Do not add any fields not specified in the schema."
)
_FIELDS_TEMPLATE = "Generate a valid JSON object (task: {id})\nFields: {fields}\n\nRequired JSON Schema:\n{schema}"

#: System message in JSONSchemaBench's own runs.
_CHAT_SYSTEM = "You need to generate a JSON object that matches the schema below."


def schema_prompt(case: Case) -> Prompt:
    """Render the prompt of JSONSchemaBench: one user message that ends with the schema."""
    return _prompt(case, _SCHEMA_TEMPLATE.replace("{schema}", json.dumps(case.schema)))


def _prompt(case: Case, user: str, *, system: str = "") -> Prompt:
    """Return the messages of a built-in prompt; the user message begins with the dataset's description of the case."""
    text = f"{case.about}\n\n{user}" if case.about else user
    rules = (Message(role="system", content=system),) if system else ()
    return Prompt(messages=(*rules, Message(role="user", content=text)))


def fields_prompt(case: Case) -> Prompt:
    """Render a system message with rules, and a user message with the fields and the schema."""
    from pytest_jsbench.prompts.files import fields_of

    task_line, fields_line, schema_text = _FIELDS_TEMPLATE.partition("\nFields: {fields}")
    fields = "; ".join(
        f"'{field['name']}' ({field['type']}){' [REQUIRED]' if field['required'] else ''}"
        for field in fields_of(case.schema)
    )
    user = task_line.replace("{id}", case.key.id)
    if fields:
        user += fields_line.replace("{fields}", fields)
    user += schema_text.replace("{schema}", json.dumps(case.schema, indent=2))
    return _prompt(case, user, system=_FIELDS_SYSTEM)


def chat_prompt(case: Case) -> Prompt:
    """Render the prompt of JSONSchemaBench's own runs: a system message of one line, and the schema as user message."""
    return _prompt(case, json.dumps(case.schema), system=_CHAT_SYSTEM)


_RENDERERS: Mapping[str, tuple[PromptTemplate, tuple[str, ...]]] = {
    "schema": (schema_prompt, (_SCHEMA_TEMPLATE,)),
    "fields": (fields_prompt, (_FIELDS_SYSTEM, _FIELDS_TEMPLATE)),
    "chat": (chat_prompt, (_CHAT_SYSTEM,)),
}
PROMPTS: Mapping[str, Template] = {
    name: Template(name=name, digest=digest([name, *texts]), render=render)
    for name, (render, texts) in _RENDERERS.items()
}


#: Name of the examples file for each JSONSchemaBench task; other tasks use the general examples.
_KINDS = {
    **dict.fromkeys(("Github_trivial", "Github_easy", "Github_medium", "Github_hard", "Github_ultra"), "github"),
    "Glaiveai2K": "glaive",
    "JsonSchemaStore": "schema_store",
    "Kubernetes": "kubernetes",
    "Snowplow": "snowplow",
    "WashingtonPost": "washington_post",
}
_GENERAL = "general"
KINDS = tuple(dict.fromkeys((*_KINDS.values(), _GENERAL)))
MOST_SHOTS = 3


def find_template(name: str, *, shots: int = 0) -> Template:
    """Return the template with this name and this number of examples; raise PromptError if the name is unknown."""
    return with_shots(_find(name), shots)


def template_of(prompt: str | PathLike[str] | Template | Callable[[Case], object], *, shots: int = 0) -> Template:
    """Return the template for a built-in name, a Jinja2 file or a function."""
    if isinstance(prompt, Template):
        return prompt
    if isinstance(prompt, str | PathLike):
        return find_template(fspath(prompt), shots=shots)
    name = f"{getattr(prompt, '__module__', None)}:{getattr(prompt, '__qualname__', type(prompt).__name__)}"
    return with_shots(_function_template(name, prompt), shots)


def _find(name: str) -> Template:
    if name in PROMPTS:
        return PROMPTS[name]
    path = Path(name).expanduser()
    if path.is_file():
        from pytest_jsbench.prompts.files import open_template

        return open_template(name)
    others = find_entry_points("prompt", error=PromptError)
    if (named := find_function(name, others, kind="prompt", takes="a case", error=PromptError)) is not None:
        return _function_template(name, named[1])
    if path.suffix in {".j2", ".jinja", ".jinja2"}:
        raise PromptError(f"no prompt file '{name}'; expected a Jinja2 template")
    names = {*PROMPTS, *others}
    message = f"unknown prompt '{name}': {nearest(name, names)}, or a Jinja2 file, or package.module:function"
    raise PromptError(message, found=name, expected=sorted(names), option="prompt")


def _function_template(name: str, function: object) -> Template:
    """Return a template that calls the named function; raise PromptError if the object is not callable."""
    if not callable(function):
        kind = kind_of(function)
        expected = "a function that takes a case"
        raise PromptError(f"prompt {name} is {kind}; expected {expected}", found=kind, expected=expected, where=name)
    return Template(name=name, digest=_digest(name, function), render=partial(_render, function, name=name))


def _digest(name: str, function: object) -> str | None:
    """Return a digest of the whole module of a function; None if the module's source cannot be read."""
    try:
        source = Path(inspect.getsourcefile(inspect.unwrap(function)) or "").read_bytes()  # type: ignore[arg-type]  # a TypeError is caught
    except (OSError, TypeError, ValueError):
        return None
    return "sha256:" + hashlib.sha256(name.encode() + b"\n" + source).hexdigest()


def _render(function: Callable[[Case], object], case: Case, *, name: str) -> Prompt:
    try:
        result = function(case)
    except THIRD_PARTY_ERRORS as error:
        raise PromptError(f"prompt {name} raised {type(error).__name__}: {' '.join(str(error).split())}") from error
    try:
        prompt = _as_prompt(result)
    except ValueError as error:
        raise PromptError(f"prompt {name} returned messages for {case.key} that cannot be sent: {error}") from None
    if prompt is not None:
        return prompt
    if result is None:
        kind = "nothing"
    elif isinstance(result, str):
        kind = "an empty text"
    else:
        kind = kind_of(result)
    raise PromptError(
        f"prompt {name} returned {kind} for {case.key}; expected text, a Prompt, or a list of messages such as "
        '{"role": "user", "content": …}'
    )


def _as_prompt(result: object) -> Prompt | None:
    if isinstance(result, str) and result.strip():
        return Prompt(messages=(Message(role="user", content=result),))
    if isinstance(result, Prompt) and result.messages:
        return result
    if isinstance(result, Sequence) and not isinstance(result, str) and result:
        return Prompt(messages=read_messages(result))
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An example schema with an instance, written for this package and not contained in any dataset."""

    id: str
    schema: Schema
    instance: Any


def examples_of(task: str) -> tuple[Example, ...]:
    """Return the examples to show for the cases of a task."""
    return _load(_KINDS.get(task, _GENERAL))


@functools.cache
def _load(kind: str) -> tuple[Example, ...]:
    text = files("pytest_jsbench.prompts").joinpath("examples", f"{kind}.json").read_text("utf-8")
    return tuple(Example(**example) for example in json.loads(text))


def with_shots(template: Template, shots: int) -> Template:
    """
    Return the template with examples before the case's messages; the examples' schemas resemble the task's schemas.

    Each example is a user message like that of the case, followed by an assistant message with a conforming instance.
    """
    if not shots:
        return template
    if not 0 <= shots <= MOST_SHOTS:
        message = f"--jsbench-shots={shots}: there are {MOST_SHOTS} examples for each task; expected 0 to {MOST_SHOTS}"
        raise PromptError(message, found=shots, expected=MOST_SHOTS, option="shots")

    def render(case: Case) -> Prompt:
        messages = template.render(case).messages
        turns = [message for message in messages if message.role in INSTRUCTING]
        for example in examples_of(case.key.task)[:shots]:
            key = CaseKey(task=case.key.task, id=example.id)
            question = template.render(Case(key=key, schema=example.schema)).messages
            turns += [message for message in question if message.role not in INSTRUCTING]
            turns.append(Message(role="assistant", content=json.dumps(example.instance)))
        turns += [message for message in messages if message.role not in INSTRUCTING]
        return Prompt(messages=tuple(turns))

    shown = [[example.schema, example.instance] for kind in KINDS for example in _load(kind)[:shots]]
    new_digest = None if template.digest is None else digest([template.digest, shown])
    return Template(name=template.name, digest=new_digest, render=render)
