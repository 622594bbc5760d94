"""`{placeholders}` in a prompt, filled with a test's own data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pytest_jsbench.cases import Schema
from pytest_jsbench.errors import PromptError, nearest
from pytest_jsbench.prompts import Message, Prompt

#: the placeholder that is filled without being asked for
SCHEMA = "schema"
#: `{name}`, and `{{name}}` for the text `{name}`; any other brace is itself, so that JSON in a prompt needs no care
_PLACEHOLDER = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}")


def fill(messages: tuple[Message, ...], data: Mapping[str, object], schema: Schema) -> Prompt:
    """The messages with every placeholder filled; PromptError for one without a value, or a value without one."""
    names = {name for message in messages for _, name in _PLACEHOLDER.findall(message.content) if name}
    if missing := sorted(names - data.keys() - {SCHEMA}):
        given = ", ".join(sorted(data)) or "nothing"
        message = f"the prompt's {{{missing[0]}}} is not filled: generate() was given {given}; expected {missing[0]}=…"
        raise PromptError(message)
    if unknown := sorted(data.keys() - names):
        known = nearest(unknown[0], names) if names else "it has none"
        message = f"the prompt has no placeholder {{{unknown[0]}}}: {known}"
        raise PromptError(message)
    values = {SCHEMA: schema, **data}
    filled = (Message(role=one.role, content=_filled(one.content, values)) for one in messages)
    return Prompt(messages=tuple(filled))


def _filled(text: str, values: Mapping[str, object]) -> str:
    # in one pass: braces in a value are never placeholders
    return _PLACEHOLDER.sub(lambda found: f"{{{found[1]}}}" if found[1] else _shown(values[found[2]]), text)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
