"""
A user's own template, in a file of Jinja2.

It is given `schema`, `schema_json` (as the presets write it), `task`, `id` and `fields` (each with `name`, `type`,
`required` and `description`), and the filter `tojson`, which escapes nothing. The text is the user's message; or there
are blocks: `user`, and `system` or `developer`, if there is to be such a message. It runs in a child process (`jinja`),
within bounds.
"""

from __future__ import annotations

import hashlib
import importlib.util
from functools import partial
from pathlib import Path
from typing import Any, cast

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.child_process import ChildNotStarted
from pytest_jsbench.core.errors import PromptError
from pytest_jsbench.core.files import FileReader, Unreadable, decode
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, guarded_calls
from pytest_jsbench.core.messages import Message, Role
from pytest_jsbench.core.prompts import Prompt, Template
from pytest_jsbench.core.text import sentence

#: for a file, and for each case
SECONDS = 5.0
#: bytes of a file
_LARGEST = 1_000_000


def open_template(name: str) -> Template:
    """The template in that file; PromptError, with its line, where it is none."""
    path = Path(name).expanduser()
    try:
        data = FileReader(root=path.parent, largest=_LARGEST).read_bytes(path)
        source = decode(data)
    except Unreadable as error:
        message = f"prompt {name}: {error.problem}; expected a Jinja2 template"
        raise PromptError(message) from None
    if importlib.util.find_spec("jinja2") is None:
        message = f"prompt {name} needs the package jinja2: pip install 'pytest-jsbench[prompts]'"
        raise PromptError(message)
    if (problem := _in_child("problem_of", name, source, doing="read")) is not None:
        raise PromptError(problem)
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    return Template(name=name, digest=digest, render=partial(_render, name, source))


def _render(name: str, source: str, case: Case) -> Prompt:
    made = _in_child(
        "texts_of", name, source, case.schema, case.key.task, case.key.id, case.about, doing=f"rendered for {case.key}"
    )
    if "problem" in made:
        raise PromptError(made["problem"])
    texts: dict[str, str] = made["texts"]
    if not texts["user"].strip():
        message = f"prompt {name} asks nothing of {case.key}: its text is empty"
        raise PromptError(message)
    return Prompt(
        messages=tuple(
            Message(role=cast("Role", block), content=text.strip()) for block, text in texts.items() if text.strip()
        )
    )


def _in_child(function: str, name: str, *arguments: object, doing: str) -> Any:
    """What the function of `jinja` returns; PromptError where that is beyond its bounds."""
    try:
        return guarded_calls().call(f"pytest_jsbench.prompts.jinja:{function}", name, *arguments, seconds=SECONDS)
    except BoundExceeded as exceeded:
        message = f"prompt {name} cannot be {doing} {exceeded}; expected a template that does less"
        raise PromptError(message) from None
    except (CallBroke, ChildNotStarted) as error:
        message = f"prompt {name} cannot be {doing}: {sentence(str(error))}"
        raise PromptError(message) from None
