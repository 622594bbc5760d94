"""Which template a name means: a preset, a user's file, or a user's function."""

from __future__ import annotations

from pathlib import Path

from pytest_jsbench.errors import PromptError, nearest
from pytest_jsbench.imports import is_reference
from pytest_jsbench.prompts.files import open_template
from pytest_jsbench.prompts.functions import open_function
from pytest_jsbench.prompts.model import Template
from pytest_jsbench.prompts.presets import PRESETS
from pytest_jsbench.prompts.shots import with_shots


def find_template(name: str, *, shots: int = 0) -> Template:
    """The template of that name, with so many examples; PromptError says what else was expected."""
    return with_shots(_find(name), shots)


def _find(name: str) -> Template:
    if name in PRESETS:
        return PRESETS[name]
    path = Path(name).expanduser()
    if path.is_file():
        return open_template(name)
    if is_reference(name) and not name.endswith("*"):
        return open_function(name)
    if path.suffix in {".j2", ".jinja", ".jinja2"}:
        message = f"no prompt file '{name}'; expected a Jinja2 template"
        raise PromptError(message)
    message = f"unknown prompt '{name}': {nearest(name, PRESETS)}, or a Jinja2 file, or package.module:function"
    raise PromptError(message)
