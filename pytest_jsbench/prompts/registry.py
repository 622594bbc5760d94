"""Which template a name means: a preset, a user's file, an installed package's function, or a user's."""

from __future__ import annotations

from pathlib import Path

from pytest_jsbench.core.errors import PromptError, nearest
from pytest_jsbench.core.extensions import find_function, installed
from pytest_jsbench.core.prompts import Template
from pytest_jsbench.prompts.presets import PRESETS

ENTRY_POINTS = "pytest_jsbench.prompts"


def find_template(name: str, *, shots: int = 0) -> Template:
    """The template of that name, with so many examples; PromptError says what else was expected."""
    template = _find(name)
    if not shots:
        return template
    from pytest_jsbench.prompts.shots import with_shots

    return with_shots(template, shots)


def _find(name: str) -> Template:
    if name in PRESETS:
        return PRESETS[name]
    path = Path(name).expanduser()
    if path.is_file():
        from pytest_jsbench.prompts.files import open_template

        return open_template(name)
    presets = installed(ENTRY_POINTS, kind="prompt", error=PromptError)
    if (found := find_function(name, presets, kind="prompt", error=PromptError)) is not None:
        from pytest_jsbench.prompts.functions import function_template

        return function_template(name, found[1])
    if path.suffix in {".j2", ".jinja", ".jinja2"}:
        message = f"no prompt file '{name}'; expected a Jinja2 template"
        raise PromptError(message)
    known = {*PRESETS, *presets}
    message = f"unknown prompt '{name}': {nearest(name, known)}, or a Jinja2 file, or package.module:function"
    raise PromptError(message, found=name, expected=sorted(known), where="--jsbench-prompt")
