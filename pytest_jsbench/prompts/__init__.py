"""Prompts: render a case as messages, by a built-in prompt, a Jinja2 file or a function, with optional examples."""

from __future__ import annotations

from pytest_jsbench.prompts.named import PROMPTS, find_template, template_of

__all__ = ["PROMPTS", "find_template", "template_of"]
