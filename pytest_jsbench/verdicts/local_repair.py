"""Repair a text that is not JSON with the package json-repair, to count what this would rescue without a call."""

from __future__ import annotations


def repair_text(text: str) -> str:
    """Return the text as json-repair repairs it, for the parent process; empty if it finds no JSON."""
    from json_repair import repair_json

    return str(repair_json(text))
