"""The parts of the pages that are measured or taken from a run: they are made by a command, and by no test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def put(page: Path, part: str, text: str) -> None:
    """Put a text between the two comments of its part."""
    before = page.read_text("utf-8")
    pattern = re.compile(rf"(<!-- measured: {part} -->\n).*?(<!-- /measured -->)", re.DOTALL)
    after, times = pattern.subn(lambda comments: f"{comments[1]}\n{text.rstrip()}\n\n{comments[2]}", before)
    assert times == 1, f"{page.name} has {times} parts {part}"
    page.write_text(after, "utf-8")
