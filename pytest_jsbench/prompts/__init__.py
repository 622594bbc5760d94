"""Prompts: a case as messages, by a preset, a user's Jinja2 file or a user's function, with examples before it."""

from __future__ import annotations

from pytest_jsbench.prompts.presets import PRESETS, find_template, template_of

__all__ = ["PRESETS", "find_template", "template_of"]
