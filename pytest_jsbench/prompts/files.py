"""
A user's own template, in a file of Jinja2.

It is given `schema`, `schema_json` (as the presets write it), `task`, `id` and `fields` (each with `name`, `type`,
`required` and `description`), and the filter `tojson`, which escapes nothing. The text is the user's message; or there
are blocks: `system`, if there is to be such a message, and `user`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.cases import Case, Message
from pytest_jsbench.core.text import sentence
from pytest_jsbench.errors import PromptError, nearest
from pytest_jsbench.prompts.model import Prompt, Template
from pytest_jsbench.prompts.presets import fields_of

if TYPE_CHECKING:
    import jinja2
    from jinja2 import nodes
    from jinja2.sandbox import SandboxedEnvironment

VARIABLES = ("schema", "schema_json", "task", "id", "fields")
_BLOCKS = ("system", "user")


def open_template(name: str) -> Template:
    """The template in that file; PromptError, with its line, where it is none."""
    path = Path(name).expanduser()
    try:
        data = path.read_bytes()
        source = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        message = f"prompt {name} is not UTF-8 text; expected a Jinja2 template"
        raise PromptError(message) from None
    except OSError as error:
        message = f"cannot read prompt {name}: {error.strerror}; expected a Jinja2 template"
        raise PromptError(message) from None
    template = _compile(name, source)
    return Template(
        name=name,
        digest="sha256:" + hashlib.sha256(data).hexdigest(),
        render=lambda case: _render(template, case, name=name),
    )


def _compile(name: str, source: str) -> jinja2.Template:
    try:
        import jinja2
        from jinja2 import meta
    except ImportError:
        message = f"prompt {name} needs the package jinja2: pip install 'pytest-jsbench[prompts]'"
        raise PromptError(message) from None
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
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # a prompt is no markup
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["tojson"] = _to_json
    return environment


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent)


def _check_blocks(name: str, tree: nodes.Template) -> None:
    """A file with blocks holds nothing else that would be asked."""
    from jinja2 import nodes

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
        message = f"prompt {name} has a block system and no block user; expected both, or no block"
        raise PromptError(message)
    for node in tree.body:
        if not isinstance(node, nodes.Block) and not _is_blank(node):
            message = f"prompt {name}, line {node.lineno}: text outside of the blocks system and user is never asked"
            raise PromptError(message)


def _is_blank(node: nodes.Node) -> bool:
    from jinja2 import nodes

    if not isinstance(node, nodes.Output):
        return False
    return all(isinstance(part, nodes.TemplateData) and not part.data.strip() for part in node.nodes)


def _render(template: jinja2.Template, case: Case, *, name: str) -> Prompt:
    values: dict[str, Any] = {
        "schema": case.schema,
        "schema_json": json.dumps(case.schema),
        "task": case.key.task,
        "id": case.key.id,
        "fields": fields_of(case.schema),
    }
    try:
        if not template.blocks:
            texts = {"user": template.render(values)}
        else:
            context = template.new_context(values)
            texts = {block: "".join(template.blocks[block](context)) for block in _BLOCKS if block in template.blocks}
    except Exception as error:  # a template computes: whatever Python can raise
        message = f"prompt {name}: {type(error).__name__}: {sentence(str(error))}"
        raise PromptError(message) from error
    if not texts["user"].strip():
        message = f"prompt {name} asks nothing of {case.key}: its text is empty"
        raise PromptError(message)
    return Prompt(
        messages=tuple(
            Message(role="system" if block == "system" else "user", content=text.strip())
            for block, text in texts.items()
            if text.strip()
        )
    )
