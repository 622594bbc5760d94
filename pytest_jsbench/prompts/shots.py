"""Examples that stand before the question: schemas of a task's kind, each with an instance that conforms to it."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from pytest_jsbench.core.cases import Case, CaseKey, Schema
from pytest_jsbench.core.errors import PromptError
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.core.messages import INSTRUCTING, Message
from pytest_jsbench.core.prompts import Prompt, Template

#: a task of JSONSchemaBench to the file of its examples; any other task has the general ones
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A schema and an instance of it, written for this package: it is in no dataset."""

    id: str
    schema: Schema
    instance: Any


def examples_of(task: str) -> tuple[Example, ...]:
    """The examples of a task's kind."""
    return _load(_KINDS.get(task, _GENERAL))


@functools.cache
def _load(kind: str) -> tuple[Example, ...]:
    text = files("pytest_jsbench.prompts").joinpath("examples", f"{kind}.json").read_text("utf-8")
    return tuple(Example(**example) for example in json.loads(text))


def with_shots(template: Template, shots: int) -> Template:
    """The template with so many examples: each asked as the case itself is, and answered by the assistant."""
    if not shots:
        return template
    if not 0 <= shots <= MOST_SHOTS:
        message = f"--jsbench-shots={shots}: there are {MOST_SHOTS} examples for each task; expected 0 to {MOST_SHOTS}"
        raise PromptError(message, found=shots, expected=MOST_SHOTS, option="shots")

    def render(case: Case) -> Prompt:
        asked = template.render(case).messages
        turns = [message for message in asked if message.role in INSTRUCTING]
        for example in examples_of(case.key.task)[:shots]:
            key = CaseKey(task=case.key.task, id=example.id)
            question = template.render(Case(key=key, schema=example.schema)).messages
            turns += [message for message in question if message.role not in INSTRUCTING]
            turns.append(Message(role="assistant", content=json.dumps(example.instance)))
        turns += [message for message in asked if message.role not in INSTRUCTING]
        return Prompt(messages=tuple(turns))

    shown = [[example.schema, example.instance] for kind in KINDS for example in _load(kind)[:shots]]
    whole = None if template.digest is None else digest([template.digest, shown])
    return Template(name=template.name, digest=whole, render=render)
