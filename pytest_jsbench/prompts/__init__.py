"""Prompts: a case as messages, by a preset, a user's Jinja2 file or a user's function, with examples before it."""

from pytest_jsbench.cases import Message
from pytest_jsbench.prompts.choosing import find_template
from pytest_jsbench.prompts.length import PromptLength, estimate
from pytest_jsbench.prompts.model import Prompt, PromptTemplate, Template, prompt_of
from pytest_jsbench.prompts.presets import PRESETS

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
]
