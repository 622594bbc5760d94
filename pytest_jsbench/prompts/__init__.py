"""Render a case as prompt messages, by a built-in prompt, a Jinja2 file or a function, optionally with examples."""

from __future__ import annotations

from pytest_jsbench.prompts.named import PROMPTS, find_template, template_of

__all__ = ["PROMPTS", "find_template", "template_of"]
