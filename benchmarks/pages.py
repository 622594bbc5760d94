"""Update the measured parts of documentation pages; commands do this, not tests."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def read_part(page: Path, part: str) -> str:
    """Return the text between the two comments of a part."""
    text = page.read_text("utf-8")
    found = re.search(rf"<!-- measured: {part} -->\n(.*?)<!-- /measured -->", text, re.DOTALL)
    assert found is not None, f"{page.name} has no part {part}"
    return found[1].strip()


def write_part(page: Path, part: str, text: str) -> None:
    """Replace the text between the two comments of a part."""
    before = page.read_text("utf-8")
    pattern = re.compile(rf"(<!-- measured: {part} -->\n).*?(<!-- /measured -->)", re.DOTALL)
    after, times = pattern.subn(lambda comments: f"{comments[1]}\n{text.rstrip()}\n\n{comments[2]}", before)
    assert times == 1, f"{page.name} has {times} parts {part}"
    page.write_text(after, "utf-8")
