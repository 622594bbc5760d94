"""A user's own function, or an installed package's, from a case to what is asked."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import get_args

from pytest_jsbench.core.cases import Case, Message, Role
from pytest_jsbench.core.errors import ImportFailed, PromptError
from pytest_jsbench.core.extensions import import_object, load
from pytest_jsbench.core.prompts import Prompt, Template

_ROLES = get_args(Role)


def open_function(reference: str) -> Template:
    """The template that calls `package.module:function`; PromptError where there is no such function."""
    try:
        found = import_object(reference, purpose="prompt")
    except ImportFailed as error:
        raise PromptError(str(error)) from error
    return _template(reference, found)


def open_point(point: EntryPoint) -> Template:
    """The template that calls the function of an installed package; PromptError where there is no such function."""
    return _template(point.name, load(point, kind="prompt", error=PromptError))


def _template(name: str, found: object) -> Template:
    if not callable(found):
        message = f"prompt {name} is a {type(found).__name__}; expected a function that takes a case"
        raise PromptError(message)
    function: Callable[[Case], object] = found
    return Template(name=name, digest=_digest(name, found), render=lambda case: _render(function, case, name=name))


def _digest(name: str, function: object) -> str | None:
    """Of the whole module, since the function may use any of it."""
    try:
        source = Path(inspect.getsourcefile(inspect.unwrap(function)) or "").read_bytes()  # type: ignore[arg-type]  # a TypeError is caught
    except (OSError, TypeError, ValueError):
        return None
    return "sha256:" + hashlib.sha256(name.encode() + b"\n" + source).hexdigest()


def _render(function: Callable[[Case], object], case: Case, *, name: str) -> Prompt:
    try:
        made = function(case)
    except Exception as error:
        message = f"prompt {name} raised {type(error).__name__}: {' '.join(str(error).split())}"
        raise PromptError(message) from error
    prompt = _as_prompt(made)
    if prompt is None:
        message = (
            f"prompt {name} gave {_said(made)} for {case.key}; expected text, a Prompt, or a list of messages such as "
            '{"role": "user", "content": …}'
        )
        raise PromptError(message)
    return prompt


def _as_prompt(made: object) -> Prompt | None:
    if isinstance(made, str) and made.strip():
        return Prompt(messages=(Message(role="user", content=made),))
    if isinstance(made, Prompt):
        return made if made.messages else None
    if isinstance(made, Sequence) and not isinstance(made, str):
        messages = [_as_message(one) for one in made]
        known = tuple(message for message in messages if message is not None)
        return Prompt(messages=known) if known and len(known) == len(messages) else None
    return None


def _as_message(made: object) -> Message | None:
    if isinstance(made, Message):
        return made
    if not isinstance(made, Mapping) or made.keys() != {"role", "content"}:
        return None
    role, content = made["role"], made["content"]
    return Message(role=role, content=content) if role in _ROLES and isinstance(content, str) else None


def _said(made: object) -> str:
    if isinstance(made, str):
        return "an empty text"
    return "nothing" if made is None else f"a {type(made).__name__}"
