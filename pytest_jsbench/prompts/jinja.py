"""Jinja2 in a sandbox: what a child process does with a user's template, which may compute for ever."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2 import meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pytest_jsbench.core.errors import PromptError, nearest
from pytest_jsbench.core.text import sentence
from pytest_jsbench.prompts.presets import fields_of

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

    from pytest_jsbench.core.cases import Schema

VARIABLES = ("schema", "schema_json", "task", "id", "about", "fields")
_BLOCKS = ("system", "developer", "user")


def problem_of(name: str, source: str) -> str | None:
    """Why the source is no template, in one line; None where it is one."""
    try:
        _compile(name, source)
    except PromptError as error:
        return str(error)
    return None


def texts_of(name: str, source: str, schema: Schema, task: str, case_id: str, about: str) -> dict[str, Any]:
    """The texts that the template asks a case with, by their blocks; or a problem in one line."""
    values = {
        "schema": schema,
        "schema_json": json.dumps(schema),
        "task": task,
        "id": case_id,
        "about": about,
        "fields": fields_of(schema),
    }
    try:
        return {"texts": _texts(_compile(name, source), values)}
    except MemoryError:
        raise
    except PromptError as error:
        return {"problem": str(error)}
    except Exception as error:  # noqa: BLE001  a template computes: whatever Python can raise
        return {"problem": f"prompt {name}: {type(error).__name__}: {sentence(str(error))}"}


def _texts(template: jinja2.Template, values: dict[str, Any]) -> dict[str, str]:
    if not template.blocks:
        return {"user": template.render(values)}
    context = template.new_context(values)
    return {block: "".join(template.blocks[block](context)) for block in _BLOCKS if block in template.blocks}


@functools.lru_cache(maxsize=8)
def _compile(name: str, source: str) -> jinja2.Template:
    environment = _environment()
    try:
        tree = environment.parse(source)
        if strangers := meta.find_undeclared_variables(tree) - environment.globals.keys() - set(VARIABLES):
            stranger = min(strangers)
            message = f"prompt {name}: unknown variable '{stranger}': {nearest(stranger, VARIABLES)}"
            raise PromptError(message)
        _check_blocks(name, tree)
        return environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        message = f"prompt {name}, line {error.lineno}: {sentence(error.message or 'not a Jinja2 template')}"
        raise PromptError(message) from None


def _environment() -> SandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # a prompt is no markup
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, indent=indent)
    return environment


def _check_blocks(name: str, tree: nodes.Template) -> None:
    """A file with blocks holds nothing else that would be asked."""
    blocks = [node for node in tree.body if isinstance(node, nodes.Block)]
    if not blocks:
        return
    for block in blocks:
        if block.name not in _BLOCKS:
            message = (
                f"prompt {name}, line {block.lineno}: unknown block '{block.name}': {nearest(block.name, _BLOCKS)}"
            )
            raise PromptError(message)
    if "user" not in {block.name for block in blocks}:
        message = f"prompt {name} has a block {blocks[0].name} and no block user; expected both, or no block"
        raise PromptError(message)
    for node in tree.body:
        if not isinstance(node, nodes.Block) and not _is_blank(node):
            message = f"prompt {name}, line {node.lineno}: text outside of the blocks is never asked"
            raise PromptError(message)


def _is_blank(node: nodes.Node) -> bool:
    if not isinstance(node, nodes.Output):
        return False
    return all(isinstance(part, nodes.TemplateData) and not part.data.strip() for part in node.nodes)
