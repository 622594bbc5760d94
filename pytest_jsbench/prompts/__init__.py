"""Prompts: a case as messages, by a preset, a user's Jinja2 file or a user's function, with examples before it."""

from __future__ import annotations

from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.prompts import Prompt, PromptLength, PromptTemplate, Template, estimate, prompt_of
from pytest_jsbench.prompts.presets import PRESETS
from pytest_jsbench.prompts.registry import find_template, template_of

__all__ = [
    "PRESETS",
    "Message",
    "Prompt",
    "PromptLength",
    "PromptTemplate",
    "Template",
    "estimate",
    "find_template",
    "prompt_of",
    "template_of",
]
