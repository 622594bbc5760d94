"""Prompts: a case as messages, by a name, a user's Jinja2 file or a user's function, with examples before it."""

from __future__ import annotations

from pytest_jsbench.prompts.named import PROMPTS, find_template, template_of

__all__ = ["PROMPTS", "find_template", "template_of"]
