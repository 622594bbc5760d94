"""Compare texts without case, spaces and some punctuation, as BFCL compares the texts in tool calls."""

from __future__ import annotations

from typing import Any

#: Single quotes become double quotes, and these characters are removed. Source: `standardize_string` of bfcl-eval.
_CHANGES = str.maketrans("'", '"', " ,./-_*^")


def loosen(value: Any) -> Any:
    """
    Return the value with each text in lower case and without spaces and the characters `,./-_*^`; single quotes become
    double quotes, and names of members stay unchanged.
    """
    if isinstance(value, str):
        return value.translate(_CHANGES).lower()
    if isinstance(value, list):
        return [loosen(item) for item in value]
    if isinstance(value, dict):
        return {name: loosen(member) for name, member in value.items()}
    return value
