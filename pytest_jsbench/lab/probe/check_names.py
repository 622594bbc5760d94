"""Names of the checks of a probe, which the command's options need without importing the checks."""

from __future__ import annotations

#: Names of all checks, in the order in which they are made; those of the load come last.
CHECK_NAMES = (
    "auto_tools",
    "several_calls",
    "format_with_tools",
    "tool_description",
    "streaming",
    "temperature",
    "seed",
    "max_tokens",
    "stop",
    "malformed",
    "mixed_load",
    "after_load",
)
