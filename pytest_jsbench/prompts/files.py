"""
Render a user's Jinja2 template file.

The template gets the variables `schema`, `schema_json` (the schema as in built-in prompts), `task`, `id`, `about` and
`fields` (each with `name`, `type`, `required` and `description`), and the filter `tojson`, which escapes nothing. The
rendered text is the user message, unless the file has blocks: `user`, and optionally `system` or `developer`. Since a
template may run forever, it is rendered in a sandbox in a child process with limits.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_jsbench.core.cases import Case, Prompt, Schema, Template
from pytest_jsbench.core.child_process import ChildNotStarted
from pytest_jsbench.core.errors import PromptError, nearest
from pytest_jsbench.core.files import FileReader, Unreadable, decode
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, guarded_calls
from pytest_jsbench.core.messages import Message, Role
from pytest_jsbench.core.text import sentence

if TYPE_CHECKING:
    import jinja2
    from jinja2 import nodes

VARIABLES = ("schema", "schema_json", "task", "id", "about", "fields")
_BLOCKS = ("system", "developer", "user")
#: Time limit in seconds for checking a template, and for rendering each case.
SECONDS = 5.0
#: Maximum size of a template file in bytes.
_LARGEST = 1_000_000


def open_template(name: str) -> Template:
    """Return the template in the file; raise a PromptError that names the line if the template is invalid."""
    path = Path(name).expanduser()
    try:
        data = FileReader(root=path.parent, largest=_LARGEST).read_bytes(path)
        source = decode(data)
    except Unreadable as error:
        raise PromptError(f"prompt {name}: {error.problem}; expected a Jinja2 template") from None
    if importlib.util.find_spec("jinja2") is None:
        raise PromptError(f"prompt {name} needs the package jinja2: pip install 'pytest-jsbench[prompts]'")
    _call_in_child("check", name, source, doing="read")
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    return Template(name=name, digest=digest, render=partial(_render, name, source))


def _render(name: str, source: str, case: Case) -> Prompt:
    texts: dict[str, str] = _call_in_child(
        "texts_of", name, source, case.schema, case.key.task, case.key.id, case.about, doing=f"rendered for {case.key}"
    )
    if not texts["user"].strip():
        raise PromptError(f"prompt {name} renders an empty user message for {case.key}")
    return Prompt(
        messages=tuple(
            Message(role=cast("Role", block), content=text.strip()) for block, text in texts.items() if text.strip()
        )
    )


def _call_in_child(function: str, name: str, *arguments: object, doing: str) -> Any:
    """Call a function of this module in a child process; raise PromptError if the call fails or exceeds a limit."""
    try:
        return guarded_calls().call(f"{__name__}:{function}", name, *arguments, seconds=SECONDS)
    except BoundExceeded as exceeded:
        raise PromptError(f"prompt {name} cannot be {doing} {exceeded}; simplify the template") from None
    except (CallBroke, ChildNotStarted) as error:
        kind, _, problem = str(error).partition(": ")
        if kind == PromptError.__name__:
            raise PromptError(problem) from None
        raise PromptError(f"prompt {name} cannot be {doing}: {sentence(str(error))}") from None


def check(name: str, source: str) -> None:
    """Raise a PromptError with a one-line message if the source is not a valid template."""
    _compile(name, source)


def fields_of(schema: Schema) -> list[dict[str, Any]]:
    """Return the `name`, `type`, `required` and `description` of each top-level property in a schema."""
    if not isinstance(schema, Mapping):
        return []
    properties = schema.get("properties")
    required = schema.get("required")
    if not isinstance(properties, Mapping):
        return []
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return [_field(name, subschema, required=name in needed) for name, subschema in properties.items()]


def _field(name: str, schema: object, *, required: bool) -> dict[str, Any]:
    keywords = schema if isinstance(schema, Mapping) else {}
    kind = keywords.get("type")
    if isinstance(kind, list):
        kind = " or ".join(map(str, kind))
    elif not isinstance(kind, str):
        kind = "any"
    description = keywords.get("description")
    if not isinstance(description, str):
        description = ""
    return {"name": name, "type": kind, "required": required, "description": description}


def texts_of(name: str, source: str, schema: Schema, task: str, case_id: str, about: str) -> dict[str, str]:
    """Return the rendered text of each block for a case; raise a PromptError with a one-line message if that fails."""
    values = {
        "schema": schema,
        "schema_json": json.dumps(schema),
        "task": task,
        "id": case_id,
        "about": about,
        "fields": fields_of(schema),
    }
    try:
        template = _compile(name, source)
        if not template.blocks:
            return {"user": template.render(values)}
        context = template.new_context(values)
        return {block: "".join(template.blocks[block](context)) for block in _BLOCKS if block in template.blocks}
    except (MemoryError, PromptError):
        raise
    except Exception as error:  # noqa: BLE001  template code may raise any exception
        raise PromptError(f"prompt {name}: {type(error).__name__}: {sentence(str(error))}") from None


@functools.lru_cache(maxsize=8)
def _compile(name: str, source: str) -> jinja2.Template:
    import jinja2
    from jinja2 import meta
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # a prompt is not HTML
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, indent=indent)
    try:
        tree = environment.parse(source)
        unknown = meta.find_undeclared_variables(tree) - environment.globals.keys() - set(VARIABLES)
        if unknown:
            variable = min(unknown)
            raise PromptError(f"prompt {name}: unknown variable '{variable}': {nearest(variable, VARIABLES)}")
        _check_blocks(name, tree)
        return environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        message = f"prompt {name}, line {error.lineno}: {sentence(error.message or 'not a Jinja2 template')}"
        raise PromptError(message) from None


def _check_blocks(name: str, tree: nodes.Template) -> None:
    """Raise PromptError if a template with blocks has unknown blocks, no block `user`, or text outside the blocks."""
    from jinja2 import nodes

    blocks = [node for node in tree.body if isinstance(node, nodes.Block)]
    if not blocks:
        return
    for block in blocks:
        if block.name not in _BLOCKS:
            raise PromptError(
                f"prompt {name}, line {block.lineno}: unknown block '{block.name}': {nearest(block.name, _BLOCKS)}"
            )
    if "user" not in {block.name for block in blocks}:
        raise PromptError(f"prompt {name} has a block {blocks[0].name} and no block user; expected both, or no block")
    for node in tree.body:
        parts = node.nodes if isinstance(node, nodes.Output) else [node]
        blank = all(isinstance(part, nodes.TemplateData) and not part.data.strip() for part in parts)
        if not isinstance(node, nodes.Block) and not blank:
            raise PromptError(
                f"prompt {name}, line {node.lineno}: text outside of the blocks is never sent; move it into a block"
            )
